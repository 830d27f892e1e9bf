//! A follower that falls behind detects it, however long it has been running.

use futures_util::future::join_all;

use super::cut::{cluster, log_of};
use super::harness::{next, wait};
use crate::MAY_BE_BEHIND;
use crate::proposer::entry;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lagging_follower_is_not_caught_up_and_reports_its_lag() {
    let (mut cluster, cut) = cluster().await;
    let at = cluster.leader().expect("there is a leader");
    let (leader, follower) = (cluster.raft(at), cluster.raft((at + 1) % 3));
    wait("it is caught up", || async { follower.status().caught_up }).await;
    let addr = cluster.spots[(at + 1) % 3].addr.clone();
    cut.lock().unwrap().insert(log_of(&addr));
    let node = leader.node();
    let (context, replica) = (&node.context, node.replica().unwrap());
    let leading = replica.leading().unwrap();
    let entries = MAY_BE_BEHIND + 200;
    let proposed = (0..entries).map(|_| entry::propose_as(context, replica, leading, Vec::new()));
    let proposed = join_all(proposed).await;
    assert!(proposed.iter().all(Option::is_some));
    wait("it knows that it is behind", || async {
        let status = follower.status();
        !status.caught_up && status.behind() >= entries
    })
    .await;
    let status = follower.status();
    assert!(
        status.has_quorum_contact,
        "its leader is in touch all the time"
    );
    assert_eq!(status.committed - status.behind(), status.applied);
    assert!(leader.status().caught_up);
    cut.lock().unwrap().clear();
    wait("it has caught up", || async {
        let status = follower.status();
        status.caught_up && status.behind() == 0
    })
    .await;
    assert_eq!(next(follower, "orders").await, Some(1));
    cluster.stop_all().await;
}
