//! The wall clocks of the members as this node last measured them: which clocks agree with a
//! majority, and which time that majority shows.

use std::collections::BTreeMap;

use seqd_state::NodeId;
use seqd_state::idgen::{Agreement, Line, Standing, WallMs};
use tokio::time::Instant;

/// The clocks at one moment, as this node has measured them.
#[derive(Clone, Debug)]
pub struct Clocks {
    /// Whether a majority of the voters' clocks agrees. Lines are against the monotonic clock since `since`.
    pub agreement: Agreement,
    pub since: Instant,
    /// Whether this node is the only voter: there is no other clock to ask.
    pub is_alone: bool,
    /// The members, with what is said of their clocks.
    pub members: BTreeMap<NodeId, MemberClock>,
    /// The line of the right time when a majority last agreed.
    pub(crate) agreed: Option<Line>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemberClock {
    pub standing: Standing,
    /// How fast it gains on this node's clock, in microseconds a second; `None` while that is not
    /// known.
    pub drift_ppm: Option<f64>,
}

impl Clocks {
    /// Before any clock is known.
    pub(crate) fn unknown(since: Instant) -> Self {
        Self {
            agreement: Agreement::Unknown,
            since,
            is_alone: false,
            members: BTreeMap::new(),
            agreed: None,
        }
    }

    /// The clock of a process without peers, for tests of what follows it.
    #[must_use]
    pub fn alone() -> Self {
        Self {
            is_alone: true,
            ..Self::unknown(Instant::now())
        }
    }

    /// The line of this node's clock, which shows `wall` now.
    #[must_use]
    pub fn own_line(&self, wall: WallMs) -> Line {
        Line::of(wall, self.since.elapsed(), 0)
    }

    /// Whether this node's clock, which shows `wall` now, agrees with the majority. Not known of a node
    /// that has nobody to ask.
    #[must_use]
    pub fn standing(&self, wall: WallMs) -> Standing {
        if self.is_alone {
            return Standing::Unknown;
        }
        self.agreement.judge(self.own_line(wall))
    }

    /// Whether it is known if this node's clock agrees with others, or there is nobody to ask.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.is_alone || self.agreement != Agreement::Unknown
    }

    /// The first and the last line that is right, in milliseconds, none where the second is less;
    /// `None` where others cannot be asked.
    #[must_use]
    pub fn right_lines(&self) -> Option<(i64, i64)> {
        match self.agreement {
            _ if self.is_alone => None,
            Agreement::Unknown => None,
            Agreement::Split => Some((i64::MAX, i64::MIN)),
            Agreement::Agreed(agreed) => Some(agreed.right()),
        }
    }

    /// The time: what this node's clock shows, `wall`, unless a majority agrees without it; `None` where
    /// no majority agrees.
    #[must_use]
    pub fn right_time(&self, wall: WallMs) -> Option<WallMs> {
        match (self.standing(wall), self.agreement) {
            (Standing::Split, _) => None,
            (Standing::Wrong { .. }, Agreement::Agreed(agreed)) => {
                Some(agreed.middle().wall_at(self.since.elapsed()))
            }
            _ => Some(wall),
        }
    }

    /// By how many milliseconds the clock of a member is ahead, if it is wrong.
    pub(crate) fn wrong_by(&self, node: u64) -> Option<i64> {
        match self.members.get(&NodeId(node))?.standing {
            Standing::Wrong { ahead_ms } => Some(ahead_ms),
            _ => None,
        }
    }

    pub(crate) fn is_right(&self, node: u64) -> bool {
        let member = self.members.get(&NodeId(node));
        member.is_some_and(|member| member.standing == Standing::Right)
    }
}
