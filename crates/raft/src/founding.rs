//! From an empty folder, or from one that was used before, to a running replica.
//!
//! Founding has two phases. The founder is the listed peer with the smallest name. Once it
//! reaches every listed peer, all of them empty (or prepared by it), and all lists are equal, it
//! syncs its own identity, then gives each its own (`Prepare`); only after all have synced theirs
//! does it write the first entry of the log. After a crash it repeats the same prepare. From the
//! first entry on, an empty folder of a member's name is a lost one and is refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::folder::{self, Identity};
use crate::handle::{Phase, Stop};
use crate::local::{self, Local};
use crate::messages::{
    Adopt, Founder, Hello, HelloIdentity, HelloReply, Open, Prepare, Standing, Taken, Verdict,
};
use crate::paths;
use crate::records;
use crate::replica::{Replica, Storage};
use crate::transport::{CallError, Link};
use crate::types::Member;

/// Pause between two rounds of hellos.
const ROUND: Duration = Duration::from_millis(200);

/// How long one peer may take to say who it is.
const HELLO_LIMIT: Duration = Duration::from_secs(1);

/// How long a peer may take to sync the identity that it is given, and its first log segment.
const PREPARE_LIMIT: Duration = Duration::from_secs(10);

/// One round of hellos: by peer's name, its address and its answer or why there is none.
type Round = BTreeMap<String, (String, Result<HelloReply, String>)>;

/// Brings the node to the point where its replica runs; ends it where it must not run.
pub(crate) async fn bring_up(local: Arc<Local>) {
    let brought = async {
        let identity = become_someone(&local).await?;
        let storage = Storage::open(&local, &identity).await?;
        local.found_history(!storage.is_pristine());
        if !storage.is_pristine() {
            show_up(&local, &identity).await?;
        }
        let pristine = storage.is_pristine();
        let replica = Replica::start(&local, &identity, storage).await?;
        if local.replica.set(Arc::clone(&replica)).is_err() {
            return Ok(());
        }
        if identity.founder && pristine {
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
        let round = hello_all(local).await;
        if let Some(identity) = local.identity() {
            return Ok(identity);
        }
        match judge_newcomer(local, &round)? {
            Newcomer::Founds(founders) => {
                let identity = Identity {
                    cluster_id: new_cluster_id(local)?,
                    node: own_id(local, &founders)?,
                    name: local.settings.name.clone(),
                    members: founders,
                    founder: true,
                    joined: false,
                    ancestors: Vec::new(),
                };
                local
                    .take_identity(identity.clone())
                    .map_err(|e| folder::disk_failure("the identity could not be stored", &e))?;
                return Ok(identity);
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
    if !local.folder.has_log() && !identity.founder {
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
    if let Some(reason) = missing(local, round) {
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

/// Who has not answered, as a sentence; `None` if all have.
fn missing(local: &Local, round: &Round) -> Option<String> {
    let silent: Vec<String> = round
        .values()
        .filter_map(|(addr, answer)| Some(format!("{addr} {}", answer.as_ref().err()?)))
        .collect();
    if silent.is_empty() {
        return None;
    }
    let all = round.len() + 1;
    let _ = local;
    Some(format!(
        "waiting for quorum: seen {}/{all} ({})",
        all - silent.len(),
        silent.join(", ")
    ))
}

fn list(peers: &BTreeMap<String, String>) -> String {
    peers
        .iter()
        .map(|(name, addr)| format!("{name}={addr}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn peer_list(local: &Local) -> BTreeMap<String, String> {
    local
        .settings
        .peers
        .iter()
        .map(|peer| (peer.name.clone(), peer.addr.clone()))
        .collect()
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

/// A new cluster's ID: 48 bits of time and 80 random bits, as 26 characters of Crockford's
/// base 32 (the form of a ULID).
fn new_cluster_id(local: &Local) -> Result<String, Stop> {
    const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let mut random = [0; 16];
    fill_random(&mut random)?;
    let time = u128::from(local.settings.clock.wall().0) & ((1 << 48) - 1);
    let number = (u128::from_be_bytes(random) & ((1 << 80) - 1)) | (time << 80);
    let digit = |place: u32| {
        let at = (number >> (5 * place)) & 31;
        char::from(ALPHABET[usize::try_from(at).unwrap_or_default()])
    };
    Ok((0..26).rev().map(digit).collect())
}

/// Random bytes from the operating system.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), Stop> {
    getrandom::fill(bytes).map_err(|e| Stop {
        exit: 10,
        code: "invariant",
        message: format!("the operating system gives no random bytes: {e}"),
    })
}

/// Shows a folder that was used before to the peers: one of them must know the cluster, and none
/// must know a reason against this start.
async fn show_up(local: &Local, identity: &Identity) -> Result<(), Stop> {
    loop {
        let round = hello_all(local).await;
        if round.is_empty() {
            return Ok(());
        }
        let mut welcome = false;
        let mut foreign = BTreeMap::<&str, usize>::new();
        for (_, answer) in round.values() {
            let Ok(reply) = answer else { continue };
            match &reply.verdict {
                Verdict::Removed => return Err(local::removed(&local.settings.name)),
                Verdict::Stale { seen_boot } => {
                    let detail = format!("start {seen_boot} was seen, this is {}", local.boot);
                    return Err(local::stale(&local.settings.name, &detail));
                }
                Verdict::Foreign | Verdict::Welcome => {}
            }
            match &reply.standing {
                Standing::Empty => {}
                Standing::Prepared { cluster_id, .. } | Standing::Member { cluster_id, .. }
                    if *cluster_id == identity.cluster_id =>
                {
                    welcome = true;
                }
                Standing::Prepared { .. } => {}
                Standing::Member {
                    cluster_id, leader, ..
                } => {
                    // A peer that has a leader speaks for a quorum of its cluster.
                    let weight = if leader.is_some() { round.len() } else { 1 };
                    *foreign.entry(cluster_id).or_default() += weight;
                }
            }
        }
        if welcome {
            return Ok(());
        }
        let other = foreign
            .iter()
            .find(|(_, weight)| **weight * 2 > round.len() + 1);
        if let Some((cluster_id, _)) = other {
            return Err(folder::refusal(
                "foreign-folder",
                format!(
                    "{} belongs to cluster {}, and the peers are of cluster {cluster_id}; give \
                     this node its own folder, or remove it there, empty this one and add it again",
                    local.folder.root().display(),
                    identity.cluster_id
                ),
            ));
        }
        let reason = missing(local, &round)
            .unwrap_or_else(|| "waiting for quorum: no peer is of this cluster".to_owned());
        local.set_phase(Phase::Waiting { reason });
        tokio::time::sleep(ROUND).await;
    }
}

/// The founder's two phases; repeated from the start after a crash.
async fn found(local: &Local, identity: &Identity, replica: &Replica) -> Result<(), Stop> {
    loop {
        let mut failures = Vec::new();
        for founder in identity
            .members
            .iter()
            .filter(|founder| founder.node != identity.node)
        {
            let prepare = Prepare {
                cluster_id: identity.cluster_id.clone(),
                founders: identity.members.clone(),
                you: founder.name.clone(),
            };
            let asked = ask(local, &founder.peer, paths::PREPARE, prepare, PREPARE_LIMIT).await;
            match asked {
                Ok(Taken::Yes { .. }) => {}
                Ok(Taken::No { why }) => failures.push(format!("{}: {why}", founder.name)),
                Err(error) => failures.push(format!("{} {error}", founder.peer)),
            }
        }
        if failures.is_empty() {
            break;
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
    let members = identity.members.iter().map(|founder| {
        let Founder {
            node,
            name,
            peer,
            http,
        } = founder.clone();
        (node, Member { name, peer, http })
    });
    replica.found(members.collect()).await
}

/// Says hello to every peer that the configuration, the identity or the membership names.
async fn hello_all(local: &Local) -> Round {
    let mut peers = peer_list(local);
    let identity = local.identity();
    if let Some(identity) = &identity {
        for member in &identity.members {
            peers
                .entry(member.name.clone())
                .or_insert_with(|| member.peer.clone());
        }
    }
    peers.remove(&local.settings.name);
    let hello = Hello {
        name: local.settings.name.clone(),
        peers: peer_list(local),
        http: local.settings.http_advertise.clone(),
        identity: identity.map(|identity| HelloIdentity {
            cluster_id: identity.cluster_id,
            node: identity.node,
            boot: local.boot,
            nonce: local.nonce,
        }),
    };
    let asked = peers.into_iter().map(|(name, addr)| {
        let hello = hello.clone();
        async move {
            let answer = ask(local, &addr, paths::HELLO, hello, HELLO_LIMIT).await;
            (name, (addr, answer.map_err(|e| e.to_string())))
        }
    });
    futures_util::future::join_all(asked)
        .await
        .into_iter()
        .collect()
}

/// Asks a node without an envelope.
pub(crate) async fn ask<M, R>(
    local: &Local,
    addr: &str,
    path: &str,
    message: M,
    limit: Duration,
) -> Result<R, CallError>
where
    M: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    let body = records::encode(&Open(message)).map_err(|e| CallError::Unsent(e.to_string()))?;
    let bytes = local
        .transport
        .post(Link::Calls, addr, path, body, limit)
        .await?;
    let reply = records::decode::<Open<R>>(&bytes);
    reply
        .map(|open| open.0)
        .map_err(|e| CallError::Broken(e.to_string()))
}

/// Says hello to one address, for a member that is to be added.
pub(crate) async fn hello_to(local: &Local, addr: &str) -> Result<HelloReply, CallError> {
    let hello = Hello {
        name: local.settings.name.clone(),
        peers: peer_list(local),
        http: local.settings.http_advertise.clone(),
        identity: None,
    };
    ask(local, addr, paths::HELLO, hello, HELLO_LIMIT).await
}

/// Answers a hello.
pub(crate) fn answer_hello(local: &Local, hello: &Hello) -> Option<HelloReply> {
    let identity = local.identity();
    let standing = match &identity {
        None => Standing::Empty,
        Some(identity) => {
            let cluster_id = identity.cluster_id.clone();
            if local.has_history()? {
                let replica = local.replica.get();
                let members = replica.map(|replica| replica.members()).unwrap_or_default();
                let mut names: Vec<String> =
                    members.values().map(|member| member.name.clone()).collect();
                if names.is_empty() {
                    names = identity
                        .members
                        .iter()
                        .map(|member| member.name.clone())
                        .collect();
                }
                let leader = replica
                    .filter(|replica| replica.has_quorum_contact())
                    .and_then(|replica| replica.member(replica.leader()?))
                    .map(|member| member.name);
                Standing::Member {
                    cluster_id,
                    node: identity.node,
                    members: names,
                    leader,
                }
            } else {
                Standing::Prepared {
                    cluster_id,
                    node: identity.node,
                }
            }
        }
    };
    let verdict = match (&identity, &hello.identity) {
        (Some(own), Some(theirs)) if own.cluster_id != theirs.cluster_id => Verdict::Foreign,
        (Some(_), Some(theirs)) => {
            let removed = local
                .replica
                .get()
                .is_some_and(|replica| replica.is_removed(theirs.node));
            match local.superseded_by(theirs.node, theirs.boot, theirs.nonce) {
                _ if removed => Verdict::Removed,
                Some(seen_boot) => Verdict::Stale { seen_boot },
                None => Verdict::Welcome,
            }
        }
        _ => Verdict::Welcome,
    };
    Some(HelloReply {
        name: local.settings.name.clone(),
        peers: peer_list(local),
        http: local.settings.http_advertise.clone(),
        standing,
        verdict,
    })
}

/// Takes the identity that the founder gives, syncs it and the first segment of the log, answers.
pub(crate) async fn take_prepare(local: &Arc<Local>, prepare: Prepare) -> Taken {
    let name = &local.settings.name;
    let no = |why: &str| Taken::No {
        why: why.to_owned(),
    };
    if prepare.you != *name {
        return Taken::No {
            why: format!("this node is named {name}"),
        };
    }
    let Some(own) = prepare
        .founders
        .iter()
        .find(|founder| founder.name == *name)
        .cloned()
    else {
        return no("this node is not among the founders");
    };
    let listed: BTreeMap<String, String> = prepare
        .founders
        .iter()
        .map(|f| (f.name.clone(), f.peer.clone()))
        .collect();
    if listed != peer_list(local) {
        return no("this node's configuration lists other peers");
    }
    let identity = Identity {
        cluster_id: prepare.cluster_id,
        node: own.node,
        name: name.clone(),
        members: prepare.founders,
        founder: false,
        joined: false,
        ancestors: Vec::new(),
    };
    take(local, identity).await
}

/// Takes the ID that a cluster gives a node that is added to it.
pub(crate) async fn take_adopt(local: &Arc<Local>, adopt: Adopt) -> Taken {
    let name = &local.settings.name;
    if adopt.you != *name {
        return Taken::No {
            why: format!("this node is named {name}"),
        };
    }
    let identity = Identity {
        cluster_id: adopt.cluster_id,
        node: adopt.node,
        name: name.clone(),
        members: adopt.members,
        founder: false,
        joined: true,
        ancestors: Vec::new(),
    };
    take(local, identity).await
}

async fn take(local: &Arc<Local>, identity: Identity) -> Taken {
    match local.identity() {
        Some(own) if own.cluster_id == identity.cluster_id && own.node == identity.node => {}
        Some(own) => {
            return Taken::No {
                why: format!(
                    "this node is node {} of cluster {}",
                    own.node, own.cluster_id
                ),
            };
        }
        None => {
            let taker = Arc::clone(local);
            let stored = tokio::task::spawn_blocking(move || taker.take_identity(identity)).await;
            if !matches!(stored, Ok(Ok(()))) {
                return Taken::No {
                    why: "the identity could not be stored".to_owned(),
                };
            }
        }
    }
    // The answer also says that the first segment of the log is on the disk.
    match tokio::time::timeout(PREPARE_LIMIT, local.history_known()).await {
        Ok(false) => Taken::Yes {
            http: local.settings.http_advertise.clone(),
        },
        Ok(true) => Taken::No {
            why: "this node's log has entries".to_owned(),
        },
        Err(_) => Taken::No {
            why: "this node's log is not open yet".to_owned(),
        },
    }
}
