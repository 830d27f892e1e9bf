//! The wall clocks of the members: which agree with a majority of them, and the time that a leader
//! stamps its entries with.

use std::collections::BTreeMap;

use seqd_guards::is_out;
use seqd_state::NodeId;
use seqd_state::idgen::{Agreement, Line, Standing, WallMs};
use tokio::time::Instant;

use crate::context::{ClusterView, NodeContext};
use crate::leadership::Leading;
use crate::replica::Replica;

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
    agreed: Option<Line>,
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

/// Looks at the clocks of all members.
pub(crate) fn look(context: &NodeContext, replica: &Replica) -> Clocks {
    let (voters, limit_ms): (Vec<u64>, u64) = {
        let core = replica.applied.read();
        let agreed = core
            .state
            .settings()
            .map(|settings| settings.max_peer_skew_ms);
        let limit_ms = agreed.unwrap_or(context.settings.max_peer_skew_ms);
        (core.membership.voter_ids().collect(), limit_ms)
    };
    let since = context.clock_since;
    let own = Line::of(context.settings.clock.wall(), since.elapsed(), 0);
    let line_of = |node: u64| {
        if node == replica.node {
            return Some(own);
        }
        context.peer(node).clock().map(|measured| measured.line)
    };
    let known: Vec<Line> = voters.iter().filter_map(|node| line_of(*node)).collect();
    let agreement = Agreement::of(voters.len(), &known, limit_ms);
    let members = replica.members().into_keys().map(|node| {
        let standing = line_of(node).map_or(Standing::Unknown, |line| agreement.judge(line));
        let drift_ppm = context.peer(node).drift.ppm();
        (
            NodeId(node),
            MemberClock {
                standing,
                drift_ppm,
            },
        )
    });
    Clocks {
        agreement,
        since,
        is_alone: voters == [replica.node],
        members: members.collect(),
        agreed: match (agreement, agreement.judge(own)) {
            (_, Standing::Right) => Some(own),
            (Agreement::Agreed(agreed), _) => Some(agreed.middle()),
            _ => context.clocks().agreed,
        },
    }
}

/// The wall-clock time that an entry is stamped with under this leadership: by this node's clock
/// where that agrees with a majority; else by the time of the majority, as it is or as it was last
/// known and has gone on since by the monotonic clock. In a process that has known none it is the
/// time of the last stamp before this leadership that goes on.
pub(crate) fn stamp(context: &NodeContext, leading: Leading) -> WallMs {
    let wall = context.settings.clock.wall();
    let clocks = context.clocks();
    let is_right = clocks.is_alone || clocks.standing(wall) == Standing::Right;
    if is_right || is_out!(StampOfMajority) {
        return wall;
    }
    let of_majority = clocks
        .agreed
        .map(|line| line.wall_at(clocks.since.elapsed()));
    let goes_on = of_majority.or_else(|| leading.stamped_before());
    goes_on.unwrap_or(wall)
}
