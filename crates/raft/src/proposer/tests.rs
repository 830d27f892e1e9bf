//! Tests of grouping, of unknown outcomes of forwarded proposals, of linearizable reads at a
//! leader, and of a leader with a newer program than the forwarding node.

mod under_way;

use std::net::TcpListener;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::join_all;
use seqd_peers::wire;
use seqd_peers::wire::envelope::Envelope;
use seqd_peers::wire::incoming::{Body, Handler, Replying};
use seqd_peers::wire::sealed;
use seqd_peers::wire::server;
use seqd_state::codec::frame::Framed;
use seqd_state::idgen::WorkerId;
use seqd_state::{
    ClusterOutcome, LeaseId, Level, Refusal, SequenceMode, TextField, TextRefusal, WorkerCommand,
};
use seqd_store::testing::create_sequence;

use super::group::take_group;
use super::send::forward;
use super::*;
use crate::Raft;
use crate::platform::NodeTasks;
use crate::round_robin::RoundRobin;
use crate::tests::harness::{Cluster, create, deadline, free_addr, pair, stopped, wait};

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

fn item(commands: Vec<Command>) -> Queued {
    let (reply, _) = oneshot::channel();
    Queued {
        count: commands.len(),
        needs_known_clock: commands.iter().any(Command::needs_known_clock),
        bytes: commands.iter().map(|one| one.frame_bytes().unwrap()).sum(),
        commands,
        deadline: deadline(),
        fate: Arc::default(),
        forwarded: false,
        reply,
        _room: None,
    }
}

#[tokio::test]
async fn commands_above_the_level_share_a_group_with_no_others() {
    let mut queue = RoundRobin::default();
    for name in ["a", "b", "above", "above", "c"] {
        queue.push(Tenant::OPERATOR, item(vec![create(name)]));
    }
    let is_above = |item: &Queued| item.commands == [create("above")];
    let mut groups = Vec::new();
    while queue.peek().is_some() {
        groups.push(take_group(&mut queue, is_above).len());
    }
    assert_eq!(groups, [2, 1, 1, 1]);
}

fn described(text: &str, bytes: usize) -> Command {
    create_sequence(text, SequenceMode::Strict, &"d".repeat(bytes))
}

/// A command of `bytes` bytes that no state accepts. Accepted commands have less than 4 KiB each.
fn of_bytes(bytes: usize) -> Command {
    Command::Workers(WorkerCommand::ReleaseLease {
        layout: "x".repeat(bytes),
        worker: WorkerId(1),
        lease: LeaseId(1),
        last_tick: None,
    })
}

#[tokio::test]
async fn a_group_is_bounded_by_bytes_and_a_larger_proposal_goes_alone() {
    let mut queue = RoundRobin::default();
    let sizes = [400 << 10, 400 << 10, 400 << 10, 3 << 20, 1, 1];
    for bytes in sizes {
        queue.push(Tenant::OPERATOR, item(vec![of_bytes(bytes)]));
    }
    let mut groups = Vec::new();
    while queue.peek().is_some() {
        groups.push(take_group(&mut queue, |_| false).len());
    }
    assert_eq!(groups, [2, 1, 1, 2]);
}

/// Proposes all commands at once, and returns the answers.
async fn at_once(
    raft: &Raft,
    commands: impl Iterator<Item = Command>,
) -> Vec<Result<Vec<Outcome>, ProposeError>> {
    let asked = commands.map(|command| raft.propose(vec![command], deadline()));
    join_all(asked).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_that_no_state_takes_are_refused_and_not_proposed() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(0).await;
    for through in 0..3 {
        let raft = cluster.raft(through);
        let before = raft.status().last_log;
        let large = (0..700).map(|n| described(&format!("s{n}"), 60_000));
        for answer in at_once(raft, large).await {
            let refused = Refusal::Text(TextRefusal::InvalidText {
                field: TextField::Description,
                length: 60_000,
                limit: 1024,
            });
            assert_eq!(answer, Ok(vec![Outcome::Refused(refused)]));
        }
        // Entries that only carry the time may be included.
        let entries = raft.status().last_log - before;
        assert!(entries < 20, "{entries} entries");
        let mixed = vec![create("orders"), described("no", 60_000), create("orders")];
        let answers = raft.propose(mixed, deadline()).await.unwrap();
        let is_refused = answers.iter().map(|one| matches!(one, Outcome::Refused(_)));
        assert_eq!(is_refused.collect::<Vec<_>>(), [false, true, false]);
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_entry_of_many_proposals_has_more_bytes_than_a_group_may() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(0).await;
    for through in 0..3 {
        let name = |n: u32| format!("s{through}.{n}");
        let mut missing: Vec<Command> = (0..3000).map(|n| described(&name(n), 1024)).collect();
        // On a busy machine, a leader may lose contact. The commands without an outcome are then
        // proposed again.
        let until = deadline();
        while !missing.is_empty() {
            let answers = at_once(cluster.raft(through), missing.iter().cloned()).await;
            let failed = answers.iter().find(|answer| answer.is_err());
            assert!(failed.is_none() || Instant::now() < until, "{failed:?}");
            let mut answers = answers.into_iter();
            missing.retain(|_| match answers.next().unwrap().as_deref() {
                Ok([Outcome::Sequences(_)]) => false,
                Ok(refused) => panic!("{refused:?}"),
                Err(_) => true,
            });
        }
    }
    let leader = cluster.leader().expect("there is a leader");
    let wal = &cluster.raft(leader).node().replica().unwrap().wal;
    let entries = wal.read(wal.first_index()..wal.next_index(), usize::MAX);
    let largest = entries
        .unwrap()
        .iter()
        .map(|one| one.bytes.len())
        .max()
        .unwrap();
    assert!(largest > 256 << 10, "they were not grouped: {largest}");
    assert!(largest < (1 << 20) + (4 << 10), "{largest}");
    cluster.stop_all().await;
}

/// Proposes commands without the check whether a state accepts them.
async fn unchecked(raft: &Raft, commands: Vec<Command>) -> Result<Vec<Outcome>, ProposeError> {
    let own = Some(Tenant::OPERATOR);
    let answer = raft.batcher().queue(own, commands, deadline()).await;
    answer.map_err(|refused| match refused {
        ForwardRefusal::Propose(error) => error,
        ForwardRefusal::NotLeader => panic!("a node forwards what is its own"),
    })
}

/// Proposes a command, which may be applied twice, until its outcome is known, because a leader may
/// lose contact on a busy machine.
async fn until_known(raft: &Raft, command: Command) -> Result<Vec<Outcome>, ProposeError> {
    let until = deadline();
    loop {
        let answer = unchecked(raft, vec![command.clone()]).await;
        let is_known = !matches!(answer, Err(ProposeError::OutcomeUnknown { .. }));
        if is_known || Instant::now() >= until {
            return answer;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proposal_beyond_an_entry_is_refused_at_once_on_every_node() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(0).await;
    for through in 0..3 {
        let raft = cluster.raft(through);
        for commands in [vec![of_bytes(MAX_ENTRY_BYTES)], vec![create("a"); 5000]] {
            let asked = Instant::now();
            let answer = unchecked(raft, commands).await;
            assert!(
                matches!(answer, Err(ProposeError::TooLarge { .. })),
                "{answer:?}"
            );
            // Otherwise it would wait for its deadline, 30 s away.
            assert!(
                asked.elapsed() < Duration::from_secs(10),
                "{:?}",
                asked.elapsed()
            );
        }
        let most = of_bytes(PROPOSAL_BYTES - 100);
        let answer = until_known(raft, most).await;
        assert!(
            matches!(answer.as_deref(), Ok([Outcome::Refused(_)])),
            "{answer:?}"
        );
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_cannot_be_written_is_refused_and_not_sent_again() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(0).await;
    let leader = cluster.leader().expect("there is a leader");
    let follower = (leader + 1) % 3;
    let leads = cluster.raft(leader).status().node_id.unwrap().0;
    let addr = cluster.spots[leader].addr.clone();
    let group = [item(vec![of_bytes(wire::transport::MESSAGE_BYTES)])];
    let node = cluster.raft(follower).node();
    let sent = forward(node, leads, &addr, deadline(), &group).await;
    assert!(
        matches!(sent, Some(Err(ProposeError::TooLarge { .. }))),
        "{sent:?}"
    );
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_proposals_are_bounded_by_bytes() {
    let mut cluster = Cluster::planned(3);
    cluster.start(0).await.unwrap();
    let raft = cluster.raft(0);
    // There is no leader, so an accepted proposal waits, and the others are refused at once.
    let asked = (0..12).map(|_| {
        let asked = unchecked(raft, vec![of_bytes(1 << 20)]);
        asked.boxed()
    });
    let mut asked: Vec<_> = asked.collect();
    let answers: Vec<_> = asked
        .iter_mut()
        .filter_map(|one| one.now_or_never())
        .collect();
    let overloaded = ProposeError::OverloadedBytes {
        limit_bytes: WAITING_BYTES,
    };
    let refused = answers
        .iter()
        .filter(|one| **one == Err(overloaded.clone()));
    assert_eq!(refused.count(), 12 - 7, "{answers:?}");
    assert_eq!(answers.len(), 12 - 7, "{answers:?}");
    drop(asked);
    wait("the room comes back", || async {
        raft.batcher().room.used() == 0
    })
    .await;
    cluster.stop_all().await;
}

/// The same frame with an unknown version, and with an unknown kind.
fn of_a_newer_program(known: Frame) -> [Frame; 2] {
    let of_a_newer_version = Frame {
        version: known.version + 1,
        ..known.clone()
    };
    let of_a_newer_kind = Frame {
        kind: u16::MAX,
        ..known
    };
    [of_a_newer_version, of_a_newer_kind]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_of_a_newer_program_stops_the_node_as_newer_format() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(0).await;
    let leader = cluster.leader().expect("there is a leader");
    let outcomes = of_a_newer_program(ClusterOutcome::Founded.to_frame().unwrap());
    let followers = (0..3).filter(|at| *at != leader);
    for (follower, outcome) in followers.zip(outcomes) {
        let node = cluster.raft(follower).node();
        let to = cluster.raft(follower).status().node_id.unwrap().0;
        let envelope = cluster.raft(leader).node().context.envelope(to).unwrap();
        let leads = envelope.from;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let handler = Arc::new(Leader { envelope, outcome });
        let server =
            server::serve(listener.into(), handler, &NodeTasks, std::future::pending()).unwrap();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forwarded_command_of_a_newer_program_is_above_the_level() {
    let (mut cluster, leader, _) = pair().await;
    for command in of_a_newer_program(create("more").to_frame().unwrap()) {
        let group = Forward {
            commands: vec![command],
            timeout_ms: 3000,
        };
        let ForwardReply(answer) = cluster.raft(leader).batcher().forwarded(group).await;
        let Err(ForwardRefusal::Propose(ProposeError::AboveLevel { detail })) = answer else {
            panic!("repeating it helps nobody: {answer:?}");
        };
        assert!(detail.starts_with("the leader cannot read"), "{detail}");
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_has_stopped_sends_a_peer_on_to_the_next_one() {
    let (mut cluster, leader, _) = pair().await;
    let raft = cluster.raft(leader);
    raft.stop().await;
    let group = Forward {
        commands: vec![create("more").to_frame().unwrap()],
        timeout_ms: 3000,
    };
    let ForwardReply(answer) = raft.batcher().forwarded(group).await;
    assert!(
        matches!(answer, Err(ForwardRefusal::NotLeader)),
        "the peer's client is told of a stop that does not concern it: {answer:?}"
    );
    let own = raft.propose(vec![create("more")], deadline()).await;
    assert!(matches!(own, Err(ProposeError::Stopping)), "{own:?}");
    cluster.stop_all().await;
}

/// Receives groups, and answers them with these bytes or not at all.
struct Mute {
    groups: AtomicUsize,
    answer: Option<Bytes>,
}

impl Handler for Mute {
    fn handle(self: Arc<Self>, _: wire::route::Route, _: Body) -> Replying {
        self.groups.fetch_add(1, Ordering::SeqCst);
        match self.answer.clone() {
            Some(bytes) => Box::pin(async move { Ok(bytes) }),
            None => Box::pin(std::future::pending()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_whose_answer_is_lost_is_unknown_and_was_sent_once() {
    let (mut cluster, leader, follower) = pair().await;
    let node = cluster.raft(follower).node();
    let to = cluster.raft(follower).status().node_id.unwrap().0;
    let mut envelope = cluster.raft(leader).node().context.envelope(to).unwrap();
    let leads = envelope.from;
    envelope.from += 1;
    let refused = ForwardReply(Err(ForwardRefusal::NotLeader));
    let of_another = sealed::seal(&envelope, &refused, Level::FIRST).unwrap();
    let answers = [
        ("it broke off", None),
        ("not the leader's", Some(Bytes::from(of_another))),
        ("no answer", Some(Bytes::from_static(b"?"))),
    ];
    for (what, answer) in answers {
        let breaks_off = answer.is_none();
        let groups = AtomicUsize::new(0);
        let mute = Arc::new(Mute { groups, answer });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let handler = Arc::clone(&mute) as Arc<dyn Handler>;
        let server =
            server::serve(listener.into(), handler, &NodeTasks, std::future::pending()).unwrap();
        let group = [item(vec![create("more")])];
        let arrived = wait("the group arrived", || async {
            mute.groups.load(Ordering::SeqCst) > 0
        });
        let break_off = async {
            arrived.await;
            if breaks_off {
                server.abort();
            }
        };
        let sent = forward(node, leads, &addr, deadline(), &group);
        let (sent, ()) = tokio::join!(sent, break_off);
        assert!(
            matches!(sent, Some(Err(ProposeError::OutcomeUnknown { .. }))),
            "{what}: {sent:?}"
        );
        assert_eq!(mute.groups.load(Ordering::SeqCst), 1, "{what}");
        server.abort();
    }
    // A group that certainly was not sent may be sent again.
    let group = [item(vec![create("more")])];
    let unsent = forward(node, leads, &free_addr(), deadline(), &group).await;
    assert_eq!(unsent, None);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_no_quorum_confirms_answers_no_linearizable_read() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(0).await;
    let leader = cluster.leader().expect("there is a leader");
    let node = cluster.raft(leader).node();
    assert!(read::point_here(node, None).await.is_ok());
    for at in (0..3).filter(|at| *at != leader) {
        cluster.stop(at).await;
    }
    // The others may have elected another leader without this node's knowledge.
    let node = cluster.raft(leader).node();
    let read = timeout_at(deadline(), read::point_here(node, None)).await;
    assert!(!matches!(read, Ok(Ok(_))), "confirmed by nobody: {read:?}");
    cluster.stop_all().await;
}
