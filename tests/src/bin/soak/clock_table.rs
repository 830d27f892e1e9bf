//! The cost of one wrong clock, the leader's: the time until it is detected, the refusals of the
//! other nodes, and the correctness of a backup that was taken afterwards.

use std::fmt;
use std::time::{Duration, Instant};

use seqd_client::SystemClock;
use seqd_client::idgen::{Layout, WallClock};
use seqd_tests::binary::run;
use seqd_tests::checkers::Violation;
use seqd_tests::clock::ShiftedClock;
use seqd_tests::clock_steps::LONGEST_STOP;
use seqd_tests::clock_steps::duty::{Duty, Judged, Stop, judge};
use seqd_tests::clock_steps::notice::Notice;
use seqd_tests::clock_steps::streams::{Streams, Told};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::generators::{self, unique};
use seqd_tests::history::{At, Timeline};
use seqd_tests::{http, wait};
use serde_json::Value;

/// The sizes of the steps, each back and ahead.
const STEPS: [(&str, i64); 4] = [
    ("3 s", 3_000),
    ("1 min", 60_000),
    ("1 h", 3_600_000),
    ("10 years", 10 * 365 * 86_400_000),
];

/// The length of a short fault.
const SHORT: Duration = Duration::from_secs(3);

/// The polling interval for the named clock and the leader.
const LOOK: Duration = Duration::from_millis(20);

/// The length of the load before a fault and after it.
const AROUND: Duration = Duration::from_secs(3);

/// A pause of this length between two responses counts as time in which IDs were refused.
const REFUSED: Duration = Duration::from_millis(250);

/// The time limit for minting again, of the node whose clock was corrected and of a restored node.
const AGAIN: Duration = Duration::from_secs(60);

/// One fault.
#[derive(Debug, Clone, Copy)]
struct Case {
    size: &'static str,
    ms: i64,
    length: Duration,
}

/// The measurements of one fault.
#[derive(Debug)]
struct Row {
    case: Case,
    /// The longest pause of the other nodes, and the sum of their pauses.
    longest: Duration,
    total: Duration,
    /// The time until every member named the clock, itself included, and whether `seqd status` did.
    named: Option<Duration>,
    status: String,
    /// The time until another node led.
    moved: Option<Duration>,
    /// The time until the wrong node refused, and until it minted IDs after the correction.
    refused: Option<Duration>,
    again: Option<Duration>,
    /// The time by which a backup's recorded time was before the time of the backup, in
    /// milliseconds: of a backup that was taken while the clock was wrong, and of one that was
    /// taken afterwards.
    off_ms: [i64; 2],
    /// The time that the plan of a restore states, and the time that the restored node took to mint
    /// IDs.
    promised: Duration,
    restored: Option<Duration>,
    violation: Option<Violation>,
}

/// Runs all cases, as many at the same time as the machine can run, and prints the table.
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
    let folder = cluster.folder().to_path_buf();
    let clocks = [0, 1, 2].map(|node| {
        let clock = ShiftedClock::for_node(cluster.node_mut(node), &folder);
        clock.expect("a clock that can be set")
    });
    cluster.start_all();
    cluster.wait_ready();
    let timeline = Timeline::begin();
    let runtime = generators::runtime();
    let layouts = [Layout::preset("default").expect("a preset")];
    let streams = Streams::begin(timeline, &cluster.urls(), &layouts, &runtime, Vec::new());
    std::thread::sleep(AROUND);
    let wrong = cluster.leader();
    let others: Vec<usize> = (0..3).filter(|node| *node != wrong).collect();
    let begin = timeline.at();
    clocks[wrong].shift_ms(case.ms);
    let seen = watch(&cluster, wrong, case);
    let during = backup(&cluster, others[0], "during");
    clocks[wrong].shift_ms(0);
    let corrected = timeline.at();
    let again =
        wait::within(AGAIN, || id(&cluster, wrong)).map(|()| timeline.at().since(corrected));
    let afterwards = backup(&cluster, others[1], "afterwards");
    std::thread::sleep(AROUND);
    let told = streams.finish(&runtime);
    let end = timeline.at();
    let stops: Vec<Judged> = others
        .iter()
        .map(|node| stops(&told[*node], begin, end))
        .collect();
    let longest = stops.iter().filter_map(|of_node| of_node.stop);
    let all = stops.iter().flat_map(|of_node| &of_node.late);
    let refusals = told[wrong].changes.iter();
    let refused = refusals
        .filter(|(at, what)| *at >= begin && what != "served")
        .map(|(at, _)| *at);
    let mut row = Row {
        case,
        longest: longest.map(|stop| stop.length()).max().unwrap_or_default(),
        total: all.map(Stop::length).sum(),
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

/// The members' views of the clock while it was wrong.
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

/// Takes a backup of a node. Returns the output of a dry run of its restore too.
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
    let node = cluster.node(0);
    let folder = cluster.folder().join("restored").display().to_string();
    [
        "snapshot",
        "restore",
        file,
        "--data-dir",
        &folder,
        "--name",
        "n1",
        "--peer",
    ]
    .into_iter()
    .chain([node.peer_address().as_str(), "--http", &node.url()])
    .map(str::to_owned)
    .collect()
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

/// Requests an ID from this node.
fn id(cluster: &Cluster, node: usize) -> Option<()> {
    let reply = http::get(&cluster.url(node, "/v1/id")).send().ok()?;
    (reply.status == 200).then_some(())
}

/// The longest time without IDs in this period, and all pauses that are long enough to be refusals.
fn stops(told: &Told, begin: At, end: At) -> Judged {
    let duties = [(begin, Duty::Serve { first: REFUSED })];
    judge(&told.served, &duties, REFUSED, end)
}

fn violation(told: Vec<Told>) -> Option<Violation> {
    let found = told.iter().find_map(|told| told.violation.clone());
    let ids = told.into_iter().flat_map(|told| told.ids).collect();
    found.or_else(|| unique(ids).err())
}

/// A number that JSON carries as a number or as text.
fn number(value: &Value) -> i64 {
    seqd_tests::cluster::integer(value)
}

impl Row {
    /// Checks that the clock is named, another node leads, no other node pauses, and all nodes
    /// serve again.
    fn checked(self) -> Result<(), Violation> {
        let case = self.to_string();
        let fails = |what| Err(Violation::new(what, case.clone()));
        if let Some(violation) = self.violation {
            return Err(violation);
        }
        if self.longest > LONGEST_STOP {
            return fails("a node whose clock is right serves");
        }
        if self.named.is_none() || self.moved.is_none() || self.refused.is_none() {
            return fails("a wrong clock is noticed");
        }
        if !self.status.contains("clock WRONG") {
            return fails("seqd status names a wrong clock");
        }
        if self.again.is_none() || self.restored.is_none() {
            return fails("IDs again");
        }
        Ok(())
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
