//! The wall clocks of the members as this node last measured them: which clocks agree with a
//! majority, and that majority's time.

use std::collections::BTreeMap;

use seqd_state::NodeId;
use seqd_state::idgen::{Agreement, Line, Standing, WallMs};
use tokio::time::Instant;

/// The clocks at one moment, as this node has measured them.
#[derive(Clone, Debug)]
pub struct Clocks {
    /// The agreement of a majority of the voters' clocks. Lines are relative to the monotonic clock
    /// since `since`.
    pub agreement: Agreement,
    pub since: Instant,
    /// True if this node is the only voter, so that there is no other clock to compare.
    pub is_alone: bool,
    /// The members, with the standing of their clocks.
    pub members: BTreeMap<NodeId, MemberClock>,
    /// The line of the right time when a majority last agreed.
    pub(crate) agreed: Option<Line>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemberClock {
    pub standing: Standing,
    /// The rate at which the member's clock gains on this node's clock, in microseconds per second;
    /// `None` while unknown.
    pub drift_ppm: Option<f64>,
}

impl Clocks {
    /// The state before any clock is known.
    pub(crate) fn unknown(since: Instant) -> Self {
        Self {
            agreement: Agreement::Unknown,
            since,
            is_alone: false,
            members: BTreeMap::new(),
            agreed: None,
        }
    }

    /// The clock of a process without peers, for tests of its users.
    #[must_use]
    pub fn alone() -> Self {
        Self {
            is_alone: true,
            ..Self::unknown(Instant::now())
        }
    }

    /// The line of this node's clock, which currently shows `wall`.
    #[must_use]
    pub fn own_line(&self, wall: WallMs) -> Line {
        Line::of(wall, self.since.elapsed(), 0)
    }

    /// The standing of this node's clock, which currently shows `wall`, against the majority.
    /// Unknown for a node without other voters.
    #[must_use]
    pub fn standing(&self, wall: WallMs) -> Standing {
        if self.is_alone {
            return Standing::Unknown;
        }
        self.agreement.judge(self.own_line(wall))
    }

    /// Returns whether the standing of this node's clock is known, or there is no other clock to
    /// compare.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.is_alone || self.agreement != Agreement::Unknown
    }

    /// The first and the last line that is right, in milliseconds. The range is empty if the second
    /// is less than the first. `None` if there is no other clock to compare, or the agreement is
    /// not known.
    #[must_use]
    pub fn right_lines(&self) -> Option<(i64, i64)> {
        match self.agreement {
            _ if self.is_alone => None,
            Agreement::Unknown => None,
            Agreement::Split => Some((i64::MAX, i64::MIN)),
            Agreement::Agreed(agreed) => Some(agreed.right()),
        }
    }

    /// The time: that of this node's clock, `wall`, unless a majority agrees without it; `None` if
    /// the clocks are split, so that no majority agrees.
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

    /// The number of milliseconds by which a member's clock is ahead, if it is wrong.
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

/// A clock's offset from another, in messages before the name of the other: `3 ms behind`, or `3 ms
/// ahead of`.
pub(crate) fn distance(ahead_ms: i64) -> String {
    let side = if ahead_ms < 0 { "behind" } else { "ahead of" };
    format!("{} ms {side}", ahead_ms.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_has_a_side_and_no_sign() {
        assert_eq!(distance(-16_000), "16000 ms behind");
        assert_eq!(distance(3), "3 ms ahead of");
    }
}
