//! The membership on which a change is based, and the check that its majorities answer now.
//!
//! Every configuration counts by itself: both halves of a joint configuration need a majority, and
//! an entry that cannot reach them stops the cluster. A change is therefore proposed only if enough
//! voters acknowledged something just now, and only on top of the membership that was checked.

use std::collections::{BTreeMap, BTreeSet};

use openraft::async_runtime::WatchReceiver;
use openraft::raft::Precondition;
use seqd_guards::is_out;

use crate::context::NodeContext;
use crate::leadership::Leading;
use crate::quorum::{self, Configs};
use crate::replica::Replica;
use crate::types::{self, LogId, Member, TypeConfig};

/// Largest lag of a learner for a promotion, and of a voter for a transfer of leadership, in
/// entries: less than a second of full load.
pub(super) const MAY_LAG: u64 = 1_000;

/// The membership in force at the leader, committed or not, at the time of the check.
pub(crate) struct MembershipInForce {
    log_id: Option<LogId>,
    /// More than one during a change.
    configs: Configs,
    nodes: BTreeMap<u64, Member>,
}

impl MembershipInForce {
    pub(crate) fn of(replica: &Replica) -> Self {
        let metrics = replica.raft.metrics();
        let metrics = metrics.borrow_watched();
        let stored = &metrics.membership_config;
        let membership = stored.membership();
        let nodes = membership.nodes();
        Self {
            log_id: *stored.log_id(),
            configs: membership.get_joint_config().clone(),
            nodes: nodes.map(|(id, member)| (*id, member.clone())).collect(),
        }
    }

    /// The voters after the latest change.
    pub(super) fn voters(&self) -> BTreeSet<u64> {
        self.configs.last().cloned().unwrap_or_default()
    }

    pub(super) fn nodes(&self) -> &BTreeMap<u64, Member> {
        &self.nodes
    }

    /// The conditions that must still hold when a change is proposed.
    pub(super) fn preconditions(&self, leading: Leading) -> [Precondition<TypeConfig>; 2] {
        let committed_leader_id = *types::log_id(leading.term, 0).committed_leader_id();
        [
            Precondition::CommittedLeaderId {
                committed_leader_id,
            },
            Precondition::LastMembershipLogId {
                last_membership_log_id: self.log_id,
            },
        ]
    }

    /// Returns whether these voters make a majority of each configuration in force.
    pub(crate) fn has_majorities(&self, is_counted: impl Fn(u64) -> bool) -> bool {
        quorum::has_majorities(&self.configs, is_counted)
    }

    /// Checks that a majority of these voters and of each configuration in force answers now. The
    /// error is the reason.
    pub(super) fn check_majority(
        &self,
        context: &NodeContext,
        replica: &Replica,
        voters: &BTreeSet<u64>,
    ) -> Result<(), String> {
        for config in self.configs.iter().chain([voters]) {
            let needed = config.len() / 2 + 1;
            let silence = |id: &u64| {
                let name = self.nodes.get(id).map_or("", |member| &member.name);
                silence(context, replica, *id, name)
            };
            let silent: Vec<String> = config.iter().filter_map(silence).collect();
            let alive = config.len() - silent.len();
            if alive < needed && !is_out!(MajorityAnswers) {
                return Err(format!(
                    "of {} voters, {needed} must respond, but only {alive} do: {}; bring a node \
                     back first",
                    config.len(),
                    silent.join(", ")
                ));
            }
        }
        Ok(())
    }
}

/// The reason why a node does not count as answering this leader now; `None` if it does.
pub(super) fn silence(
    context: &NodeContext,
    replica: &Replica,
    node: u64,
    name: &str,
) -> Option<String> {
    if node == replica.node {
        return None;
    }
    // A refusal may be later than the last acknowledgement.
    let is_reachable = context.peer(node).is_reachable();
    match replica.silence_of(node) {
        Some(_) if is_reachable && replica.answers_now(node) => None,
        Some(since) => Some(format!(
            "{name} does not respond: its last response was {} ms ago",
            since.as_millis()
        )),
        None => Some(format!("{name} has not responded to this leader yet")),
    }
}
