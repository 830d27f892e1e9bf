//! Tests of the workers that are reserved for the nodes, and of the end of leases.

use seqd_idgen::{Tick, WallMs};

use crate::cluster::commands::ClusterCommand;
use crate::domains::{Command, Outcome, Refusal};
use crate::newtypes::{AccessId, NodeId};
use crate::state::State;
use crate::tenant::Tenant;
use crate::testing::{entry, founded};
use crate::workers::commands::{
    LeaseGrant, TakeLease, WorkerCommand, WorkerOutcome, WorkerRefusal,
};
use crate::workers::room::reserve;

/// 2027-01-15, after the epoch of every layout.
const NOW: u64 = 1_800_000_000_000;

fn take(state: &mut State, owner: &str, tenant: Tenant) -> Outcome {
    take_of(state, ("js53", None), owner, tenant)
}

fn take_of(
    state: &mut State,
    (layout, datacenter): (&str, Option<u32>),
    owner: &str,
    tenant: Tenant,
) -> Outcome {
    let definition = state.layout(layout).unwrap();
    let fence = Tick(definition.tick_at(WallMs(NOW)).unwrap().0 + 10);
    let take = WorkerCommand::TakeLease(TakeLease {
        layout: layout.to_owned(),
        tenant,
        owner: owner.to_owned(),
        node: None,
        boot: 0,
        fence,
        datacenter,
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
    assert_eq!(in_use(&state, "js53"), Some((workers - left, 0)));
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

/// The assigned workers of a layout in use, and the workers that clients can still lease.
fn in_use(state: &State, layout: &str) -> Option<(u32, u32)> {
    let all = state.layouts_in_use().into_iter();
    let mut named = all.filter(|one| one.layout.name() == layout);
    named.next().map(|one| (one.assigned, one.free_for_clients))
}

#[test]
fn a_layout_is_in_use_from_its_first_lease_until_a_week_after_the_last() {
    let mut state = founded();
    assert_eq!(in_use(&state, "default"), Some((0, 1024 - 128)));
    assert_eq!(in_use(&state, "js53"), None);
    // The workers of nodes leave those of clients, up to the reserve.
    let client = Tenant::of_token(AccessId(1));
    let expected = [(Tenant::OPERATOR, 28), (client, 27), (Tenant::OPERATOR, 27)];
    for (at, (tenant, left)) in expected.into_iter().enumerate() {
        assert!(is_taken(&take(&mut state, &format!("c{at}"), tenant)));
        assert_eq!(in_use(&state, "js53"), Some((at as u32 + 1, left)));
    }
    for at in 3..32 - 1 {
        assert!(is_taken(&take(
            &mut state,
            &format!("n{at}"),
            Tenant::OPERATOR
        )));
    }
    assert_eq!(in_use(&state, "js53"), Some((31, 1)));
    let names = |state: &State| -> Vec<String> {
        let all = state.layouts_in_use().into_iter();
        all.map(|one| one.layout.name().to_owned()).collect()
    };
    assert!(is_taken(&take_of(
        &mut state,
        ("twitter", Some(3)),
        "c",
        client
    )));
    assert_eq!(in_use(&state, "twitter"), Some((1, 32 * 28 - 1)));
    assert_eq!(names(&state), ["default", "js53", "twitter"]);
    let week = 7 * 24 * 60 * 60 * 1000;
    state.apply(&entry(NOW + week - 1, Vec::new()), None);
    assert_eq!(in_use(&state, "js53"), Some((0, 28)));
    state.apply(&entry(NOW + week, Vec::new()), None);
    assert_eq!(names(&state), ["default"]);
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

#[test]
fn clients_leave_workers_of_each_datacenter_to_its_nodes() {
    let mut state = founded();
    let workers = state.layout("twitter").unwrap().workers();
    let client = Tenant::of_token(AccessId(1));
    let mut taken = 0;
    while is_taken(&take_of(
        &mut state,
        ("twitter", None),
        &format!("c{taken}"),
        client,
    )) {
        taken += 1;
    }
    assert_eq!(taken, workers - workers / 32 * reserve(32));
    for datacenter in [0, 31] {
        let asked = ("twitter", Some(datacenter));
        let node = take_of(
            &mut state,
            asked,
            &format!("n{datacenter}"),
            Tenant::OPERATOR,
        );
        assert!(is_taken(&node), "datacenter {datacenter}: {node:?}");
        let other = take_of(&mut state, asked, "other", client);
        assert!(!is_taken(&other), "a client took a worker of the nodes");
    }
}

#[test]
fn a_client_that_names_no_datacenter_leaves_some_in_each() {
    let mut state = founded();
    let (client, other) = (AccessId(1), AccessId(2));
    for at in 0..256 {
        let owner = format!("c{at}");
        let taken = take_of(
            &mut state,
            ("twitter", None),
            &owner,
            Tenant::of_token(client),
        );
        assert!(is_taken(&taken));
    }
    for at in 0..32 - 8 - reserve(32) {
        let asked = ("twitter", Some(0));
        let taken = take_of(
            &mut state,
            asked,
            &format!("o{at}"),
            Tenant::of_token(other),
        );
        assert!(is_taken(&taken), "{at}: {taken:?}");
    }
}

#[test]
fn a_worker_is_taken_until_its_fence_after_a_release() {
    let mut state = founded();
    let client = Tenant::of_token(AccessId(1));
    let Outcome::Workers(WorkerOutcome::LeaseTaken(grant)) = take(&mut state, "a", client) else {
        panic!("no lease");
    };
    let release = WorkerCommand::ReleaseLease {
        layout: grant.layout.clone(),
        worker: grant.worker,
        lease: grant.lease,
        last_tick: None,
    };
    state.apply(&entry(NOW, vec![Command::Workers(release)]), None);
    let lease = state.leases_of("js53").next().unwrap();
    assert!(!lease.live);
    assert!(
        state.ms_until_free(&lease) > 0,
        "a released worker is free before its fence"
    );
}

/// Returns a fence that a window from this time allows.
fn fence_at(state: &State, at: u64) -> Tick {
    let layout = state.layout("js53").unwrap();
    Tick(layout.tick_at(WallMs(at)).unwrap().0 + 10)
}

/// Extends the lease of a grant at a time.
fn extend(state: &mut State, grant: &LeaseGrant, at: u64) -> Outcome {
    let extend = WorkerCommand::ExtendLease {
        layout: grant.layout.clone(),
        worker: grant.worker,
        lease: grant.lease,
        fence: fence_at(state, at),
    };
    let entry = entry(at, vec![Command::Workers(extend)]);
    state.apply(&entry, None).remove(0)
}

/// Otherwise a client could let its leases expire, take others, and extend all of them.
#[test]
fn a_client_cannot_extend_a_lease_whose_worker_is_free() {
    let mut state = founded();
    let client = Tenant::of_token(AccessId(1));
    let Outcome::Workers(WorkerOutcome::LeaseTaken(grant)) = take(&mut state, "a", client) else {
        panic!("no lease");
    };
    let last = extend(&mut state, &grant, NOW + 29_999);
    assert!(
        matches!(last, Outcome::Workers(WorkerOutcome::LeaseExtended { .. })),
        "{last:?}"
    );
    let late = extend(&mut state, &grant, NOW + 59_999);
    let is_lost = matches!(
        &late,
        Outcome::Refused(Refusal::Workers(WorkerRefusal::LeaseLost {
            holder: None,
            ..
        }))
    );
    assert!(is_lost, "{late:?}");
}

/// No share limits the workers of a node.
#[test]
fn a_node_extends_an_expired_lease_whose_worker_was_not_granted_again() {
    let mut state = founded();
    let start = ClusterCommand::RegisterStart {
        node: NodeId(1),
        boot: 1,
        nonce: 1,
    };
    state.apply(&entry(NOW, vec![start.into()]), None);
    let take = WorkerCommand::TakeLease(TakeLease {
        layout: "js53".to_owned(),
        tenant: Tenant::OPERATOR,
        owner: "n1".to_owned(),
        node: Some(NodeId(1)),
        boot: 1,
        fence: fence_at(&state, NOW),
        datacenter: None,
    });
    let taken = state
        .apply(&entry(NOW, vec![Command::Workers(take)]), None)
        .remove(0);
    let Outcome::Workers(WorkerOutcome::LeaseTaken(grant)) = taken else {
        panic!("{taken:?}");
    };
    let late = extend(&mut state, &grant, NOW + 60_000);
    assert!(
        matches!(late, Outcome::Workers(WorkerOutcome::LeaseExtended { .. })),
        "{late:?}"
    );
}
