//! Identities: drawn by the founder of a cluster, given to everybody else, synced before they are
//! answered for.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use seqd_state::idgen::WallMs;
use seqd_wal::{Wal, WalOptions};

use crate::handle::Stop;
use crate::local::Local;
use crate::storage::folder::Identity;
use crate::wire::hello::peer_list;
use crate::wire::messages::{Adopt, Prepare, Taken};

/// How long a peer may take to sync the identity that it is given, and its first log segment.
pub(crate) const TAKE_LIMIT: Duration = Duration::from_secs(10);

/// The digits of a cluster's ID.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The ID of a cluster that begins now.
pub(crate) fn new_cluster_id(local: &Local) -> Result<String, Stop> {
    cluster_id_at(local.settings.clock.wall())
}

/// The time in a cluster's ID, Unix milliseconds; `None` if it is none that was drawn here.
pub(crate) fn time_of_id(id: &str) -> Option<u64> {
    let digits = id.as_bytes().get(..10).filter(|_| id.len() == 26)?;
    digits.iter().try_fold(0, |time: u64, digit| {
        let value = ALPHABET.iter().position(|one| one == digit)?;
        Some((time << 5) | u64::try_from(value).ok()?)
    })
}

/// A new cluster's ID: 48 bits of time and 80 random bits, as 26 characters of Crockford's
/// base 32 (the form of a ULID).
pub(crate) fn cluster_id_at(wall: WallMs) -> Result<String, Stop> {
    let mut random = [0; 16];
    fill_random(&mut random)?;
    let time = u128::from(wall.0) & ((1 << 48) - 1);
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
        ancestors: adopt.ancestors,
    };
    take(local, identity).await
}

async fn take(local: &Arc<Local>, identity: Identity) -> Taken {
    let taking = local.taking.lock().await;
    let taker = Arc::clone(local);
    let wanted = (identity.cluster_id.clone(), identity.node);
    let stored = tokio::task::spawn_blocking(move || {
        // The log's first segment comes first: an identity without one is that of a lost log.
        if !taker.folder.has_log()? {
            let options = WalOptions {
                disk: Arc::clone(taker.folder.disk()),
                ..WalOptions::new(taker.folder.wal())
            };
            let (wal, _) = Wal::open(options).map_err(io::Error::other)?;
            wal.close()?;
        }
        taker.take_identity(identity)
    })
    .await;
    drop(taking);
    let Ok(Ok(own)) = stored else {
        return Taken::No {
            why: "the identity could not be stored".to_owned(),
        };
    };
    if (own.cluster_id.clone(), own.node) != wanted {
        return Taken::No {
            why: format!(
                "this node is node {} of cluster {}",
                own.node, own.cluster_id
            ),
        };
    }
    // The answer also says that the first segment of the log is on the disk.
    match tokio::time::timeout(TAKE_LIMIT, local.history_known()).await {
        Ok(false) => Taken::Yes {
            http: local.settings.http_advertise.clone(),
        },
        Ok(true) => Taken::Used,
        Err(_) => Taken::No {
            why: "this node's log is not open yet".to_owned(),
        },
    }
}
