//! Locks over the log: an expired hold passes to the next waiter in time, whichever node the waiter
//! uses.

use std::sync::Arc;
use std::time::Duration;

use seqd_state::{
    AcquireLock, Attempt, ClaimView, Command, LockCommand, LockOutcome, Nonce, Outcome, Wait,
};
use tokio::time::{Instant, timeout};

use super::nodes::Cluster;
use super::scenarios::{PATIENCE, Scene, leader_of_all_but, raft};

const TTL: Duration = Duration::from_millis(1_250);

/// Time by which a hold may exceed its deadline: a pause before the entry that carries the time,
/// and the rounds of that entry.
const LATE: Duration = Duration::from_millis(60);

async fn acquire(cluster: &Arc<Cluster>, node: usize, nonce: u128, wait_ms: u64) -> LockOutcome {
    let asked = AcquireLock {
        tenant: seqd_state::Tenant::OPERATOR,
        name: "jobs".parse().expect("a name"),
        owner: format!("owner {nonce}"),
        nonce: Nonce(nonce),
        attempt: Attempt(1),
        ttl_ms: TTL.as_millis() as u64,
        wait_ms,
        permits: 1,
        shared: false,
        lock_delay_ms: 0,
    };
    let command = Command::Locks(LockCommand::Acquire(asked));
    let raft = raft(cluster, node);
    let outcomes = raft.propose(vec![command], Instant::now() + PATIENCE);
    match outcomes.await.expect("outcomes").as_slice() {
        [Outcome::Locks(outcome)] => outcome.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hold_that_runs_out_goes_to_the_next_at_its_time_at_every_node() {
    Scene::near(3, 7).play(async |cluster| {
        let leader = leader_of_all_but(cluster, None).await;
        let held = acquire(cluster, leader, 0, 0).await;
        assert!(matches!(held, LockOutcome::Held { .. }), "{held:?}");
        let mut granted = Instant::now();
        for nonce in 1..7_u128 {
            let node = nonce as usize % 3;
            let (name, nonce) = ("jobs".parse().expect("a name"), Nonce(nonce));
            let turn = raft(cluster, node).wait_for_turn(Wait::Lock { name, nonce });
            let turn = turn.expect("it has a state");
            let waits = acquire(cluster, node, nonce.0, 20_000).await;
            assert!(matches!(waits, LockOutcome::Waiting { .. }), "{waits:?}");
            let came = timeout(PATIENCE, turn.came()).await;
            let took = granted.elapsed();
            granted = Instant::now();
            assert!(
                came.is_ok() && took >= TTL - LATE && took < TTL + LATE,
                "{took:?}"
            );
            raft(cluster, node).state(|state| {
                let owner = format!("owner {}", nonce.0);
                let claim = state
                    .lock("jobs")
                    .and_then(|lock| lock.claim(&owner, nonce));
                assert!(matches!(claim, Some(ClaimView::Held(_))), "{claim:?}");
            });
        }
    });
}
