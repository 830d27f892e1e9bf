//! Invariants across a change of leader: no entry of an earlier leadership is proposed, time
//! continues, and a stopping leader is replaced before it has stopped. A node that reaches no other
//! node raises no term.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seqd_disk::OsDisk;
use seqd_state::idgen::{WallClock, WallMs};
use seqd_state::{Command, NextRequest, SequenceCommand};
use tokio::time::Instant;

use super::cut;
use super::harness::{Cluster, create, deadline, name, next, options, pair, wait};
use crate::messages::Stopping;
use crate::proposer::entry;
use crate::replica::Replica;
use crate::{Raft, Role};

fn replica(cluster: &Cluster, at: usize) -> &Arc<Replica> {
    cluster.raft(at).node().replica().unwrap()
}

fn leads(cluster: &Cluster, at: usize) -> bool {
    replica(cluster, at).is_leader()
}

async fn move_leader(cluster: &Cluster, to: usize) {
    let name = cluster.spots[to].name.clone();
    let moved = cluster.raft(to).leader_move(Some(name), deadline());
    moved.await.unwrap();
    wait("it leads", || async {
        replica(cluster, to).leading().is_some()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_of_an_earlier_leadership_of_the_same_node_is_not_proposed() {
    let (mut cluster, leader, other) = pair().await;
    let earlier = replica(&cluster, leader).leading().unwrap();
    move_leader(&cluster, other).await;
    move_leader(&cluster, leader).await;
    let request = NextRequest {
        name: name("orders"),
        count: 1,
    };
    let commands = vec![Command::Sequences(SequenceCommand::Next(request))];
    let (context, replica) = (
        &cluster.raft(leader).node().context,
        replica(&cluster, leader),
    );
    let outcomes = entry::propose_as(context, replica, earlier, commands.clone()).await;
    assert_eq!(outcomes, None, "proposed under a leadership that is over");
    let current = replica.leading().unwrap();
    let outcomes = entry::propose_as(context, replica, current, commands).await;
    assert!(outcomes.is_some());
    // One value was returned, not two.
    assert_eq!(next(cluster.raft(other), "orders").await, Some(2));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stops_is_replaced_before_it_is_gone() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(0).await;
    let leader = cluster.leader().expect("there is a leader");
    wait("a voter can take over", || async {
        let others = (0..3).filter(|at| *at != leader);
        let applied = replica(&cluster, leader).applied_index();
        others
            .into_iter()
            .all(|at| replica(&cluster, at).applied_index() == applied)
    })
    .await;
    cluster.stop(leader).await;
    let mut others = (0..3).filter(|at| *at != leader);
    assert!(
        others.any(|at| leads(&cluster, at)),
        "nobody leads: the others have to notice its absence first"
    );
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_removed_is_replaced_before_it_is_gone() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(0).await;
    let leader = cluster.leader().expect("there is a leader");
    let others: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
    let gone = cluster.spots[leader].name.clone();
    let asked = cluster.raft(others[0]);
    let removed = asked.member_remove(gone, deadline()).await.unwrap();
    assert!(
        others.iter().any(|at| leads(&cluster, *at)),
        "nobody leads: the others have to notice its absence first"
    );
    assert_eq!(removed.name, cluster.spots[leader].name);
    assert_eq!(next(cluster.raft(others[1]), "orders").await, Some(1));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_reaches_no_peer_raises_no_term() {
    let (mut cluster, cut) = cut::cluster().await;
    let leader = cluster.leader().expect("there is a leader");
    let at = (leader + 1) % 3;
    cut.lock().unwrap().insert(cluster.spots[at].addr.clone());
    let replica = cluster.raft(at).node().replica().unwrap();
    let term = async || {
        let asked = replica
            .raft
            .with_raft_state(|state| state.vote_ref().leader_id.term);
        asked.await.unwrap()
    };
    let before = term().await;
    for _ in 0..3 {
        replica.run_for_leader().await;
        assert_eq!(
            term().await,
            before,
            "a node that reaches nobody raised the term"
        );
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_stops_costs_no_leader() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(0).await;
    let leader = cluster.leader().expect("there is a leader");
    let term = replica(&cluster, leader).current_vote().leader_id.term;
    cluster.stop((leader + 1) % 3).await;
    for value in 1..=20 {
        assert_eq!(
            next(cluster.raft((leader + 2) % 3), "orders").await,
            Some(value)
        );
    }
    assert_eq!(cluster.raft(leader).status().role, Role::Leader);
    let now = replica(&cluster, leader).current_vote().leader_id.term;
    assert_eq!(now, term, "there was an election");
    cluster.stop_all().await;
}

/// A wall clock that a test sets.
struct SteppedClock(AtomicU64);

impl WallClock for SteppedClock {
    fn wall(&self) -> WallMs {
        WallMs(self.0.load(Ordering::SeqCst))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_step_of_the_leader_s_wall_clock_moves_the_cluster_s_clock() {
    const DAY_MS: u64 = 86_400_000;
    const NOW: u64 = 1_800_000_000_000;
    let clock = Arc::new(SteppedClock(AtomicU64::new(NOW)));
    let cluster = Cluster::planned(1);
    let spot = &cluster.spots[0];
    let disk = Arc::new(OsDisk);
    let mut options = options(disk, &spot.name, &spot.folder, &spot.addr, &cluster.peers).await;
    options.settings.clock = Arc::clone(&clock) as Arc<dyn WallClock>;
    let raft = Raft::start(options).await.unwrap();
    wait("it leads", || async { *raft.started().borrow() }).await;
    let cluster_ms = || raft.state(|state| state.cluster_ms().0);
    let began = Instant::now();
    raft.propose(vec![create("first")], deadline())
        .await
        .unwrap();
    let before = cluster_ms();
    let mut last = before;
    for (at, stepped) in [NOW + DAY_MS, NOW - DAY_MS, NOW].into_iter().enumerate() {
        clock.0.store(stepped, Ordering::SeqCst);
        let command = create(&format!("s{at}"));
        raft.propose(vec![command], deadline()).await.unwrap();
        let now = cluster_ms();
        let real = u64::try_from(began.elapsed().as_millis()).unwrap();
        assert!(now >= last, "{now} after {last}");
        // One millisecond allows for the rounding of both clocks.
        assert!(now - before <= real + 1, "{} of {real}", now - before);
        last = now;
    }
    raft.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_is_announced_again_holds_nothing_again() {
    let (mut cluster, leader, _) = pair().await;
    let raft = cluster.raft(leader);
    let context = &raft.node().context;
    raft.begin_stop();
    assert_eq!(context.stopping(), Stopping::Holds);
    let began = context.set_stopping(Stopping::GaveBack);
    raft.begin_stop();
    assert_eq!(context.stopping(), Stopping::GaveBack);
    assert_eq!(context.set_stopping(Stopping::GaveBack), began);
    cluster.stop_all().await;
}
