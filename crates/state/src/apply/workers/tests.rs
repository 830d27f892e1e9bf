//! What clients leave to the nodes.

use seqd_idgen::{Tick, WallMs};

use super::{Tenant, reserve};
use crate::domains::{Command, Outcome, Refusal};
use crate::newtypes::AccessId;
use crate::state::State;
use crate::testing::{entry, founded};
use crate::workers::commands::{TakeLease, WorkerCommand, WorkerOutcome, WorkerRefusal};

/// 2027-01-15, behind the epoch of every layout.
const NOW: u64 = 1_800_000_000_000;

fn take(state: &mut State, owner: &str, tenant: Tenant) -> Outcome {
    let layout = state.layout("js53").unwrap();
    let fence = Tick(layout.tick_at(WallMs(NOW)).unwrap().0 + 10);
    let take = WorkerCommand::TakeLease(TakeLease {
        layout: "js53".to_owned(),
        tenant,
        owner: owner.to_owned(),
        node: None,
        boot: 0,
        fence,
        datacenter: None,
    });
    state
        .apply(&entry(NOW, vec![Command::Workers(take)]), None)
        .remove(0)
}

fn is_taken(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Workers(WorkerOutcome::LeaseTaken(_)))
}

#[test]
fn clients_leave_workers_to_the_nodes() {
    let mut state = founded();
    let workers = state.layout("js53").unwrap().workers();
    let left = reserve(workers);
    assert!(left >= 3);
    for at in 0..workers - left {
        let tenant = Tenant::of_token(AccessId(u64::from(at % 5) + 1));
        assert!(is_taken(&take(&mut state, &format!("c{at}"), tenant)));
    }
    let other = take(&mut state, "other", Tenant::of_token(AccessId(9)));
    assert!(!is_taken(&other), "clients took the workers of the nodes");
    let Outcome::Refused(Refusal::Workers(refusal)) = other else {
        panic!("{other:?}");
    };
    assert!(matches!(
        refusal,
        WorkerRefusal::WorkersExhausted { reserved, retry_after_ms, .. }
            if reserved == left && retry_after_ms > 0
    ));
    for at in 0..left {
        let node = take(&mut state, &format!("n{at}"), Tenant::OPERATOR);
        assert!(is_taken(&node), "{node:?}");
    }
    assert!(!is_taken(&take(&mut state, "one more", Tenant::OPERATOR)));
}

#[test]
fn the_reserve_leaves_room_for_clients_in_each_layout() {
    let expected = [
        (1, 0),
        (3, 0),
        (4, 1),
        (7, 1),
        (8, 3),
        (24, 3),
        (32, 4),
        (1024, 128),
    ];
    for (workers, reserved) in expected {
        assert_eq!(reserve(workers), reserved, "{workers} workers");
    }
}
