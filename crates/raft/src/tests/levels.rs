//! Programs of other levels: the messages that a node refuses, and the messages that stop the node.

use std::collections::BTreeMap;
use std::time::Duration;

use openraft::ChangeMembers;
use seqd_peers::table::Start;
use seqd_peers::wire::hello::{HelloIdentity, HelloReply, HelloVerdict};
use seqd_peers::wire::route::Route;
use seqd_peers::wire::sealed;
use seqd_peers::wire::transport::{CallError, Link, Payload, Rejection, RejectionCode};
use seqd_state::codec::{HEADER_BYTES, Versioned};
use seqd_state::{ClusterCommand, Command, Level};
use tokio::time::timeout;

use super::harness::{
    Cluster, Spot, assert_ends, deadline, free_addr, next, options, pair, stopped, wait,
};
use crate::handshake::{hello, introduce};
use crate::membership::change::change_membership;
use crate::membership::majority::MembershipInForce;
use crate::messages::{AppendRequest, ChangeRefusal, Promise, ReadIndex};
use crate::records::{ToRecord, position_of};
use crate::tasks::raise_level;
use crate::types::Member;
use crate::{LevelRange, MemberError, Raft};

const LIMIT: Duration = Duration::from_secs(10);

/// Sends a message from one node to another with the next version number, like a newer program.
async fn send_newer<M: Versioned>(
    cluster: &Cluster,
    (from, to): (usize, usize),
    route: Route,
    message: M,
) -> Rejection {
    let target = cluster.raft(to).status().node_id.unwrap().0;
    let context = &cluster.raft(from).node().context;
    let mut bytes =
        sealed::seal(&context.envelope(target).unwrap(), &message, Level::FIRST).unwrap();
    let (_, message) = sealed::unseal(&bytes).unwrap();
    let version = bytes.len() - message.len() + HEADER_BYTES - 1;
    bytes[version] += 1;
    let addr = &cluster.spots[to].addr;
    let payload = Payload::Bytes(bytes.into());
    let sent = context
        .transport
        .post(Link::Control, addr, route, payload, LIMIT.into())
        .await;
    match sent {
        Err(CallError::Rejected(rejection)) => rejection,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_cannot_read_its_leader_s_entries_stops_as_newer_format() {
    let (mut cluster, leader, follower) = pair().await;
    let vote = cluster.raft(leader).node().replica().unwrap();
    let append = AppendRequest {
        vote: vote.current_vote().record(),
        prev: None,
        entries: Vec::new(),
        commit: None,
        synced: None,
        acknowledged: Vec::new(),
        without_quorum_ms: None,
    };
    let refused = send_newer(&cluster, (leader, follower), Route::Append, append).await;
    assert_eq!(refused.code, RejectionCode::NewerFormat, "{refused}");
    let stop = stopped(cluster.raft(follower)).await;
    assert_ends(&stop, 9, "newer-format");
    assert!(
        stop.message.contains("install the newer program again"),
        "{}",
        stop.message
    );
    // The follower's folder is not refused: with the newer program, the follower continues.
    cluster.stop(follower).await;
    cluster.start(follower).await.unwrap();
    cluster.ready().await;
    assert_eq!(next(cluster.raft(follower), "orders").await, Some(1));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_of_a_newer_program_is_refused_as_such_and_stops_no_node() {
    let (mut cluster, leader, follower) = pair().await;
    let question = ReadIndex {
        promised: Promise { term: 5 },
        timeout_ms: 1_000,
    };
    let both = (follower, leader);
    let refused = send_newer(&cluster, both, Route::ReadIndex, question).await;
    assert_eq!(refused.code, RejectionCode::NewerFormat, "{refused}");
    assert_eq!(next(cluster.raft(leader), "orders").await, Some(1));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_below_the_level_is_refused_by_all_and_one_above_it_by_the_leader_alone() {
    let (mut cluster, leader, follower) = pair().await;
    let level = cluster.raft(leader).node().context.level();
    let range = |oldest, newest| LevelRange { oldest, newest };
    let (below, above) = (range(0, level.0 - 1), range(level.0 + 1, level.0 + 2));
    let refused = HelloVerdict::LeftBehind { level };
    // A follower may lag: it may not have applied the cluster's level yet.
    for (from, to, levels, verdict) in [
        (follower, leader, below, &refused),
        (leader, follower, below, &refused),
        (leader, follower, above, &HelloVerdict::Welcome),
        (follower, leader, above, &refused),
    ] {
        let context = &cluster.raft(from).node().context;
        let mut hello = hello::own_hello(context);
        hello.levels = levels;
        let addr = &cluster.spots[to].addr;
        let reply: HelloReply = hello::ask(context, addr, Route::Hello, hello, LIMIT)
            .await
            .unwrap();
        assert_eq!(reply.verdict, *verdict, "{levels}");
        assert!(reply.levels.contains(level));
    }
    cluster.stop_all().await;
}

/// A program that supports only the first level, like the current one.
const OLD: LevelRange = LevelRange::OWN;

/// The program of the next version.
const NEXT: LevelRange = LevelRange {
    oldest: Level::FIRST.0,
    newest: Level::FIRST.next().0,
};

/// Asserts that the level is the first one, and that no running node would propose another if it
/// led.
fn assert_no_raise_is_due(cluster: &Cluster) {
    for raft in cluster.spots.iter().filter_map(|spot| spot.raft.as_ref()) {
        let node = raft.node();
        if let Some(replica) = node.replica() {
            let is_due = raise_level::due(&node.context, replica).is_some();
            assert!(
                !is_due && raft.status().level == 1,
                "the level rises without a member that does not support it"
            );
        }
    }
}

fn levels(cluster: &Cluster) -> Vec<u32> {
    let running = cluster.spots.iter().filter_map(|spot| spot.raft.as_ref());
    running.map(|raft| raft.status().level).collect()
}

/// Waits until the running nodes have the next level.
async fn at_next(cluster: &Cluster) {
    wait("the level is the next one", || async {
        levels(cluster).iter().all(|level| *level == NEXT.newest)
    })
    .await;
}

/// Returns whether a node has recorded the levels of each of three members.
fn knows_all(raft: &Raft) -> bool {
    let members = raft.status().members;
    members.len() == 3 && members.iter().all(|member| member.levels.is_some())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_level_rises_once_the_last_member_supports_it_and_an_older_program_is_refused_then() {
    Level::widen();
    let mut cluster = Cluster::planned(3);
    cluster.spots[0].levels = NEXT;
    cluster.spots[1].levels = NEXT;
    for at in 0..3 {
        cluster.start(at).await.unwrap();
    }
    cluster.create_orders(0).await;
    wait("every node knows what the others support", || async {
        cluster
            .spots
            .iter()
            .all(|spot| knows_all(spot.raft.as_ref().unwrap()))
    })
    .await;
    assert_no_raise_is_due(&cluster);
    assert_eq!(next(cluster.raft(0), "orders").await, Some(1));

    // While it is away, its next program is not known.
    cluster.stop(2).await;
    assert_eq!(next(cluster.raft(0), "orders").await, Some(2));
    assert_no_raise_is_due(&cluster);

    cluster.spots[2].levels = NEXT;
    cluster.start(2).await.unwrap();
    at_next(&cluster).await;
    assert_eq!(next(cluster.raft(2), "orders").await, Some(3));

    cluster.stop(2).await;
    cluster.spots[2].levels = OLD;
    cluster.start(2).await.unwrap();
    let stop = stopped(cluster.raft(2)).await;
    assert_ends(&stop, 9, "newer-format");
    let wanted = format!(
        "this program supports levels {OLD}, the cluster is at {}: install the newer program again",
        NEXT.newest
    );
    assert_eq!(stop.message, wanted);

    cluster.stop(2).await;
    cluster.spots[2].levels = NEXT;
    cluster.start(2).await.unwrap();
    cluster.ready().await;
    assert_eq!(next(cluster.raft(2), "orders").await, Some(4));
    cluster.stop_all().await;
}

/// Waits until the first node has received the levels that a member supports.
async fn reported(cluster: &Cluster, member: &str, levels: LevelRange) {
    wait("a member reports its levels", || async {
        let members = cluster.raft(0).status().members;
        let found = members.into_iter().find(|found| found.name == member);
        found.is_some_and(|found| found.reachable && found.levels == Some(levels))
    })
    .await;
}

/// One voter and two learners at the first level. All but the last learner support the next one.
async fn held_by_the_last_learner() -> Cluster {
    Level::widen();
    let mut cluster = Cluster::planned(1);
    cluster.start(0).await.unwrap();
    cluster.create_orders(0).await;
    for (at, levels) in [(1, NEXT), (2, OLD)] {
        let (name, addr) = (format!("n{}", at + 1), free_addr());
        let spot = Spot {
            folder: cluster.dir.path().join(&name),
            name: name.clone(),
            addr: addr.clone(),
            disk: std::sync::Arc::new(seqd_disk::OsDisk),
            levels,
            snapshot_every: cluster.spots[0].snapshot_every,
            raft: None,
            transport: crate::peer_transport(tokio::runtime::Handle::current()),
        };
        cluster.spots.push(spot);
        cluster.start(at).await.unwrap();
        let added = cluster.raft(0).member_add(name, addr, None, deadline());
        added.await.unwrap();
    }
    cluster.ready().await;
    restart(&mut cluster, 0, NEXT).await;
    reported(&cluster, "n2", NEXT).await;
    reported(&cluster, "n3", OLD).await;
    assert_no_raise_is_due(&cluster);
    cluster
}

async fn restart(cluster: &mut Cluster, at: usize, levels: LevelRange) {
    cluster.stop(at).await;
    cluster.spots[at].levels = levels;
    cluster.start(at).await.unwrap();
}

/// Stops the first learner and waits until the leader has noticed.
async fn stop_first_learner(cluster: &mut Cluster) {
    cluster.stop(1).await;
    wait("it is known to be away", || async {
        let members = cluster.raft(0).status().members;
        members
            .iter()
            .any(|found| found.name == "n2" && !found.reachable)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_away_holds_the_level_also_if_it_supported_the_next_one() {
    let mut cluster = held_by_the_last_learner().await;
    stop_first_learner(&mut cluster).await;
    restart(&mut cluster, 2, NEXT).await;
    reported(&cluster, "n3", NEXT).await;
    assert_no_raise_is_due(&cluster);
    // The first learner returns with the old program, and serves.
    cluster.spots[1].levels = OLD;
    cluster.start(1).await.unwrap();
    reported(&cluster, "n2", OLD).await;
    assert_no_raise_is_due(&cluster);
    assert!(cluster.raft(1).phase().borrow().is_running());

    restart(&mut cluster, 1, NEXT).await;
    at_next(&cluster).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_of_an_earlier_start_of_a_member_does_not_raise_the_level() {
    let mut cluster = held_by_the_last_learner().await;
    stop_first_learner(&mut cluster).await;
    restart(&mut cluster, 2, NEXT).await;
    reported(&cluster, "n3", NEXT).await;
    // The first learner starts with an old program, which has sent a hello and an answer, but no
    // ping.
    let context = &cluster.raft(0).node().context;
    let learner = cluster.raft(0).status().members[1].id.0;
    let (rows, _) = context.peers.rows();
    let known = rows.iter().find(|(node, _)| *node == learner).unwrap().1;
    let identity = HelloIdentity {
        cluster_id: context.identity().unwrap().cluster_id,
        ancestors: Vec::new(),
        node: learner,
        start: Start {
            boot: known.start.boot + 1,
            nonce: 0,
        },
        began: known.synced,
    };
    assert_eq!(
        introduce::check_start(context, &identity, OLD),
        Ok(HelloVerdict::Welcome)
    );
    context.record_answer(learner, None);
    assert_no_raise_is_due(&cluster);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_level_is_not_raised_while_a_member_is_added() {
    let mut cluster = held_by_the_last_learner().await;
    let replica = std::sync::Arc::clone(cluster.raft(0).node().replica().unwrap());
    let adding = replica.adding_or_raising.lock().await;
    restart(&mut cluster, 2, NEXT).await;
    reported(&cluster, "n3", NEXT).await;
    // The leader checks ten times a second, and these requests take longer than that.
    for _ in 0..20 {
        assert!(next(cluster.raft(0), "orders").await.is_some());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(cluster.raft(0).status().level, 1);
    drop(adding);
    at_next(&cluster).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_add_waits_for_a_raise_that_is_under_way_and_is_checked_against_it() {
    Level::widen();
    let mut cluster = Cluster::planned(1);
    cluster.start(0).await.unwrap();
    cluster.ready().await;
    let addr = free_addr();
    let folder = cluster.dir.path().join("n2");
    let disk = std::sync::Arc::clone(&cluster.spots[0].disk);
    let mut options = options(disk, "n2", &folder, &addr, &cluster.peers).await;
    options.settings.levels = OLD;
    let older = Raft::start(options).await.unwrap();

    let raft = cluster.raft(0);
    let replica = raft.node().replica().unwrap();
    let raising = replica.adding_or_raising.lock().await;
    let adder = raft.clone();
    let mut added = tokio::spawn(async move {
        let add = adder.member_add("n2".to_owned(), addr, None, deadline());
        add.await
    });
    wait(
        "it has its identity and a log, and answers that",
        || async { older.node().context.has_history() == Some(false) },
    )
    .await;
    let early = timeout(Duration::from_millis(500), &mut added).await;
    assert!(
        early.is_err(),
        "an add does not wait for a raise: {early:?}"
    );
    let membership = position_of(&replica.applied.read().membership).unwrap();
    let to = Level::FIRST.next();
    let raise = Command::Cluster(ClusterCommand::RaiseLevel { to, membership });
    raft.propose(vec![raise], deadline()).await.unwrap();
    assert_eq!(raft.status().level, to.0);
    drop(raising);
    let Err(MemberError::Unfit { detail }) = added.await.unwrap() else {
        panic!("it was added");
    };
    assert!(detail.contains("supports levels 1..1"), "{detail}");
    assert_eq!(raft.status().members.len(), 1);
    older.stop().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_was_checked_under_an_earlier_leadership_is_not_made() {
    let mut cluster = Cluster::new(2).await;
    cluster.create_orders(0).await;
    let leader = cluster.leader().expect("there is a leader");
    let replica = cluster.raft(leader).node().replica().unwrap();
    let earlier = replica.leading().unwrap();
    for to in [1 - leader, leader] {
        let name = cluster.spots[to].name.clone();
        let moved = cluster.raft(leader).leader_move(Some(name), deadline());
        moved.await.unwrap();
    }
    wait("it leads again", || async { replica.leading().is_some() }).await;
    let member = Member {
        name: "n3".to_owned(),
        peer: free_addr(),
        http: String::new(),
    };
    let nodes = ChangeMembers::AddNodes(BTreeMap::from([(3, member)]));
    let changed = change_membership(
        replica,
        earlier,
        &MembershipInForce::of(replica),
        nodes,
        true,
    )
    .await;
    assert!(matches!(changed, Err(ChangeRefusal::NotLeader)));
    assert_eq!(cluster.raft(leader).status().members.len(), 2);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_support_the_cluster_s_level_is_not_added() {
    let mut cluster = Cluster::new(1).await;
    cluster.ready().await;
    let (spot, addr) = (&cluster.spots[0], free_addr());
    let fnewer = cluster.dir.path().join("n2");
    let disk = std::sync::Arc::clone(&spot.disk);
    let mut options = options(disk, "n2", &fnewer, &addr, &cluster.peers).await;
    options.settings.levels = LevelRange {
        oldest: NEXT.newest,
        newest: NEXT.newest,
    };
    let newer = Raft::start(options).await.unwrap();
    let added = cluster
        .raft(0)
        .member_add("n2".to_owned(), addr, None, deadline())
        .await;
    let Err(MemberError::Unfit { detail }) = added else {
        panic!("{added:?}");
    };
    assert!(detail.contains("supports levels 2..2"), "{detail}");
    assert!(newer.node().context.identity().is_none());
    assert_eq!(cluster.raft(0).status().members.len(), 1);
    newer.stop().await;
    cluster.stop_all().await;
}
