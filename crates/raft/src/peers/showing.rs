//! A start shows itself before its Raft runs: what it has on its disk, to everybody it knows of.
//!
//! It needs one answer of another voter of its cluster, and gives the rest one election time to
//! answer. None may know a reason against this start. Peers answer while they themselves still
//! wait for an answer, so a whole cluster can start at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::introduction::consider;
use crate::handle::{Phase, Stop};
use crate::local::Local;
use crate::storage::folder::{self, Identity};
use crate::storage::opening::Loaded;
use crate::wire::hello::{self, HELLO_LIMIT, Round};
use crate::wire::messages::{HelloReply, Standing};

/// Pause between two rounds of hellos.
pub(crate) const ROUND: Duration = Duration::from_millis(200);

/// Pause between two rounds while only the rest is waited for.
const ROUND_FOR_THE_REST: Duration = Duration::from_millis(50);

/// Time between two greetings of addresses where a node of an ancestor may run.
const GREET_EVERY: Duration = Duration::from_secs(2);

/// Whom a start shows itself to, as its folder has it.
pub(crate) struct Audience {
    /// Addresses by name, beside the configured peers.
    others: BTreeMap<String, String>,
    needed: Needed,
}

/// Whose answer a start cannot do without.
enum Needed {
    /// That of another voter.
    Voter,
    /// Those of the peers with these names, of whom this folder knows nothing: any of them may be
    /// a voter. A copy from the time when this node was alone must not go on alone.
    Word(BTreeSet<String>),
    /// Nobody's: this node is the only voter.
    Nobody,
}

impl Audience {
    /// By identity, checkpoint and configuration.
    pub(crate) fn of(local: &Local, identity: &Identity, loaded: &Loaded) -> Self {
        Self {
            others: addresses(identity, loaded),
            needed: Needed::of(local, identity, loaded),
        }
    }
}

/// Shows this start to the peers; returns when it may take part.
pub(crate) async fn show_up(
    local: &Local,
    identity: &Identity,
    audience: Audience,
) -> Result<(), Stop> {
    let Audience { others, needed } = audience;
    let patience = local.settings.election.1;
    let limit = HELLO_LIMIT.min(patience);
    let alone = matches!(needed, Needed::Nobody);
    let mut welcome_since = alone.then(Instant::now);
    let mut welcomed = false;
    loop {
        let began = Instant::now();
        let round = hello::hello_all(local, &others, limit).await;
        let mut silent = 0;
        for (_, answer) in round.values() {
            let Ok(reply) = answer else {
                silent += 1;
                continue;
            };
            if consider(local, reply)?.is_some() && reply.votes {
                welcome_since.get_or_insert(began);
                welcomed = true;
            }
        }
        // A voter of the own cluster outweighs a stranger at some other member's address, also when
        // it is silent a moment later.
        if !welcomed {
            refuse_foreign(local, identity, &round)?;
        }
        if let Needed::Word(names) = &needed
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
                local.set_phase(Phase::Waiting { reason });
                tokio::time::sleep(ROUND).await;
            }
        }
    }
}

/// A restored cluster greets, again and again, the configured addresses that are not its members':
/// a node of its ancestor that runs there must hear of it.
pub(crate) async fn greet_strangers(local: Arc<Local>) {
    while !local.is_stopped() {
        tokio::time::sleep(GREET_EVERY).await;
        let Some(replica) = local.replica.get() else {
            continue;
        };
        if local.with_identity(|own| own.ancestors.is_empty()) != Some(false) {
            continue;
        }
        let members: BTreeSet<String> = replica
            .members()
            .into_values()
            .map(|member| member.peer)
            .collect();
        let mut strangers = hello::peer_list(&local);
        strangers.retain(|name, addr| *name != local.settings.name && !members.contains(addr));
        // Whoever must stop for it does so by itself; the answers say nothing to a running node.
        hello::hello_each(&local, strangers, HELLO_LIMIT).await;
    }
}

/// Who else may know something: the members as of the checkpoint, and those that the identity
/// names, which for a restored cluster may be at the addresses of its ancestor.
fn addresses(identity: &Identity, loaded: &Loaded) -> BTreeMap<String, String> {
    let mut others: BTreeMap<String, String> = loaded
        .membership
        .nodes()
        .map(|(_, member)| (member.name.clone(), member.peer.clone()))
        .collect();
    for member in &identity.members {
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
    fn of(local: &Local, identity: &Identity, loaded: &Loaded) -> Self {
        let mut voters: BTreeSet<u64> = loaded.membership.voter_ids().collect();
        if voters.is_empty() {
            voters = identity.members.iter().map(|member| member.node).collect();
        }
        if voters.iter().any(|voter| *voter != identity.node) {
            return Self::Voter;
        }
        // A restored cluster begins with the members that it was given.
        if !identity.ancestors.is_empty() {
            return Self::Nobody;
        }
        let is_known = |name: &str| {
            name == local.settings.name || loaded.state.nodes().any(|(_, known)| known.name == name)
        };
        let configured = local.settings.peers.iter().map(|peer| peer.name.clone());
        let strangers: BTreeSet<String> = configured.filter(|name| !is_known(name)).collect();
        if strangers.is_empty() {
            Self::Nobody
        } else {
            Self::Word(strangers)
        }
    }
}

/// A folder whose peers are of another cluster is in the wrong place.
fn refuse_foreign(local: &Local, identity: &Identity, round: &Round) -> Result<(), Stop> {
    let mut foreign = BTreeMap::<&str, usize>::new();
    for (_, answer) in round.values() {
        let Ok(HelloReply {
            standing: Standing::Member {
                cluster_id, leader, ..
            },
            ..
        }) = answer
        else {
            continue;
        };
        if *cluster_id != identity.cluster_id && !identity.ancestors.contains(cluster_id) {
            // A peer that has a leader speaks for a quorum of its cluster.
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
    Err(folder::refusal(
        "foreign-folder",
        format!(
            "{} belongs to cluster {}, and the peers are of cluster {cluster_id}; give this node \
             its own folder, or remove it there, empty this one and add it again",
            local.folder.root().display(),
            identity.cluster_id
        ),
    ))
}
