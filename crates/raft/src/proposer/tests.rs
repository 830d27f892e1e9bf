//! How proposals are grouped, and a leader whose program is newer than that of the node which
//! forwards to it.

use std::net::TcpListener;

use bytes::Bytes;
use seqd_state::codec::frame::Framed;
use seqd_state::{ClusterOutcome, Level};

use super::*;
use crate::tests::harness::{Cluster, create, deadline, stopped};
use crate::wire::incoming::{Body, Handler, Replying};
use crate::wire::messages::Envelope;
use crate::wire::sealed;
use crate::wire::server;

/// Answers each forwarded group with one outcome.
struct Leader {
    envelope: Envelope,
    outcome: Frame,
}

impl Handler for Leader {
    fn handle(self: Arc<Self>, _: wire::route::Route, _: Body) -> Replying {
        let reply = ForwardReply(Ok(vec![self.outcome.clone()]));
        let bytes = sealed::seal(&self.envelope, &reply, Level::FIRST).unwrap();
        Box::pin(async move { Ok(Bytes::from(bytes)) })
    }
}

fn item(commands: Vec<Command>) -> Item {
    let (reply, _) = oneshot::channel();
    Item {
        count: commands.len(),
        commands,
        deadline: deadline(),
        fate: Arc::default(),
        forwarded: false,
        reply,
    }
}

#[tokio::test]
async fn commands_above_the_level_share_a_group_with_no_others() {
    let (queue, mut inbox) = mpsc::channel(WAITING);
    for name in ["a", "b", "above", "above", "c"] {
        assert!(queue.try_send(item(vec![create(name)])).is_ok());
    }
    drop(queue);
    let is_above = |item: &Item| item.commands == [create("above")];
    let mut groups = Vec::new();
    let mut left_over = None;
    while let Some(first) = left_over.take().or_else(|| inbox.try_recv().ok()) {
        let group;
        (group, left_over) = take_group(first, &mut inbox, is_above);
        groups.push(group.len());
    }
    assert_eq!(groups, [2, 1, 1, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_of_a_newer_program_stops_the_node_as_newer_format() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(0).await;
    let leader = cluster.leader().expect("there is a leader");
    let known = ClusterOutcome::Founded.to_frame().unwrap();
    let of_a_newer_version = Frame {
        version: known.version + 1,
        ..known.clone()
    };
    let of_a_newer_kind = Frame {
        kind: u16::MAX,
        ..known
    };
    let outcomes = [of_a_newer_version, of_a_newer_kind];
    let followers = (0..3).filter(|at| *at != leader);
    for (follower, outcome) in followers.zip(outcomes) {
        let node = cluster.raft(follower).node();
        let to = cluster.raft(follower).status().node_id.unwrap().0;
        let envelope = cluster.raft(leader).node().context.envelope(to).unwrap();
        let leads = envelope.from;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let handler = Arc::new(Leader { envelope, outcome });
        let server = server::serve(listener.into(), handler, std::future::pending()).unwrap();
        let group = [item(vec![create("more")])];
        let sent = forward(node, leads, &addr, deadline(), &group).await;
        let Some(Err(ProposeError::OutcomeUnknown { .. })) = sent else {
            panic!("the commands were applied, and their outcome is not known");
        };
        let stop = stopped(cluster.raft(follower)).await;
        assert_eq!((stop.exit(), stop.code()), (9, "newer-format"), "{stop}");
        server.abort();
    }
    cluster.stop_all().await;
}
