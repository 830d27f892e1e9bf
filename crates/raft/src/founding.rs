//! From an empty folder, or from one that was used before, to a running replica.
//!
//! Founding has two phases. The founder is the listed peer with the smallest name. Once it
//! reaches every listed peer, all of them empty (or prepared by it), and all lists are equal, it
//! syncs its own identity, then gives each its own (`Prepare`); only after all have synced theirs
//! does it write the first entry of the log. After a crash it repeats the same prepare. From the
//! first entry on, an empty folder of a member's name is a lost one and is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::handle::{Phase, Stop};
use crate::identity;
use crate::local::Local;
use crate::peers::showing::{self, Audience, ROUND};
use crate::replica::Replica;
use crate::storage::folder::{self, Identity};
use crate::storage::opening::Storage;
use crate::types::Member;
use crate::wire::hello::{self, HELLO_LIMIT, Round, peer_list};
use crate::wire::messages::{Founder, HelloReply, Prepare, Standing, Taken};
use crate::wire::paths;

/// Brings the node to the point where its replica runs; ends it where it must not run.
pub(crate) async fn bring_up(local: Arc<Local>) {
    let brought = async {
        let identity = become_someone(&local).await?;
        let storage = Storage::open(&local, &identity).await?;
        let pristine = storage.is_pristine();
        local.found_history(!pristine, storage.began());
        let founds = identity.founder && pristine;
        if founds {
            prepare_all(&local, &identity).await?;
        } else {
            if identity.founder {
                finish_founding(&local)?;
            }
            let audience = Audience::of(&local, &identity, &storage.loaded);
            showing::show_up(&local, &identity, audience).await?;
        }
        let replica = Replica::start(&local, &identity, storage).await?;
        if local.replica.set(Arc::clone(&replica)).is_err() {
            return Ok(());
        }
        if founds {
            found(&local, &identity, &replica).await?;
        }
        local.set_phase(Phase::Running);
        replica.watch(&local).await;
        Ok(())
    };
    if let Err(stop) = brought.await {
        local.stop(stop);
    }
}

/// Waits until this node has an identity: its own from before, or one that it is given, or one
/// that it decides on as the founder.
async fn become_someone(local: &Arc<Local>) -> Result<Identity, Stop> {
    if let Some(identity) = local.identity() {
        check_identity(local, &identity)?;
        return Ok(identity);
    }
    loop {
        let taken = local.identity_taken.notified();
        if let Some(identity) = local.identity() {
            return Ok(identity);
        }
        let round = hello::hello_all(local, &BTreeMap::new(), HELLO_LIMIT).await;
        if let Some(identity) = local.identity() {
            return Ok(identity);
        }
        match judge_newcomer(local, &round)? {
            Newcomer::Founds(founders) => {
                let identity = Identity {
                    cluster_id: identity::new_cluster_id(local)?,
                    node: own_id(local, &founders)?,
                    name: local.settings.name.clone(),
                    members: founders,
                    founder: true,
                    joined: false,
                    ancestors: Vec::new(),
                };
                return local
                    .take_identity(identity)
                    .map_err(|e| folder::disk_failure("the identity could not be stored", &e));
            }
            Newcomer::Waits(reason) => local.set_phase(Phase::Waiting { reason }),
        }
        let _ = tokio::time::timeout(ROUND, taken).await;
    }
}

fn check_identity(local: &Local, identity: &Identity) -> Result<(), Stop> {
    let settings = &local.settings;
    if identity.name != settings.name {
        return Err(folder::refusal(
            "foreign-folder",
            format!(
                "{} belongs to node {} (cluster {}), and this node is named {}; give it its own \
                 folder, or an empty one",
                local.folder.root().display(),
                identity.name,
                identity.cluster_id,
                settings.name
            ),
        ));
    }
    let has_log = local.folder.has_log();
    let has_log = has_log.map_err(|e| folder::unusable(&local.folder.wal(), &e))?;
    if !has_log && !identity.founder {
        return Err(wiped(local, &identity.cluster_id, "its log is gone"));
    }
    Ok(())
}

enum Newcomer {
    Founds(Vec<Founder>),
    Waits(String),
}

/// What an empty node does after a round of hellos.
fn judge_newcomer(local: &Local, round: &Round) -> Result<Newcomer, Stop> {
    let name = &local.settings.name;
    for (_, answer) in round.values() {
        let Ok(HelloReply {
            standing:
                Standing::Member {
                    cluster_id,
                    members,
                    ..
                },
            ..
        }) = answer
        else {
            continue;
        };
        if members.contains(name) {
            return Err(wiped(local, cluster_id, "its folder is empty"));
        }
        return Ok(Newcomer::Waits(format!(
            "waiting to be added to cluster {cluster_id}: run `seqd member add {name} {}`",
            local.settings.peer_advertise
        )));
    }
    if !local.settings.peers.iter().any(|peer| peer.name == *name) {
        return Ok(Newcomer::Waits(format!(
            "waiting to be added: {name} is not among the configured peers; run `seqd member add \
             {name} {}` on the cluster",
            local.settings.peer_advertise
        )));
    }
    if let Some(reason) = hello::missing(round) {
        return Ok(Newcomer::Waits(reason));
    }
    let own = peer_list(local);
    let mut https = BTreeMap::from([(name.clone(), local.settings.http_advertise.clone())]);
    for (peer, (_, answer)) in round {
        let Ok(reply) = answer else { continue };
        if reply.name != *peer {
            return Ok(Newcomer::Waits(format!(
                "waiting for quorum: the node at {peer}'s address is named {}",
                reply.name
            )));
        }
        if reply.peers != own {
            return Ok(Newcomer::Waits(format!(
                "waiting for quorum: {peer} lists other peers ({}) than this node ({})",
                list(&reply.peers),
                list(&own)
            )));
        }
        if let Standing::Prepared { cluster_id, .. } = &reply.standing {
            return Ok(Newcomer::Waits(format!(
                "waiting for quorum: {peer} was prepared for cluster {cluster_id}, which is being \
                 founded"
            )));
        }
        https.insert(peer.clone(), reply.http.clone());
    }
    let founder = own.keys().next().cloned().unwrap_or_default();
    if founder != *name {
        return Ok(Newcomer::Waits(format!(
            "waiting for quorum: {founder} founds the cluster"
        )));
    }
    let founders = own.iter().zip(1..).map(|((name, peer), node)| Founder {
        node,
        name: name.clone(),
        peer: peer.clone(),
        http: https.get(name).cloned().unwrap_or_default(),
    });
    Ok(Newcomer::Founds(founders.collect()))
}

fn list(peers: &BTreeMap<String, String>) -> String {
    peers
        .iter()
        .map(|(name, addr)| format!("{name}={addr}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn own_id(local: &Local, founders: &[Founder]) -> Result<u64, Stop> {
    founders
        .iter()
        .find(|founder| founder.name == local.settings.name)
        .map(|founder| founder.node)
        .ok_or_else(|| Stop {
            exit: 10,
            code: "invariant",
            message: "this node founds a cluster that it is not part of".to_owned(),
        })
}

fn wiped(local: &Local, cluster_id: &str, what: &str) -> Stop {
    let name = &local.settings.name;
    folder::refusal(
        "wiped-voter",
        format!(
            "{name} is a member of cluster {cluster_id}, and {what}: a disk that lost its memory \
             must not vote. Put its folder back, or run `seqd member remove {name}` on another \
             node, start this one with an empty folder, and run `seqd member add {name} {}`. (If \
             the cluster never came up, every node's folder may be emptied instead.)",
            local.settings.peer_advertise
        ),
    )
}

/// The founder's first phase; repeated from the start after a crash.
async fn prepare_all(local: &Local, identity: &Identity) -> Result<(), Stop> {
    loop {
        let mut failures = Vec::new();
        let others = identity
            .members
            .iter()
            .filter(|founder| founder.node != identity.node);
        for founder in others {
            let prepare = Prepare {
                cluster_id: identity.cluster_id.clone(),
                founders: identity.members.clone(),
                you: founder.name.clone(),
            };
            let limit = identity::TAKE_LIMIT;
            match hello::ask(local, &founder.peer, paths::PREPARE, prepare, limit).await {
                Ok(Taken::Yes { .. }) => {}
                Ok(Taken::Used) => {
                    // The cluster was founded, so this log is not new: it was lost.
                    return Err(wiped(local, &identity.cluster_id, "its log is gone"));
                }
                Ok(Taken::No { why }) => failures.push(format!("{}: {why}", founder.name)),
                Err(error) => failures.push(format!("{} {error}", founder.peer)),
            }
        }
        if failures.is_empty() {
            return Ok(());
        }
        local.set_phase(Phase::Waiting {
            reason: format!(
                "waiting for quorum: founding cluster {} ({}). Nothing was stored in it yet: if a \
                 peer will not come back, every node's folder may be emptied",
                identity.cluster_id,
                failures.join(", ")
            ),
        });
        tokio::time::sleep(ROUND).await;
    }
}

/// The founder's second phase, once all have synced their identities: the first entry of the log.
async fn found(local: &Local, identity: &Identity, replica: &Replica) -> Result<(), Stop> {
    let members = identity.members.iter().map(|founder| {
        let Founder {
            node,
            name,
            peer,
            http,
        } = founder.clone();
        (node, Member { name, peer, http })
    });
    replica.found(members.collect()).await?;
    finish_founding(local)
}

fn finish_founding(local: &Local) -> Result<(), Stop> {
    local
        .finish_founding()
        .map_err(|e| folder::disk_failure("the identity could not be stored", &e))
}
