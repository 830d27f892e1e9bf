//! Millions of draws from a segment sequence while refills are slow or fail, and nodes are killed.
//! Concurrent strict values show how long one entry of the log takes, which is the time that a
//! refill needs.

use std::time::Duration;

use seqd_tests::checkers::{Violation, increasing, unique};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::faults::{Paused, Strace, why_no_trace};
use seqd_tests::history::{At, History, Timeline, Values, reasons, tally};
use seqd_tests::report::Report;
use seqd_tests::workload::{Route, Workload};
use serde_json::json;

/// Clients that draw, spread over the nodes.
const CLIENTS: usize = 12;

/// Time between two strict values of a client.
const STRICT_PAUSE_MS: u64 = 5;

/// The added delays of each `fdatasync` of two nodes.
const DELAYS: [Duration; 2] = [Duration::from_millis(30), Duration::from_millis(300)];

/// The time for which two nodes are stopped: longer than the numbers of a segment last.
const WITHOUT_MAJORITY: Duration = Duration::from_secs(4);

/// Stretches of draws between and during the faults.
const STRETCHES: u64 = 12;

const PATIENCE: Duration = Duration::from_secs(600);

/// The margin for a busy machine: a draw may take this much longer than one entry of the log.
const MARGIN: Duration = Duration::from_millis(100);

pub(crate) fn run(draws: u64) -> Result<(), Violation> {
    let untraced = why_no_trace();
    assert_eq!(untraced, None, "strace is needed, and the right to trace");
    let stretch = usize::try_from(draws / STRETCHES + 1).expect("a count of draws");
    let mut cluster = Cluster::started(3).with_order();
    cluster.create_sequence(0, "parts", &json!({"mode": "segment"}));
    let timeline = Timeline::begin();
    let drawing = cluster.load(CLIENTS, Route::Fixed, 1, 0);
    let drawing = Workload::next(drawing, timeline, "parts");
    let entries = cluster.load(3, Route::Fixed, 1, STRICT_PAUSE_MS);
    let entries = Workload::next(entries, timeline, "order");

    drawing.wait_for(stretch, PATIENCE);
    let mut slow = Vec::new();
    for delay in DELAYS {
        let delayed = |node| Strace::delay_fdatasync(cluster.node(node), delay, cluster.folder());
        let disks = [0, 1].map(delayed);
        let begin = timeline.at();
        drawing.wait_for(stretch, PATIENCE);
        slow.push((delay, begin, timeline.at()));
        let had_effect = disks.iter().all(|disk| disk.fdatasyncs() > 0);
        assert!(had_effect, "a delay of {delay:?} had no effect");
    }
    for (stopped, alone) in [([0, 1], 2), ([1, 2], 0), ([0, 2], 1)] {
        let before = drawing.acknowledged_by(alone);
        let paused = stopped.map(|node| Paused::new(cluster.node(node)));
        std::thread::sleep(WITHOUT_MAJORITY);
        let alone_drew = drawing.acknowledged_by(alone) - before;
        println!(
            "n{} alone: {alone_drew} draws in {WITHOUT_MAJORITY:?}",
            alone + 1
        );
        paused.into_iter().try_for_each(Paused::heal)?;
        cluster.wait_ready();
        drawing.wait_for(stretch, PATIENCE);
    }
    for victim in 0..3 {
        cluster.node_mut(victim).kill();
        drawing.wait_for(stretch, PATIENCE);
        cluster.node_mut(victim).start();
        cluster.wait_ready_of(&[victim], READY);
        drawing.wait_for(stretch, PATIENCE);
    }

    let (drawn, entries) = (drawing.finish(), entries.finish());
    let refused = reasons(&drawn);
    println!("(ok, unknown, refused): {:?} {refused:?}", tally(&drawn));
    let has_failed = refused.iter().any(|(why, _)| why.contains("no-quorum"));
    assert!(has_failed, "no refill failed");
    let count = unique::numbers(&drawn)?;
    increasing::values_per_node(&drawn)?;
    println!("{count} draws, none twice, in order at each node");
    let mut report = Report::default();
    report.require(count >= draws, "draws", format!("{count} of {draws}"));
    for (delay, from, to) in slow {
        let [wait, entry] = [&drawn, &entries].map(|history| longest(history, from, to));
        println!("disks {delay:?} slower: a draw took {wait:?} at most, a strict value {entry:?}");
        report.at_most("no wait longer than one refill", wait, entry + MARGIN);
    }
    report.verdict()
}

/// The longest duration of a request within this period.
fn longest(history: &History<Values>, from: At, to: At) -> Duration {
    let within = history.iter().filter(|op| from <= op.call && op.back <= to);
    let times = within.map(|op| op.back.since(op.call));
    times.max().unwrap_or_default()
}
