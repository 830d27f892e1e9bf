//! A leader that is stopped transfers leadership after it has answered, and no request is lost.

use std::time::Duration;

use tokio::time::sleep;

use super::net::{LAN, Link};
use super::scenarios::{Scene, leader_of_all_but, next};

/// The leader's messages to a follower take longer than the election of the next leader.
const LATE: Link = Link {
    delay: Duration::from_millis(50),
    ..LAN
};

#[test]
fn an_answer_behind_the_news_of_the_next_leader_is_waited_for() {
    let scene = Scene::near(3, 1);
    scene.play(async |cluster| {
        for after_ms in 0..20 {
            let leader = leader_of_all_but(cluster, None).await;
            let asked = (leader + 1) % scene.nodes;
            cluster.net.set_link(leader, asked, LATE);
            let stop = async {
                sleep(Duration::from_millis(after_ms)).await;
                cluster.stop(leader).await;
            };
            let (answer, ()) = tokio::join!(biased; next(cluster, asked), stop);
            assert!(
                matches!(answer, Some(Ok(_))),
                "{after_ms} ms before the leader was stopped: {answer:?}"
            );
            cluster.net.set_link(leader, asked, LAN);
            scene.start(cluster, leader).await;
        }
    });
}
