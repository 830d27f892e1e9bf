//! Snowflake IDs stay unique and increasing while the nodes that mint them are killed.

use std::time::Duration;

use seqd_tests::cluster::READY;
use seqd_tests::runs::{IdRun, ids_while_nodes_are_killed};
use seqd_tests::seed::Random;

/// The longest pause of a running node while another is killed or comes back: far less than its
/// window of 30 s. The soak run measures the pause on an idle machine.
const PAUSE: Duration = Duration::from_secs(5);

#[test]
fn no_id_is_minted_twice_while_each_node_in_turn_is_killed() {
    let mut victims = [0, 1, 2];
    Random::of_this_run("victims").shuffle(&mut victims);
    let count = ids_while_nodes_are_killed(&IdRun {
        clients: 3,
        batch: 500,
        pause_ms: 5,
        victims,
        stretch: 50,
        patience: READY,
        longest_pause: PAUSE,
    });
    let count = count.unwrap();
    assert!(count >= 75_000, "only {count} IDs were minted");
}
