//! Ten million IDs from all nodes at the same time, while each node in turn is killed and started
//! again.

use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::runs::{IdRun, ids_while_nodes_are_killed};

/// IDs per request.
const BATCH: u64 = 1000;

pub(crate) fn run(count: u64) -> Result<(), Violation> {
    let minted = ids_while_nodes_are_killed(&IdRun {
        clients: 6,
        batch: BATCH,
        pause_ms: 0,
        victims: [0, 1, 2],
        // Seven stretches: before, between and during the outages.
        stretch: usize::try_from(count / BATCH / 7 + 1).expect("a count of requests"),
        patience: Duration::from_secs(600),
        longest_pause: Duration::from_secs(1),
    })?;
    assert!(minted >= count, "only {minted} of {count}");
    Ok(())
}
