//! Expired rows are removed soon, even if nothing else is proposed.

use std::time::Instant;

use seqd_state::{BeginKey, Command, KeyCommand, KeyName, KeyOutcome, KeySpace, Outcome, State};

use super::harness::{Cluster, deadline, wait};

/// Enough for forty entries, which would take forty seconds at one entry per second.
const KEYS: usize = 40 * BATCH;
const BATCH: usize = 1024;

/// A fortieth of a second for each entry, with a margin for a busy machine.
const SOON: std::time::Duration = std::time::Duration::from_secs(20);

fn begin(number: usize) -> Command {
    Command::Keys(KeyCommand::Begin(BeginKey {
        tenant: seqd_state::Tenant::OPERATOR,
        name: KeyName {
            space: KeySpace::Users,
            key: number.to_string(),
        },
        ttl_ms: 1_000,
        claim_ttl_ms: 100,
        fingerprint: String::new(),
        nonce: String::new(),
    }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_space_of_thousands_of_keys_that_end_together_is_free_within_seconds() {
    let mut cluster = Cluster::new(1).await;
    cluster.ready().await;
    wait("the cluster has keys", || async {
        let begun = cluster.raft(0).propose(vec![begin(0)], deadline()).await;
        let outcome = begun.ok().and_then(|mut outcomes| outcomes.pop());
        matches!(outcome, Some(Outcome::Keys(KeyOutcome::First { .. })))
    })
    .await;
    for first in (0..KEYS).step_by(BATCH) {
        let commands = (first..first + BATCH).map(begin).collect();
        let begun = cluster.raft(0).propose(commands, deadline());
        begun.await.unwrap();
    }
    let begun = Instant::now();
    wait("no key is left", || async {
        cluster.raft(0).state(State::keys_count) == 0
    })
    .await;
    let took = begun.elapsed();
    assert!(took < SOON, "ended rows took {took:?}");
    cluster.stop_all().await;
}
