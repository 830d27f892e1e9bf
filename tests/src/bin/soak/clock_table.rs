//! What one wrong clock costs, the leader's: who notices it and when, what the others refuse, and what a
//! backup that was taken afterwards is worth.

use std::fmt;
use std::time::{Duration, Instant};

use seqd_client::SystemClock;
use seqd_client::idgen::{Layout, WallClock};
use seqd_tests::binary::run;
use seqd_tests::checkers::{Violation, require};
use seqd_tests::clock::Clocks;
use seqd_tests::clock_steps::LONGEST_STOP;
use seqd_tests::clock_steps::duty::{Stop, stops};
use seqd_tests::clock_steps::notice::Notice;
use seqd_tests::clock_steps::streams::{Streams, Told};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::generators::{self, unique};
use seqd_tests::history::Timeline;
use seqd_tests::{http, takeover, wait};
use serde_json::Value;

/// The steps, back and ahead.
const STEPS: [(&str, i64); 4] = [
    ("3 s", 3_000),
    ("1 min", 60_000),
    ("1 h", 3_600_000),
    ("10 years", 10 * 365 * 86_400_000),
];

/// How long a short fault lasts.
const SHORT: Duration = Duration::from_secs(3);

/// Between two looks at who names the clock and who leads.
const LOOK: Duration = Duration::from_millis(20);

/// The load before a fault and after it.
const AROUND: Duration = Duration::from_secs(3);

/// A pause of this length between two answers is time in which IDs were refused.
const REFUSED: Duration = Duration::from_millis(250);

/// How long the node whose clock is right again, and a restored one, may take until it makes IDs.
const AGAIN: Duration = Duration::from_secs(60);

/// One fault.
#[derive(Debug, Clone, Copy)]
struct Case {
    size: &'static str,
    ms: i64,
    length: Duration,
}

/// What was measured of it.
#[derive(Debug)]
struct Row {
    case: Case,
    /// The longest stop of the others, and all of their stops together.
    longest: Duration,
    total: Duration,
    /// Until every member named the clock, itself included; and whether `seqd status` did.
    named: Option<Duration>,
    status: String,
    /// Until another node led.
    moved: Option<Duration>,
    /// Until the wrong node refused, and until it made IDs after the correction.
    refused: Option<Duration>,
    again: Option<Duration>,
    /// How far the time of a backup's state was before the time of the backup, in milliseconds: of one
    /// that was taken while the clock was wrong, and of one that was taken afterwards.
    off_ms: [i64; 2],
    /// What the plan of a restore promises, and what the restored node took until it made IDs.
    promised: Duration,
    restored: Option<Duration>,
    violation: Option<Violation>,
}

/// Runs all cases, as many at once as the machine carries, and prints the table.
pub(crate) fn table(long: Duration) -> Result<(), Violation> {
    let mut cases = Vec::new();
    for length in [SHORT, long] {
        for (size, ms) in STEPS {
            cases.extend([-ms, ms].map(|ms| Case { size, ms, length }));
        }
    }
    println!(
        "the leader's clock is wrong for {SHORT:?} and for {long:?}; window 30 s, skew 500 ms"
    );
    let rows: Vec<Row> = std::thread::scope(|scope| {
        let running: Vec<_> = cases
            .into_iter()
            .map(|case| scope.spawn(move || measured(case)))
            .collect();
        running
            .into_iter()
            .map(|row| row.join().expect("a case"))
            .collect()
    });
    println!("{HEAD}");
    rows.iter().for_each(|row| println!("{row}"));
    if let Some(row) = rows.first() {
        println!("seqd status, of the first: {}", row.status);
    }
    rows.into_iter().try_for_each(|row| row.checked())
}

fn measured(case: Case) -> Row {
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
    let seen = watch(&cluster, wrong, case);
    let during = backup(&cluster, others[0], "during");
    clocks.set(wrong, 0);
    let corrected = timeline.at();
    let again =
        wait::within(AGAIN, || id(&cluster, wrong)).map(|()| timeline.at().since(corrected));
    let afterwards = backup(&cluster, others[1], "afterwards");
    std::thread::sleep(AROUND);
    let told = streams.finish(&runtime);
    let end = timeline.at();
    let serves = [(begin, Some(REFUSED))];
    let of_node = |node: &usize| stops(&told[*node].served, &serves, REFUSED, end);
    let stops: Vec<Stop> = others.iter().flat_map(of_node).collect();
    let late = stops.iter().filter(|stop| stop.is_late());
    let refusals = told[wrong].changes.iter();
    let refused = refusals
        .filter(|(at, what)| *at >= begin && what != "served")
        .map(|(at, _)| *at);
    let mut row = Row {
        case,
        longest: stops.iter().map(Stop::length).max().unwrap_or_default(),
        total: late.map(Stop::length).sum(),
        named: seen.named,
        status: seen.status,
        moved: seen.moved,
        refused: refused.min().map(|at| at.since(begin)),
        again,
        off_ms: [during, afterwards].map(|(_, taken_ms, plan)| taken_ms - number(&plan["wall_ms"])),
        promised: Duration::default(),
        restored: None,
        violation: violation(told),
    };
    restore(&mut cluster, &mut row);
    println!("{row}");
    row
}

/// What the members showed of the clock while it was wrong.
struct Seen {
    named: Option<Duration>,
    moved: Option<Duration>,
    status: String,
}

fn watch(cluster: &Cluster, wrong: usize, case: Case) -> Seen {
    let begin = Instant::now();
    let name = cluster.node(wrong).name();
    let mut notice = Notice::since(begin, name);
    while begin.elapsed() < case.length {
        let views = (0..3).map(|node| cluster.node(node).cluster_view());
        notice.look(&views.collect::<Vec<_>>(), |_| true);
        let left = case.length.saturating_sub(begin.elapsed());
        std::thread::sleep(if notice.is_complete() { left } else { LOOK });
    }
    let other = cluster.node((wrong + 1) % 3).url();
    let status = run(&["-e", &other, "status"]);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    let line = status.lines().find(|line| line.starts_with("clock"));
    let line = line.unwrap_or("seqd status names no clock").to_owned();
    Seen {
        named: notice.named,
        moved: notice.moved,
        status: line.replace(&format!("that of {name}"), "that of nX"),
    }
}

/// A backup of a node, and what a restore of it would say.
fn backup(cluster: &Cluster, node: usize, name: &str) -> (String, i64, Value) {
    let file = cluster.folder().join(name).display().to_string();
    let taken_ms = SystemClock.wall().0.cast_signed();
    let saved = run(&["-e", &cluster.node(node).url(), "snapshot", "save", &file]);
    assert!(saved.status.success(), "{saved:?}");
    let mut line = restore_line(cluster, &file);
    line.extend(["--dry-run", "-o", "json"].map(str::to_owned));
    let plan = command(&line);
    (file, taken_ms, plan)
}

fn restore_line(cluster: &Cluster, file: &str) -> Vec<String> {
    let folder = cluster.folder().join("restored").display().to_string();
    takeover::restore_line(cluster, file, &folder)
}

fn command(line: &[String]) -> Value {
    let output = run(&line.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(output.status.success(), "{line:?}: {output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Restores the later backup on the first node alone.
fn restore(cluster: &mut Cluster, row: &mut Row) {
    (0..3).for_each(|node| cluster.node_mut(node).kill());
    let file = cluster.folder().join("afterwards").display().to_string();
    let mut line = restore_line(cluster, &file);
    line.extend(["--yes", "-o", "json"].map(str::to_owned));
    let done = command(&line);
    row.promised = Duration::from_millis(number(&done["ids_after_ms"]).unsigned_abs());
    let folder = cluster.folder().join("restored");
    cluster.node_mut(0).set_data(&folder);
    cluster.node_mut(0).start();
    let begin = Instant::now();
    wait::until("the restored node answers", READY, || {
        http::get(&cluster.url(0, "/livez")).send().ok()
    });
    row.restored = wait::within(AGAIN, || id(cluster, 0)).map(|()| begin.elapsed());
}

/// An ID of this node.
fn id(cluster: &Cluster, node: usize) -> Option<()> {
    let reply = http::get(&cluster.url(node, "/v1/id")).send().ok()?;
    (reply.status == 200).then_some(())
}

fn violation(told: Vec<Told>) -> Option<Violation> {
    let found = told.iter().find_map(|told| told.violation.clone());
    let ids = told.into_iter().flat_map(|told| told.ids).collect();
    found.or_else(|| unique(ids).err())
}

/// A number that JSON carries as such or as text.
fn number(value: &Value) -> i64 {
    seqd_tests::cluster::integer(value)
}

impl Row {
    /// The clock is named, another leads, nobody else stops, and all serve again.
    fn checked(self) -> Result<(), Violation> {
        let case = self.to_string();
        if let Some(violation) = self.violation {
            return Err(violation);
        }
        let is_noticed = self.named.is_some() && self.moved.is_some() && self.refused.is_some();
        let serves = self.longest <= LONGEST_STOP;
        let is_named = self.status.contains("clock WRONG");
        let is_well = self.again.is_some() && self.restored.is_some();
        require(serves, "a node whose clock is right serves", case.as_str())?;
        require(is_noticed, "a wrong clock is noticed", case.as_str())?;
        require(is_named, "seqd status names a wrong clock", case.as_str())?;
        require(is_well, "IDs again", case)
    }
}

const HEAD: &str = "| the leader's clock | for | the others refused, longest / in all | named by all \
    after | another leads after | refuses after | makes IDs again after | time of a backup, during / \
    afterwards | a restore promises IDs after | and makes them after |
|---|---|---|---|---|---|---|---|---|---|";

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.case.ms < 0 { "back" } else { "ahead" };
        let seconds = |time: Option<Duration>| {
            time.map_or("never".to_owned(), |time| {
                format!("{:.2} s", time.as_secs_f64())
            })
        };
        let before = |ms: i64| format!("{:.1} s before", ms as f64 / 1000.0);
        write!(
            f,
            "| {} {way} | {:?} | {:.2} s / {:.2} s | {} | {} | {} | {} | {} / {} | {:?} | {} |",
            self.case.size,
            self.case.length,
            self.longest.as_secs_f64(),
            self.total.as_secs_f64(),
            seconds(self.named),
            seconds(self.moved),
            seconds(self.refused),
            seconds(self.again),
            before(self.off_ms[0]),
            before(self.off_ms[1]),
            self.promised,
            seconds(self.restored),
        )
    }
}
