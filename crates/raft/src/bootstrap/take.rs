//! Takes the identity that another node gives this one: at the bootstrap (`Prepare`), or when it is
//! added (`Adopt`). The identity is synced before the answer is sent.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use seqd_peers::wire::hello::{Adopt, Prepare, Taken};
use seqd_store::folder::Identity;

use crate::blocking;
use crate::context::NodeContext;
use crate::handshake::hello::peer_list;
use crate::storage::driver;
use crate::storage::opening::wal_options;

/// Time limit for a peer to sync the identity that it is given and its first log segment.
pub(crate) const TAKE_LIMIT: Duration = Duration::from_secs(10);

/// The reason why this empty node does not take part in a founding yet, or refuses this one.
///
/// The members of an existing cluster send pings to each member's address. A node whose folder was
/// lost therefore soon receives a message of its cluster, even if its configuration lists none of
/// the present members.
pub(super) fn not_founding(context: &NodeContext, founded: Option<&str>) -> Option<String> {
    if let Some(other) = context.other_cluster.cluster_id()
        && founded != Some(other.as_str())
    {
        return Some(format!(
            "this node has met cluster {other} and founds no other one; run `seqd member add {} {}` \
             there, or start this node again if that cluster is gone",
            context.settings.name, context.settings.peer_advertise
        ));
    }
    let listened = context.clock_since.elapsed();
    (listened < context.settings.found_after).then(|| {
        "waiting: this node listens for members of an existing cluster before one is founded"
            .to_owned()
    })
}

/// Takes the identity that the founder gives, syncs it and the first segment of the log, and
/// answers.
pub(crate) async fn take_prepare(context: &Arc<NodeContext>, prepare: Prepare) -> Taken {
    let name = &context.settings.name;
    if prepare.you != *name {
        return no(format!("this node is named {name}"));
    }
    if let Some(why) = not_founding(context, Some(&prepare.cluster_id)) {
        return no(why);
    }
    let mut founders = prepare.founders.iter();
    let Some(&(node, _)) = founders.find(|(_, founder)| founder.name == *name) else {
        return no("this node is not among the founders");
    };
    let listed: BTreeMap<String, String> = prepare
        .founders
        .iter()
        .map(|(_, founder)| (founder.name.clone(), founder.peer.clone()))
        .collect();
    if listed != peer_list(context) {
        return no("this node's configuration lists other peers");
    }
    let identity = Identity {
        cluster_id: prepare.cluster_id,
        node,
        name: name.clone(),
        members: prepare.founders,
        founder: false,
        joined: false,
        ancestors: Vec::new(),
    };
    take(context, identity).await
}

/// Takes the ID that a cluster gives to an added node.
pub(crate) async fn take_adopt(context: &Arc<NodeContext>, adopt: Adopt) -> Taken {
    let name = &context.settings.name;
    if adopt.you != *name {
        return no(format!("this node is named {name}"));
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
    take(context, identity).await
}

async fn take(context: &Arc<NodeContext>, identity: Identity) -> Taken {
    let opening = Arc::clone(&context.opening).lock_owned().await;
    let taker = Arc::clone(context);
    let wanted = (identity.cluster_id.clone(), identity.node);
    let joins = identity.joined;
    let stored = blocking::run(move || {
        let _opening = opening;
        // The log's first segment is created first, because an identity without a log means that
        // the log was lost.
        if !taker.folder.has_log()? {
            let options = wal_options(&taker.folder);
            let (wal, _) = driver::open_wal(options).map_err(io::Error::other)?;
            wal.close()?;
        }
        taker.take_identity(identity)
    })
    .await;
    let Ok(own) = stored else {
        return no("the identity could not be stored");
    };
    if (own.cluster_id.clone(), own.node) != wanted {
        return no(format!(
            "this node is node {} of cluster {}",
            own.node, own.cluster_id
        ));
    }
    let how = if joins {
        "this node was added to the cluster and has received its identity"
    } else {
        "the founder gave this node its identity"
    };
    tracing::info!(cluster = own.cluster_id, node = own.node, "{how}");
    // The answer also confirms that the first segment of the log is on the disk.
    match tokio::time::timeout(TAKE_LIMIT, context.history_known()).await {
        Ok(false) => Taken::Yes {
            http: context.settings.http_advertise.clone(),
        },
        Ok(true) => Taken::Used,
        Err(_) => no("this node's log is not open yet"),
    }
}

fn no(why: impl Into<String>) -> Taken {
    Taken::No { why: why.into() }
}
