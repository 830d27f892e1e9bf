//! Every scene holds, and every fault is found. `docs/internals/GUARDS.md` lists which of these
//! tests fails without which guard in the real code.

use super::*;

/// Panics with the events that lead to a violation.
#[track_caller]
fn assert_holds(scene: Scene) {
    let name = scene.name;
    let found = Check::new(scene, None).run(1);
    println!("{name}: {found}");
    if let Some(counterexample) = found.violation {
        panic!("{counterexample}");
    }
    let unseen: Vec<&str> = found.unseen.iter().map(|sight| sight.words()).collect();
    assert!(unseen.is_empty(), "{name} does not come to: {unseen:?}");
}

#[track_caller]
fn assert_found(scene: Scene, fault: Fault, violation: Violation) {
    let found = Check::new(scene, Some(fault)).run(1);
    println!("{fault:?}: {found}");
    let counterexample = found.violation.expect("the fault breaks a rule");
    println!("{counterexample}");
    assert_eq!(counterexample.violation, violation);
}

#[test]
fn messages_that_are_lost_late_and_repeated_break_no_rule() {
    assert_holds(scene::messages());
}

#[test]
fn released_workers_break_no_rule() {
    assert_holds(scene::releases());
}

#[test]
fn clocks_that_step_break_no_rule() {
    assert_holds(scene::clocks());
}

#[test]
fn starts_and_copied_disks_break_no_rule() {
    assert_holds(scene::starts());
}

#[test]
fn a_restore_breaks_no_rule() {
    assert_holds(scene::restore());
}

#[test]
fn segments_and_their_tails_break_no_rule() {
    assert_holds(scene::segments());
}

#[test]
fn a_fence_that_is_used_before_it_is_committed_is_found() {
    let fault = Fault::FenceBeforeCommit;
    assert_found(scene::messages(), fault, Violation::OutsideWindow);
}

#[test]
fn an_answer_that_makes_two_generators_is_found() {
    let fault = Fault::GrantInstalledTwice;
    assert_found(scene::messages(), fault, Violation::IdTwice);
}

#[test]
fn a_last_tick_that_is_read_before_the_close_is_found() {
    let fault = Fault::LastTickBeforeClose;
    assert_found(scene::releases(), fault, Violation::OutsideWindow);
}

#[test]
fn a_start_that_continues_with_the_lease_on_its_disk_is_found() {
    let fault = Fault::HolderKept;
    assert_found(scene::starts(), fault, Violation::IdTwice);
}

#[test]
fn a_segment_used_after_its_tail_was_returned_is_found() {
    let fault = Fault::TailKept;
    assert_found(scene::segments(), fault, Violation::ValueTwice);
}
