//! The cost of a wrong clock of the leader: the time until it is detected, refusals of the other
//! nodes, and the use of a backup that is taken afterwards.

use std::time::{Duration, Instant};

use seqd_client::SystemClock;
use seqd_client::idgen::{Layout, WallClock};
use seqd_tests::binary::run;
use seqd_tests::checkers::Violation;
use seqd_tests::clock::Clocks;
use seqd_tests::clock_steps::LONGEST_STOP;
use seqd_tests::clock_steps::duty::{Stop, stops};
use seqd_tests::clock_steps::notice::Notice;
use seqd_tests::clock_steps::streams::Streams;
use seqd_tests::cluster::{Cluster, READY, integer};
use seqd_tests::generators::{self, unique};
use seqd_tests::history::Timeline;
use seqd_tests::report::Report;
use seqd_tests::{http, takeover, wait};
use serde_json::Value;

/// The steps, back and ahead.
const STEPS: [(&str, i64); 4] = [
    ("3 s", 3_000),
    ("1 min", 60_000),
    ("1 h", 3_600_000),
    ("10 years", 10 * 365 * 86_400_000),
];

const SHORT: Duration = Duration::from_secs(3);

/// The time between two reads of the members' views.
const LOOK: Duration = Duration::from_millis(20);

/// The load before a fault and after it.
const AROUND: Duration = Duration::from_secs(3);

/// A pause of at least this length between two answers counts as time in which IDs were refused.
const REFUSED: Duration = Duration::from_millis(250);

/// The time limit for IDs of a corrected node, and of a restored one.
const AGAIN: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
struct Case {
    size: &'static str,
    ms: i64,
    length: Duration,
}

const HEAD: &str = "| the leader's clock | for | the others refused, longest / in all | named by all \
    after | another leads after | refuses after | makes IDs again after | time of a backup, during / \
    afterwards | a restore promises IDs after | and makes them after |
|---|---|---|---|---|---|---|---|---|---|";

/// Runs all cases, as many in parallel as the machine can run, and prints the table.
pub(crate) fn table(long: Duration) -> Result<(), Violation> {
    let mut cases = Vec::new();
    for length in [SHORT, long] {
        for (size, ms) in STEPS {
            cases.extend([-ms, ms].map(|ms| Case { size, ms, length }));
        }
    }
    println!("wrong for {SHORT:?} and for {long:?}; window 30 s, skew 500 ms");
    let rows: Vec<(String, Report)> = std::thread::scope(|scope| {
        let run = |case| scope.spawn(move || measured(case));
        let running: Vec<_> = cases.into_iter().map(run).collect();
        running
            .into_iter()
            .map(|row| row.join().expect("a case"))
            .collect()
    });
    println!("{HEAD}");
    rows.iter().for_each(|(row, _)| println!("{row}"));
    rows.into_iter()
        .try_for_each(|(_, report)| report.verdict())
}

/// Measures one case and returns its row of the table. The wrong clock must be named, another node
/// must lead, no other node may stop, and all nodes must serve again.
fn measured(case: Case) -> (String, Report) {
    let mut cluster = Cluster::planned(3);
    let mut clocks = Clocks::of(&mut cluster).expect("clocks that can be set");
    let mut cluster = cluster.ready();
    let timeline = Timeline::begin();
    let runtime = generators::runtime();
    let layouts = [Layout::preset("default").expect("a preset")];
    let streams = Streams::begin(timeline, &cluster.urls(), &layouts, &runtime, Vec::new());
    std::thread::sleep(AROUND);
    let wrong = cluster.leader();
    let others: Vec<usize> = (0..3).filter(|node| *node != wrong).collect();
    let begin = timeline.at();
    clocks.set(wrong, case.ms);
    let (notice, status) = watch(&cluster, wrong, case.length);
    let during = backup(&cluster, others[0], "during");
    clocks.set(wrong, 0);
    let corrected = Instant::now();
    let again = makes_ids(&cluster, wrong).map(|()| corrected.elapsed());
    let afterwards = backup(&cluster, others[1], "afterwards");
    std::thread::sleep(AROUND);
    let told = streams.finish(&runtime);
    let serves = [(begin, Some(REFUSED))];
    let of_node = |node: &usize| stops(&told[*node].served, &serves, REFUSED, timeline.at());
    let stops: Vec<Stop> = others.iter().flat_map(of_node).collect();
    let longest = stops.iter().map(Stop::length).max().unwrap_or_default();
    let late = stops.iter().filter(|stop| stop.is_late());
    let total: Duration = late.map(Stop::length).sum();
    let mut refusals = told[wrong].changes.iter();
    let refused = refusals.find(|(at, what)| *at >= begin && what != "served");
    let refused = refused.map(|(at, _)| at.since(begin));
    let (promised, restored) = restore(&mut cluster);

    let seconds = |time: Option<Duration>| {
        let time = time.map(|time| format!("{:.2} s", time.as_secs_f64()));
        time.unwrap_or_else(|| "never".to_owned())
    };
    let (named, moved) = (notice.named, notice.moved);
    let times = [named, moved, refused, again].map(seconds).join(" | ");
    let way = if case.ms < 0 { "back" } else { "ahead" };
    let row = format!(
        "| {} {way} | {:?} | {longest:.2?} / {total:.2?} | {times} | {during} / {afterwards} | \
         {promised:?} | {} |",
        case.size,
        case.length,
        seconds(restored)
    );
    println!("{row}\n  {status}");
    let mut report = Report::default();
    let mut ids = Vec::new();
    for mut told in told {
        report.checked(told.violation.take().map_or(Ok(()), Err));
        ids.append(&mut told.ids);
    }
    report.checked(unique(ids));
    let is_noticed = [named, moved, refused].iter().all(Option::is_some);
    report.at_most("a node whose clock is right serves", longest, LONGEST_STOP);
    report.require(is_noticed, "a wrong clock is noticed", row.as_str());
    report.require(
        status.contains("clock WRONG"),
        "seqd status names a wrong clock",
        status,
    );
    report.require(again.and(restored).is_some(), "IDs again", row.as_str());
    (row, report)
}

/// Watches the views of the members while the clock is wrong. Also returns the line of `seqd
/// status`.
fn watch(cluster: &Cluster, wrong: usize, length: Duration) -> (Notice, String) {
    let begin = Instant::now();
    let mut notice = Notice::since(begin, cluster.node(wrong).name());
    while begin.elapsed() < length {
        let views = (0..3).map(|node| cluster.node(node).cluster_view());
        notice.look(&views.collect::<Vec<_>>(), |_| true);
        let left = length.saturating_sub(begin.elapsed());
        std::thread::sleep(if notice.is_complete() { left } else { LOOK });
    }
    let other = cluster.node((wrong + 1) % 3).url();
    let status = run(&["-e", &other, "status"]);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    let line = status.lines().find(|line| line.starts_with("clock"));
    (
        notice,
        line.unwrap_or("seqd status names no clock").to_owned(),
    )
}

/// Takes a backup of a node. Returns how far the time of its state is before the time of the
/// backup, by the plan of a restore.
fn backup(cluster: &Cluster, node: usize, name: &str) -> String {
    let file = cluster.folder().join(name).display().to_string();
    let taken_ms = SystemClock.wall().0.cast_signed();
    let saved = run(&["-e", &cluster.node(node).url(), "snapshot", "save", &file]);
    assert!(saved.status.success(), "{saved:?}");
    let plan = restored(cluster, &file, "--dry-run");
    let before_ms = taken_ms - integer(&plan["wall_ms"]);
    format!("{:.1} s before", before_ms as f64 / 1000.0)
}

/// Restores a backup as the first node, or returns the plan of a restore.
fn restored(cluster: &Cluster, file: &str, how: &str) -> Value {
    let folder = cluster.folder().join("restored").display().to_string();
    let mut line = takeover::restore_line(cluster, file, &folder);
    line.extend([how, "-o", "json"].map(str::to_owned));
    let output = run(&line.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(output.status.success(), "{line:?}: {output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Restores the later backup on the first node alone. Returns the time after which the output
/// promises IDs, and the time after which the node mints one.
fn restore(cluster: &mut Cluster) -> (Duration, Option<Duration>) {
    (0..3).for_each(|node| cluster.node_mut(node).kill());
    let file = cluster.folder().join("afterwards").display().to_string();
    let done = restored(cluster, &file, "--yes");
    let promised = Duration::from_millis(integer(&done["ids_after_ms"]).unsigned_abs());
    let folder = cluster.folder().join("restored");
    cluster.node_mut(0).set_data(&folder);
    cluster.node_mut(0).start();
    let begin = Instant::now();
    wait::until("the restored node answers", READY, || {
        http::get(&cluster.url(0, "/livez")).send().ok()
    });
    (promised, makes_ids(cluster, 0).map(|()| begin.elapsed()))
}

/// Waits until this node mints an ID.
fn makes_ids(cluster: &Cluster, node: usize) -> Option<()> {
    wait::within(AGAIN, || {
        let reply = http::get(&cluster.url(node, "/v1/id")).send().ok()?;
        (reply.status == 200).then_some(())
    })
}
