//! The messages that a node accepts from a peer: only requests and answers that name its cluster,
//! this node and the sender's latest start.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use seqd_peers::table::Start;
use seqd_peers::wire::envelope::Envelope;
use seqd_peers::wire::frame::{Frame, FrameCodec, Part, VERSION};
use seqd_peers::wire::hello::{Hello, HelloReply, HelloVerdict};
use seqd_peers::wire::route::Route;
use seqd_peers::wire::sealed::{self, Sealed};
use seqd_peers::wire::transport::{CallError, Link, Payload, RejectionCode};
use seqd_state::Level;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_util::codec::{Decoder as _, Encoder as _};

use super::harness::{Cluster, next, pair};
use crate::context::NodeContext;
use crate::conversation;
use crate::handshake::hello;
use crate::messages::{Forward, Promise, ReadIndex, ReadIndexReply, ReadPoint};
use crate::peer_stops;

type Change = fn(&mut Envelope);

/// Each field of an envelope with a wrong value, and the code with which a request is rejected for
/// it.
const WRONG: [(&str, Change, RejectionCode); 6] = [
    (
        "another cluster",
        |it| it.cluster_id.push('x'),
        RejectionCode::WrongCluster,
    ),
    (
        "another target",
        |it| it.to += 1,
        RejectionCode::WrongTarget,
    ),
    (
        "another sender",
        |it| it.from += 40,
        RejectionCode::Unintroduced,
    ),
    (
        "an earlier start",
        |it| it.start.boot -= 1,
        RejectionCode::StaleBoot,
    ),
    (
        "a twin of this start",
        |it| it.start.nonce ^= 1,
        RejectionCode::StaleBoot,
    ),
    (
        "a later start that said no hello",
        |it| {
            let Start { boot, nonce } = it.start;
            it.start = Start {
                boot: boot + 1,
                nonce: nonce ^ 1,
            };
        },
        RejectionCode::Unintroduced,
    ),
];

/// Sends a request from `from` to `to` in this envelope.
async fn ask(
    cluster: &Cluster,
    (from, to): (usize, usize),
    envelope: &Envelope,
) -> Result<Bytes, CallError> {
    let question = ReadIndex {
        promised: Promise { term: 5 },
        timeout_ms: 5_000,
    };
    let bytes = sealed::seal(envelope, &question, Level::FIRST).unwrap();
    let payload = Payload::Bytes(bytes.into());
    let limit = std::time::Duration::from_secs(10).into();
    let (transport, addr) = (&context(cluster, from).transport, &cluster.spots[to].addr);
    let (link, route) = (Link::Control, Route::ReadIndex);
    transport.post(link, addr, route, payload, limit).await
}

fn context(cluster: &Cluster, at: usize) -> &NodeContext {
    &cluster.raft(at).node().context
}

fn envelope(cluster: &Cluster, (from, to): (usize, usize)) -> Envelope {
    let to = cluster.raft(to).status().node_id.unwrap().0;
    context(cluster, from).envelope(to).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_is_taken_only_from_the_latest_start_of_a_member_and_by_its_target() {
    let (mut cluster, leader, follower) = pair().await;
    let both = (follower, leader);
    let right = envelope(&cluster, both);
    assert!(ask(&cluster, both, &right).await.is_ok());
    for (what, change, code) in WRONG {
        let mut wrong = right.clone();
        change(&mut wrong);
        match ask(&cluster, both, &wrong).await {
            Err(CallError::Rejected(rejection)) => assert_eq!(rejection.code, code, "{what}"),
            other => panic!("a question was taken with {what}: {other:?}"),
        }
    }
    assert!(ask(&cluster, both, &right).await.is_ok());
    assert_eq!(next(cluster.raft(follower), "orders").await, Some(1));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_is_accepted_only_from_the_latest_start_of_the_called_node() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(0).await;
    let right = envelope(&cluster, (0, 2));
    let context = context(&cluster, 2);
    let open = async |asked: usize, envelope: &Envelope| {
        let answer = ReadIndexReply(Ok(ReadPoint {
            index: 7,
            cluster_ms: seqd_state::ClusterMs(9),
        }));
        let bytes = sealed::seal(envelope, &answer, Level::FIRST).unwrap();
        let node = cluster.raft(asked).status().node_id.unwrap().0;
        let to = (Link::Control, node, cluster.spots[asked].addr.as_str());
        let opened = conversation::open(context, to, Ok(Bytes::from(bytes))).await;
        opened.map(|answer: Sealed<ReadIndexReply>| answer.envelope)
    };
    assert!(open(0, &right).await.is_ok());
    // A valid member, but not the node to which the request was sent.
    let of_another = envelope(&cluster, (1, 2));
    assert!(open(1, &of_another).await.is_ok());
    let taken = open(0, &of_another).await;
    assert!(
        matches!(taken, Err(CallError::Broken(_))),
        "an answer of another node was taken: {taken:?}"
    );
    for (what, change, _) in WRONG {
        let mut wrong = right.clone();
        change(&mut wrong);
        // The peer accepted the message, so the outcome is unknown.
        let taken = open(0, &wrong).await;
        assert!(
            matches!(taken, Err(CallError::Broken(_))),
            "an answer was taken with {what}: {taken:?}"
        );
    }
    assert!(open(0, &right).await.is_ok());
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_node_takes_the_outcomes_of_what_it_forwarded_and_nothing_else() {
    for (stop, is_taken) in [
        (peer_stops::removed("n3"), true),
        (peer_stops::superseded("another start"), false),
    ] {
        let mut cluster = Cluster::new(3).await;
        cluster.create_orders(0).await;
        let right = envelope(&cluster, (0, 2));
        let context = context(&cluster, 2);
        let node = cluster.raft(0).status().node_id.unwrap().0;
        let open = async |link| {
            let answer = ReadIndexReply(Ok(ReadPoint {
                index: 7,
                cluster_ms: seqd_state::ClusterMs(9),
            }));
            let bytes = sealed::seal(&right, &answer, Level::FIRST).unwrap();
            let to = (link, node, cluster.spots[0].addr.as_str());
            let opened = conversation::open(context, to, Ok(Bytes::from(bytes))).await;
            opened
                .map(|answer: Sealed<ReadIndexReply>| answer.envelope)
                .is_ok()
        };
        assert!(open(Link::Control).await);
        context.stop(stop);
        assert_eq!(open(Link::Forward).await, is_taken);
        assert!(!open(Link::Control).await && !open(Link::Log).await);
        cluster.stop_all().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_of_another_cluster_is_not_met_and_takes_nobodys_place() {
    let (mut cluster, leader, follower) = pair().await;
    let (asking, addr) = (context(&cluster, follower), &cluster.spots[leader].addr);
    let own = hello::own_hello(asking);
    let mut stranger = own.identity.clone().unwrap();
    stranger.cluster_id.push('x');
    stranger.start.boot += 1;
    let foreign = Hello {
        identity: Some(stranger),
        ..own
    };
    let limit = std::time::Duration::from_secs(10);
    let reply = hello::ask(asking, addr, Route::Hello, foreign, limit).await;
    let HelloReply { verdict, .. } = reply.unwrap();
    assert_eq!(
        verdict,
        HelloVerdict::Foreign,
        "a start of another cluster was met"
    );
    let right = envelope(&cluster, (follower, leader));
    assert!(ask(&cluster, (follower, leader), &right).await.is_ok());
    assert_eq!(next(cluster.raft(follower), "orders").await, Some(1));
    cluster.stop_all().await;
}

#[tokio::test]
async fn a_message_is_refused_by_its_envelope_before_the_rest_of_it_has_come() {
    let (mut cluster, leader, follower) = pair().await;
    let mut envelope = envelope(&cluster, (follower, leader));
    envelope.cluster_id = "another".to_owned();
    let group = Forward {
        commands: Vec::new(),
        timeout_ms: 3_000,
    };
    let message = sealed::seal(&envelope, &group, Level::FIRST).unwrap();
    let head = [&60_000_u32.to_le_bytes()[..], &message].concat();
    for (link, route, bytes) in [
        (Link::Forward, Route::Forward, message),
        (Link::Snapshots, Route::Snapshot, head),
    ] {
        let opening = Frame::Opening {
            version: VERSION,
            link: link.byte(),
        };
        let call = Frame::Call {
            call: 1,
            route: route.byte(),
            limit_ms: 0,
            part: Part {
                is_last: false,
                bytes: bytes.into(),
            },
        };
        let mut sent = BytesMut::new();
        for frame in [opening, call] {
            FrameCodec::default().encode(&frame, &mut sent).unwrap();
        }
        let stream = TcpStream::connect(&cluster.spots[leader].addr).await;
        let mut far = FrameCodec::default().framed(stream.unwrap());
        far.get_mut().write_all(&sent).await.unwrap();
        let opened = far.next().await;
        assert!(matches!(opened, Some(Ok(Frame::Opening { .. }))));
        let Some(Ok(Frame::Rejection { call: 1, text })) = far.next().await else {
            panic!("it is refused");
        };
        assert!(text.starts_with("wrong-cluster: "), "{text}");
    }
    cluster.stop_all().await;
}
