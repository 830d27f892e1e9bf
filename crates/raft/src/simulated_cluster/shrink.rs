//! Prints a failing run as a story: its plan, reduced to the faults without which it does not fail,
//! and its events.

use std::fmt::Write as _;

use super::plan::Plan;
use super::run::{Run, run_caught};

/// Leaves out faults for as long as the same check still fails.
pub(super) fn shrink(found: Run, plan: &Plan) -> (Run, Plan) {
    let check = |run: &Run| run.violation.as_ref().map(|violation| violation.check);
    let wanted = check(&found);
    let (mut found, mut plan) = (found, plan.clone());
    let mut size = plan.faults.len();
    while size > 0 {
        let mut at = 0;
        while at < plan.faults.len() {
            let mut less = plan.clone();
            let end = (at + size).min(less.faults.len());
            less.faults.drain(at..end);
            let run = run_caught(found.seed, &less);
            if check(&run) == wanted {
                (found, plan) = (run, less);
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    (found, plan)
}

/// The number of lines at the end of a story that are printed.
const LAST: usize = 60;

pub(super) fn story(run: &Run, plan: &Plan) -> String {
    let mut text = String::new();
    if let Some(violation) = &run.violation {
        let _ = writeln!(text, "{}: {}", violation.check, violation.what);
    }
    let _ = writeln!(
        text,
        "seed {}; again with: SEQD_CLUSTER_SEED={} cargo test -p seqd-raft --lib \
         simulated_cluster::tests::seeds_find -- --nocapture",
        run.seed, run.seed
    );
    let _ = writeln!(
        text,
        "{} founders, {} others, {} clients, links {:?}, sync {:?}, snapshot every {}, until {:?}",
        plan.founders,
        plan.others,
        plan.clients,
        plan.everywhere,
        plan.sync,
        plan.snapshot_every,
        plan.until
    );
    for planned in &plan.faults {
        let _ = writeln!(text, "  {planned}");
    }
    let left_out = run.lines.len().saturating_sub(LAST);
    let lines = match std::env::var_os("SEQD_CLUSTER_STORY") {
        Some(_) => &run.lines[..],
        None => &run.lines[left_out..],
    };
    let _ = writeln!(
        text,
        "the last {} of {} lines:",
        lines.len(),
        run.lines.len()
    );
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    text
}
