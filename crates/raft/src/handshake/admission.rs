//! Admission: before its Raft runs, a start sends every peer the position that is on its disk.
//!
//! The start needs one answer from another voter of its cluster, and waits up to one election time
//! for the rest. No peer may have an objection to this start. Peers answer while they still wait
//! for answers themselves, so that a whole cluster can start at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use seqd_peers::wire::hello::{HelloReply, Standing};
use seqd_store::folder::Identity;
use tokio::time::Instant;

use super::hello::{self, HELLO_LIMIT, ROUND, Round};
use super::introduce::{is_sibling, judge_reply};
use crate::context::NodeContext;
use crate::handle::{Phase, Stop, StopReason};
use crate::storage::opening::LoadedState;

/// Pause between two rounds once only the remaining answers are awaited.
const ROUND_FOR_THE_REST: Duration = Duration::from_millis(50);

/// The peers from which a start requests admission, by its folder.
pub(crate) struct Admission {
    /// Addresses by name, in addition to the configured peers.
    others: BTreeMap<String, String>,
    needed: Needed,
}

/// The answers that a start requires.
enum Needed {
    /// The answer of another voter.
    Voter,
    /// The answers of the peers with these names, which this folder has not recorded. Any of them
    /// may be a voter: a copy from the time when this node was alone must not continue alone.
    Strangers(BTreeSet<String>),
    /// None, because this node is the only voter.
    Nobody,
}

impl Admission {
    /// Derives the peers from identity, checkpoint, log and configuration. `in_log` has the voters
    /// of the last membership that the checkpoint does not contain.
    pub(crate) fn of(
        context: &NodeContext,
        identity: &Identity,
        loaded: &LoadedState,
        in_log: Option<BTreeSet<u64>>,
    ) -> Self {
        let voters = in_log.unwrap_or_else(|| loaded.membership.voter_ids().collect());
        Self {
            others: addresses(identity, loaded),
            needed: Needed::of(context, identity, loaded, voters),
        }
    }
}

/// Requests admission from the peers. Returns once this start may take part.
pub(crate) async fn ask(
    context: &NodeContext,
    identity: &Identity,
    admission: Admission,
) -> Result<(), Stop> {
    let Admission { others, needed } = admission;
    let patience = context.settings.election.1;
    let limit = HELLO_LIMIT.min(patience);
    let alone = matches!(needed, Needed::Nobody);
    let mut welcome_since = alone.then(Instant::now);
    let mut welcomed = false;
    loop {
        let began = Instant::now();
        let round = hello::hello_all(context, &others, limit).await;
        let mut silent = 0;
        for (_, answer) in round.values() {
            let Ok(reply) = answer else {
                silent += 1;
                continue;
            };
            if judge_reply(context, reply)?.is_some() && reply.votes {
                welcome_since.get_or_insert(began);
                welcomed = true;
            }
        }
        // A voter of this cluster outweighs a foreign node at another member's address, even if the
        // voter is silent a moment later.
        if !welcomed {
            refuse_foreign(context, identity, &round)?;
        }
        if let Needed::Strangers(names) = &needed
            && names.iter().all(|name| has_answered(&round, name))
        {
            welcome_since.get_or_insert(began);
        }
        match welcome_since {
            Some(since) if silent == 0 || since.elapsed() >= patience => return Ok(()),
            Some(_) => tokio::time::sleep(ROUND_FOR_THE_REST).await,
            None => {
                let reason = hello::missing(&round).unwrap_or_else(|| {
                    "waiting for quorum: no voter of this cluster has answered".to_owned()
                });
                context.set_phase(Phase::Waiting { reason });
                tokio::time::sleep(ROUND).await;
            }
        }
    }
}

/// The nodes that may have an objection: the members as of the checkpoint, and those of the
/// identity. In a restored cluster, these may be at the addresses of its ancestor.
fn addresses(identity: &Identity, loaded: &LoadedState) -> BTreeMap<String, String> {
    let mut others: BTreeMap<String, String> = loaded
        .membership
        .nodes()
        .map(|(_, member)| (member.name.clone(), member.peer.clone()))
        .collect();
    for (_, member) in &identity.members {
        others
            .entry(member.name.clone())
            .or_insert_with(|| member.peer.clone());
    }
    others
}

fn has_answered(round: &Round, name: &str) -> bool {
    round.get(name).is_some_and(|(_, answer)| answer.is_ok())
}

impl Needed {
    fn of(
        context: &NodeContext,
        identity: &Identity,
        loaded: &LoadedState,
        mut voters: BTreeSet<u64>,
    ) -> Self {
        if voters.is_empty() {
            voters = identity.members.iter().map(|(node, _)| *node).collect();
        }
        if voters.iter().any(|voter| *voter != identity.node) {
            return Self::Voter;
        }
        // A restored cluster begins with the members that it was given.
        if !identity.ancestors.is_empty() {
            return Self::Nobody;
        }
        let is_known = |name: &str| {
            name == context.settings.name
                || loaded.state.nodes().any(|(_, known)| known.name == name)
        };
        let configured = context.settings.peers.iter().map(|peer| peer.name.clone());
        let strangers: BTreeSet<String> = configured.filter(|name| !is_known(name)).collect();
        if strangers.is_empty() {
            Self::Nobody
        } else {
            Self::Strangers(strangers)
        }
    }
}

/// Refuses a folder whose peers belong to another cluster, because it is in the wrong place.
fn refuse_foreign(context: &NodeContext, identity: &Identity, round: &Round) -> Result<(), Stop> {
    let mut foreign = BTreeMap::<&str, usize>::new();
    for (_, answer) in round.values() {
        let Ok(HelloReply {
            standing: Standing::Member {
                cluster_id, leader, ..
            },
            identity: theirs,
            ..
        }) = answer
        else {
            continue;
        };
        // Of two clusters that were made from one, the later one stops.
        if theirs
            .as_ref()
            .is_some_and(|theirs| is_sibling(identity, theirs))
        {
            continue;
        }
        if *cluster_id != identity.cluster_id && !identity.ancestors.contains(cluster_id) {
            // A peer that has a leader counts as a quorum of its cluster.
            let weight = if leader.is_some() { round.len() } else { 1 };
            *foreign.entry(cluster_id).or_default() += weight;
        }
    }
    let other = foreign
        .iter()
        .find(|(_, weight)| **weight * 2 > round.len() + 1);
    let Some((cluster_id, _)) = other else {
        return Ok(());
    };
    Err(Stop::new(
        StopReason::ForeignFolder,
        format!(
            "{} belongs to cluster {}, and the peers are of cluster {cluster_id}; give this node \
             its own folder, or remove it there, empty this one and add it again",
            context.folder.root().display(),
            identity.cluster_id
        ),
    ))
}
