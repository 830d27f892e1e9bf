//! New addresses of a member.
//!
//! Invariant: a peer address is added to the membership only if the member answers there. A wrong
//! address would cut off a running member, and two such members of three would cost the quorum.

use std::collections::BTreeMap;

use openraft::ChangeMembers;
use seqd_guards::is_out;
use seqd_peers::wire::hello::Standing;

use super::change::{
    Changing, change_membership, check_texts, find, no_quorum, refused, show, unfit,
};
use super::majority::MembershipInForce;
use super::{FITS, leader};
use crate::context::NodeContext;
use crate::handle::MemberError;
use crate::handshake::hello;
use crate::leadership::Leading;
use crate::messages::ChangeRefusal;
use crate::replica::Replica;
use crate::types::Member;

/// A member's new addresses. An address that is `None` does not change.
pub(super) struct Addresses<'a> {
    pub(super) name: &'a str,
    pub(super) peer: Option<&'a str>,
    pub(super) http: Option<&'a str>,
}

pub(super) async fn update(
    context: &NodeContext,
    replica: &Replica,
    leading: Leading,
    new: &Addresses<'_>,
    is_trial: bool,
) -> Changing {
    let seen = MembershipInForce::of(replica);
    let (node, before) = find(replica, new.name)?;
    let or = |new: Option<&str>, before: &str| new.unwrap_or(before).to_owned();
    let after = Member {
        name: before.name.clone(),
        peer: or(new.peer, &before.peer),
        http: or(new.http, &before.http),
    };
    check_texts(&after)?;
    if seen.nodes().get(&node) == Some(&after) {
        return if is_trial {
            Ok(FITS)
        } else {
            show(context, replica, new.name)
        };
    }
    seen.check_majority(context, replica, &seen.voters())
        .map_err(no_quorum)?;
    let others = seen.nodes().iter().filter(|(id, _)| **id != node);
    if let Some(detail) = taken(&before, &after, others.map(|(_, other)| other)) {
        return Err(refused(MemberError::AlreadyExists { detail }));
    }
    if after.peer != before.peer {
        // A sole member needs no address.
        if seen.nodes().len() > 1 && !is_out!(AddressAnswers) {
            check_answers(context, node, &after).await?;
        }
        if node == replica.node && seen.voters().len() > 1 {
            // The address answers here, but this leader cannot check whether other nodes reach it.
            // It transfers leadership, and the caller's node repeats the request at the next
            // leader.
            let target = leader::target(context, replica, None)?;
            if is_trial {
                return Ok(FITS);
            }
            leader::move_leader(context, replica, target).await?;
            return Err(ChangeRefusal::NotLeader);
        }
    }
    if is_trial {
        return Ok(FITS);
    }
    let change = ChangeMembers::SetNodes(BTreeMap::from([(node, after.clone())]));
    change_membership(replica, leading, &seen, change, true).await?;
    tracing::info!(
        member = after.name,
        peer = after.peer,
        http = after.http,
        "the member has new addresses"
    );
    show(context, replica, new.name)
}

/// Returns the reason if another member has one of the new addresses.
fn taken<'a>(
    before: &Member,
    after: &Member,
    others: impl Iterator<Item = &'a Member>,
) -> Option<String> {
    others.into_iter().find_map(|other| {
        let is_peer = after.peer != before.peer && after.peer == other.peer;
        let is_http = after.http != before.http && after.http == other.http;
        let address = match (is_peer, is_http) {
            (true, _) => &other.peer,
            (false, true) if !other.http.is_empty() => &other.http,
            _ => return None,
        };
        Some(format!("{} already has the address {address}", other.name))
    })
}

/// Refuses a peer address at which no node answers, or another node does.
async fn check_answers(
    context: &NodeContext,
    node: u64,
    after: &Member,
) -> Result<(), ChangeRefusal> {
    let Member { name, peer, .. } = after;
    let answer = hello::hello_to(context, peer).await.map_err(|error| {
        unfit(format!(
            "{peer} does not respond ({error}); start {name} there first"
        ))
    })?;
    let is_it = match &answer.standing {
        Standing::Member {
            cluster_id,
            node: id,
            ..
        } => {
            *id == node && context.with_identity(|own| own.cluster_id == *cluster_id) == Some(true)
        }
        Standing::Empty | Standing::Prepared { .. } => false,
    };
    if is_it {
        return Ok(());
    }
    Err(unfit(format!(
        "the node at {peer} is {}, not this cluster's {name}",
        answer.name
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, peer: &str, http: &str) -> Member {
        Member {
            name: name.to_owned(),
            peer: peer.to_owned(),
            http: http.to_owned(),
        }
    }

    #[test]
    fn an_address_of_another_member_is_refused() {
        let other = member("n1", "a:1", "http://a:2");
        let before = member("n2", "b:1", "http://b:2");
        let refused = |peer: &str, http: &str| {
            let after = member("n2", peer, http);
            taken(&before, &after, [&other].into_iter())
        };
        assert_eq!(refused("c:1", "http://c:2"), None);
        for (peer, http, address) in [
            ("a:1", "http://b:2", "a:1"),
            ("b:1", "http://a:2", "http://a:2"),
        ] {
            let expected = format!("n1 already has the address {address}");
            assert_eq!(refused(peer, http), Some(expected));
        }
        // An address that both have already does not prevent another change.
        let before = member("n2", "b:1", "http://a:2");
        let after = member("n2", "c:1", "http://a:2");
        assert_eq!(taken(&before, &after, [&other].into_iter()), None);
    }
}
