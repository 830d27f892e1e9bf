//! Detects and reports wrong clocks, and transfers leadership away from a node whose clock is
//! wrong.
//!
//! A leader with a wrong clock stamps its entries with the time of the majority, and transfers
//! leadership to a voter whose clock is right. Without such a voter it continues to lead.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use seqd_guards::is_out;
use seqd_state::NodeId;
use seqd_state::idgen::{Agreement, Line, Standing};
use tokio::time::{Instant, timeout};

use super::next_beat;
use crate::clocks::{Clocks, MemberClock};
use crate::context::{ClusterView as _, NodeContext};
use crate::membership::leader;
use crate::replica::Replica;

/// Time between two checks: several in the second between two measurements, so that a step of this
/// node's own clock is detected at once.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Number of consecutive checks that find a leader's clock wrong before it transfers leadership. A
/// single one may result from an exchange that was delayed on the machine.
const CERTAIN: u32 = 2;

/// Pause before a failed transfer is retried.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

pub(crate) async fn watch(context: Arc<NodeContext>, replica: Arc<Replica>) {
    let mut logged = Logged::default();
    let mut wrong = 0;
    let mut tried: Option<Instant> = None;
    while !context.is_stopped() {
        let clocks = look(&context, &replica);
        let standing = clocks.standing(context.settings.clock.wall());
        context.set_clocks(clocks.clone());
        logged.log(&clocks, &replica);
        wrong = match standing {
            Standing::Wrong { .. } => wrong + 1,
            _ => 0,
        };
        let may_try = tried.is_none_or(|at| at.elapsed() >= AGAIN_AFTER);
        if wrong >= CERTAIN && may_try && replica.is_leader() && !is_out!(WrongLeaderHandsOver) {
            hand_over(&context, &replica, &clocks).await;
            tried = Some(Instant::now());
        }
        next_beat(&context, LOOK_EVERY).await;
    }
}

/// Compares the clocks of all members, as last measured.
pub(super) fn look(context: &NodeContext, replica: &Replica) -> Clocks {
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

/// Transfers leadership to a voter whose clock is right, if one can take it over.
async fn hand_over(context: &NodeContext, replica: &Replica, clocks: &Clocks) {
    let Some(target) = leader::best_transfer_target(context, replica) else {
        return;
    };
    if !clocks.is_right(target) {
        return;
    }
    tracing::warn!("this node's clock is wrong: the node transfers its leadership");
    let patience = context.settings.election.1;
    let _ = timeout(patience, leader::transfer_leadership(replica, target)).await;
}

/// The state that was last logged, so that each change is logged once.
#[derive(Default)]
struct Logged {
    standings: BTreeMap<NodeId, Standing>,
    is_split: bool,
}

impl Logged {
    fn log(&mut self, clocks: &Clocks, replica: &Replica) {
        let is_split = clocks.agreement == Agreement::Split;
        if is_split && !self.is_split {
            tracing::warn!(
                "no majority of the clocks agrees, so the wrong clock cannot be determined; the \
                 nodes that disagree issue no IDs"
            );
        }
        self.is_split = is_split;
        for (node, clock) in &clocks.members {
            let before = self.standings.get(node).copied();
            let name = || {
                replica
                    .member(node.0)
                    .map_or_else(String::new, |member| member.name)
            };
            match (before, clock.standing) {
                (Some(Standing::Wrong { .. }), Standing::Wrong { .. }) => {}
                (_, Standing::Wrong { ahead_ms }) => {
                    let (member, own) = (name(), node.0 == replica.node);
                    tracing::warn!(
                        member,
                        own,
                        ahead_ms,
                        "a clock is wrong: it differs from a majority of the clocks; correct it"
                    );
                }
                (Some(Standing::Wrong { .. }), Standing::Right) => {
                    tracing::info!(member = name(), "the clock is correct again");
                }
                _ => continue,
            }
            self.standings.insert(*node, clock.standing);
        }
    }
}
