//! Groups in flight: the time limit of the wait for them, and the drain of a leader that stops.

use tokio::time::timeout;

use super::super::route::given_up;
use super::*;
use crate::membership::leader::best_transfer_target;
use crate::tests::cut;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_in_progress_is_awaited_until_its_deadline() {
    let mut cluster = Cluster::new(1).await;
    cluster.create_orders(0).await;
    let replica = cluster.raft(0).node().replica().unwrap();
    let due = Instant::now() + Duration::from_millis(150);
    // A lone node is always in contact with its quorum.
    let waited = timeout(Duration::from_secs(10), given_up(replica, due)).await;
    let unknown = waited.expect("a group is waited for beyond its deadline");
    assert!(Instant::now() >= due);
    let within = ProposeError::unknown("no response within the deadline");
    assert_eq!(unknown, within);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_leader_answers_groups_in_progress_before_it_hands_over() {
    let (mut cluster, cut) = cut::cluster().await;
    let at = cluster.leader().expect("there is a leader");
    let raft = cluster.raft(at).clone();
    let others = (0..3).filter(|other| *other != at);
    let logs = others.map(|other| cut::log_of(&cluster.spots[other].addr));
    cut.lock().unwrap().extend(logs);
    let proposing = raft.clone();
    let more = vec![create("more")];
    let asked = tokio::spawn(async move { proposing.propose(more, deadline()).await });
    let node = raft.node();
    let replica = node.replica().unwrap();
    wait("it is under way, and another voter may lead", || async {
        let target = best_transfer_target(&node.context, replica);
        raft.batcher().pending() == 1 && target.is_some()
    })
    .await;
    let stopped = raft.clone();
    let stopping = tokio::spawn(async move { stopped.stop().await });
    let drains = || raft.batcher().leaving.load(Ordering::SeqCst);
    wait("it drains, or hands over", || async {
        drains() || !replica.is_leader()
    })
    .await;
    assert!(
        drains(),
        "leadership is handed over while a proposal is under way"
    );
    cut.lock().unwrap().clear();
    stopping.await.unwrap();
    // The proposal was acknowledged or its outcome is unknown, because a busy machine may take
    // longer than the drain.
    let answer = asked.await.unwrap();
    assert!(
        matches!(answer, Ok(_) | Err(ProposeError::OutcomeUnknown { .. })),
        "{answer:?}"
    );
    cluster.stop_all().await;
}
