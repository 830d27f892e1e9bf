//! Resets of a node's workers: orders to a node to give up the workers with which it minted ahead
//! of the clock.
//!
//! A reset changes no lease and no fence. The node that applies it closes the generators whose
//! windows lie ahead of the clock and leases other workers, as it does at any start. A worker whose
//! fence is ahead of the clock stays unusable up to that fence for every caller, because uniqueness
//! depends on the fence.

use serde::{Deserialize, Serialize};

use super::commands::ClusterOutcome;
use super::settings::{Counter, draw};
use crate::newtypes::NodeId;
use crate::table::{Table, record};

/// The latest reset of a node. The node stores the number on its disk after it has carried out the
/// reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResetRecord {
    /// Drawn from the counter of tokens, so that it is larger than every earlier number, also in a
    /// cluster that replaces this one.
    pub(crate) number: u64,
}

record!(ResetRecord, kind 26, version 1, prefix b'r', key NodeId);

impl Table<ResetRecord> {
    pub(crate) fn order(&mut self, counter: &mut Table<Counter>, node: NodeId) -> ClusterOutcome {
        let number = draw(counter);
        self.put(node, ResetRecord { number });
        ClusterOutcome::WorkersReset { node, number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::commands::{ClusterCommand, ClusterRefusal};
    use crate::domains::{Outcome, Refusal};
    use crate::state::State;
    use crate::testing::{entry, founded, restore};

    fn apply(state: &mut State, command: ClusterCommand) -> Outcome {
        let mut outcomes = state.apply(&entry(1, vec![command.into()]), None);
        outcomes.pop().unwrap()
    }

    #[test]
    fn each_reset_of_a_member_has_a_larger_number() {
        let mut state = founded();
        let node = NodeId(1);
        let mut before = None;
        for _ in 0..3 {
            let outcome = apply(&mut state, ClusterCommand::ResetWorkers { node });
            let number = state.reset_of(node).unwrap();
            let expected = ClusterOutcome::WorkersReset { node, number };
            assert_eq!(outcome, Outcome::Cluster(expected));
            assert!(before < Some(number));
            before = Some(number);
        }
        let node = NodeId(77);
        let unknown = apply(&mut state, ClusterCommand::ResetWorkers { node });
        let refusal = Refusal::Cluster(ClusterRefusal::UnknownNode { node });
        assert_eq!(unknown, Outcome::Refused(refusal));
    }

    #[test]
    fn a_removed_member_and_a_restored_cluster_have_no_reset() {
        for removes in [true, false] {
            let mut state = founded();
            let node = NodeId(1);
            apply(&mut state, ClusterCommand::ResetWorkers { node });
            if removes {
                apply(&mut state, ClusterCommand::MarkRemoved { node });
                let again = apply(&mut state, ClusterCommand::ResetWorkers { node });
                let refusal = Refusal::Cluster(ClusterRefusal::NodeRemoved { node });
                assert_eq!(again, Outcome::Refused(refusal));
            } else {
                restore(&mut state);
            }
            assert_eq!(state.reset_of(node), None);
        }
    }
}
