//! Commands that depend on a start or a membership that has been replaced.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use seqd_idgen::Tick;
use seqd_state::{
    ClusterCommand, ClusterRefusal, Command, Entry, Level, LogPosition, NodeId, Outcome, Refusal,
    State, TakeLease, WorkerCommand, WorkerOutcome,
};
use support::commands::{apply_one, extend, start};
use support::{founded, stamp};

const NODE: NodeId = NodeId(1);
const LAYOUT: &str = "js53";

fn is_stale(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Refused(Refusal::Cluster(ClusterRefusal::StaleStart { .. }))
    )
}

fn take_as(state: &mut State, boot: u64) -> Outcome {
    let asked = TakeLease {
        tenant: seqd_state::Tenant::OPERATOR,
        layout: LAYOUT.to_owned(),
        owner: "n1".to_owned(),
        node: Some(NODE),
        boot,
        fence: Tick(31_000),
        datacenter: None,
    };
    let command = Command::Workers(WorkerCommand::TakeLease(asked));
    apply_one(state, stamp(1_000, 0), command)
}

#[test]
fn neither_an_older_start_nor_a_twin_is_registered() {
    let mut state = founded();
    apply_one(&mut state, stamp(0, 0), start(NODE, 2, 7));
    let older = apply_one(&mut state, stamp(0, 0), start(NODE, 1, 5));
    assert!(is_stale(&older), "an older start was registered: {older:?}");
    let twin = apply_one(&mut state, stamp(0, 0), start(NODE, 2, 8));
    assert!(is_stale(&twin), "a twin was registered: {twin:?}");
    let again = apply_one(&mut state, stamp(0, 0), start(NODE, 2, 7));
    assert!(!is_stale(&again), "a repeated registration is taken");
}

#[test]
fn a_superseded_start_takes_and_extends_no_lease() {
    let mut state = founded();
    apply_one(&mut state, stamp(0, 0), start(NODE, 1, 5));
    let Outcome::Workers(WorkerOutcome::LeaseTaken(grant)) = take_as(&mut state, 1) else {
        panic!("the registered start gets a lease");
    };
    apply_one(&mut state, stamp(0, 0), start(NODE, 2, 7));
    let taken = take_as(&mut state, 1);
    assert!(
        is_stale(&taken),
        "a start that is over took a lease: {taken:?}"
    );
    let more = extend(grant.layout, grant.worker, grant.lease, Tick(31_500));
    let extended = apply_one(&mut state, stamp(1_500, 500), more);
    assert!(is_stale(&extended), "it extended its lease: {extended:?}");
}

#[test]
fn the_level_rises_only_under_the_membership_that_was_queried() {
    let position = |index| LogPosition { term: 1, index };
    let raise = Command::Cluster(ClusterCommand::RaiseLevel {
        to: Level::FIRST.next(),
        membership: position(4),
    });
    let entry = Entry {
        stamp: stamp(0, 0),
        commands: vec![raise],
    };
    for applied in [None, Some(position(3)), Some(position(9))] {
        let mut state = founded();
        state.apply(&entry, applied);
        assert_eq!(
            state.level(),
            Level::FIRST,
            "the level rose under a membership that nobody asked: {applied:?}"
        );
    }
    let mut state = founded();
    state.apply(&entry, Some(position(4)));
    assert_eq!(state.level(), Level::FIRST.next());
}
