//! The bound of the timestamps that leaders may have issued.
//!
//! Invariant: the bound falls only by the return of the leader whose grant set it, in the order of
//! the log, to the last millisecond that this leader used. So no leader is granted a millisecond
//! that an earlier one has used.

use seqd_idgen::WallMs;
use serde::{Deserialize, Serialize};

use super::commands::ClusterOutcome;
use crate::table::{Table, record};

/// The maximum number of milliseconds by which a timestamp may be ahead of a majority's clocks.
pub(crate) const MAX_TIMESTAMPS_AHEAD_MS: u64 = 1000;

/// The last millisecond for which timestamps were granted to a leader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TimestampBound {
    pub(crate) upto_ms: u64,
}

record!(TimestampBound, kind 27, version 1, prefix b'o', key ());

impl Table<TimestampBound> {
    pub(crate) fn bound(&self) -> WallMs {
        WallMs(self.get(&()).map_or(0, |bound| bound.upto_ms))
    }

    /// `floor` is the bound of this cluster and of the clusters that it replaces.
    pub(crate) fn raise(&mut self, floor: WallMs, upto: WallMs) -> ClusterOutcome {
        let before = self.bound().max(floor);
        self.set(before, before.max(upto))
    }

    pub(crate) fn give_back(&mut self, granted: WallMs, used: WallMs) -> ClusterOutcome {
        let before = self.bound();
        let upto = if granted == before {
            used.min(before)
        } else {
            before
        };
        self.set(before, upto)
    }

    fn set(&mut self, before: WallMs, upto: WallMs) -> ClusterOutcome {
        if upto != before {
            self.put((), TimestampBound { upto_ms: upto.0 });
        }
        ClusterOutcome::TimestampsBounded { before, upto }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::commands::ClusterCommand;
    use crate::domains::Outcome;
    use crate::state::State;
    use crate::testing::{entry, founded, restore};

    fn bounded(state: &mut State, command: ClusterCommand) -> (u64, u64) {
        let outcomes = state.apply(&entry(1, vec![command.into()]), None);
        let [Outcome::Cluster(ClusterOutcome::TimestampsBounded { before, upto })] = outcomes[..]
        else {
            panic!("{outcomes:?}");
        };
        assert_eq!(state.timestamp_bound(), upto);
        let read_back = State::from_rows(state.rows()).unwrap();
        assert_eq!(read_back.timestamp_bound(), upto);
        (before.0, upto.0)
    }

    #[test]
    fn the_bound_falls_only_by_the_return_of_the_grant_that_set_it() {
        let mut state = founded();
        assert_eq!(state.timestamp_bound(), WallMs(0));
        let raise = |upto| ClusterCommand::RaiseTimestamps { upto: WallMs(upto) };
        let give_back = |granted, used| ClusterCommand::ReturnTimestamps {
            granted: WallMs(granted),
            used: WallMs(used),
        };
        assert_eq!(bounded(&mut state, raise(100)), (0, 100));
        assert_eq!(
            bounded(&mut state, raise(90)),
            (100, 100),
            "it never falls by a grant"
        );
        assert_eq!(
            bounded(&mut state, give_back(90, 10)),
            (100, 100),
            "of an earlier grant"
        );
        assert_eq!(
            bounded(&mut state, give_back(100, 200)),
            (100, 100),
            "nor does it rise"
        );
        assert_eq!(bounded(&mut state, give_back(100, 60)), (100, 60));
        assert_eq!(
            bounded(&mut state, give_back(100, 10)),
            (60, 60),
            "repeated"
        );
        assert_eq!(bounded(&mut state, raise(70)), (60, 70));
    }

    #[test]
    fn a_restored_cluster_begins_past_the_timestamps_of_the_old_one() {
        let mut state = founded();
        bounded(
            &mut state,
            ClusterCommand::RaiseTimestamps { upto: WallMs(100) },
        );
        restore(&mut state);
        let raise = ClusterCommand::RaiseTimestamps { upto: WallMs(1) };
        let outcomes = state.apply(&entry(1, vec![raise.clone().into()]), None);
        let [Outcome::Refused(refusal)] = &outcomes[..] else {
            panic!("{outcomes:?}");
        };
        assert!(refusal.to_string().contains("restored"), "{refusal}");
        let wall_ms = WallMs(50_000);
        let stamp = ClusterCommand::StampRestoration { wall_ms };
        state.apply(&entry(1, vec![stamp.into()]), None);
        let skew_ms = state.settings().unwrap().max_peer_skew_ms;
        let floor = 50_000 + MAX_TIMESTAMPS_AHEAD_MS + 2 * skew_ms;
        assert_eq!(
            state.timestamp_bound(),
            WallMs(floor),
            "issued again after a restore"
        );
        assert_eq!(bounded(&mut state, raise), (floor, floor));
    }
}
