//! One link fault under a mixed load, with its figures and the verdict.

use std::time::Duration;

use crate::checkers::{Violation, pauses};
use crate::cluster::{Cluster, READY};
use crate::history::{At, Op, Timeline};
use crate::link_faults::LinkFault;
use crate::mixed::{self, Histories, Mixed};
use crate::report::{Report, Times};
use crate::workload::Route;
use crate::{node_peaks, wait};

/// The time limit for a strict value at each node after the end of a fault.
const HEALED: Duration = Duration::from_secs(5);

/// The longest pause of strict values under a fault. Each fault leaves a majority, so a pause is a
/// failover after silence, and the timeout of a request on top.
pub const LONGEST_PAUSE: Duration = Duration::from_millis(4_500);

/// The memory limit of a node, bytes.
pub const MOST_MEMORY: u64 = 400 << 20;

/// The load before a fault.
const BEFORE: Duration = Duration::from_secs(1);

/// The longest time that the load continues after a fault, so that a late recovery is measured.
const AFTER: Duration = Duration::from_secs(10);

/// Strict clients for each node.
const STRICT: usize = 2;

#[derive(Debug, Clone, Copy)]
pub struct LinkRun {
    pub nodes: usize,
    pub fault: LinkFault,
    pub length: Duration,
    /// True if elections are late, so that a pause of the machine causes none.
    pub is_patient: bool,
}

/// Counts during the fault.
#[derive(Debug)]
pub struct Seen {
    /// The number of strict values.
    pub strict: usize,
    pub elections: u64,
}

impl LinkRun {
    pub fn judged(self) -> Result<Seen, Violation> {
        println!("{} on {} nodes", self.fault.name, self.nodes);
        let mut cluster = Cluster::on_links(self.nodes, 0);
        if self.is_patient {
            cluster = cluster.patient();
        }
        let cluster = cluster.ready();
        mixed::create(&cluster);
        let mut report = Report::default();
        let run = || self.run(&cluster, &mut report);
        let (seen, peaks) = node_peaks::during(&cluster, run);
        node_peaks::judge(&peaks, MOST_MEMORY, &mut report);
        let verdict = report.verdict();
        seen.and_then(|seen| verdict.map(|()| seen))
    }

    fn run(self, cluster: &Cluster, report: &mut Report) -> Result<Seen, Violation> {
        let timeline = Timeline::begin();
        let load = |clients, count, pause| cluster.load(clients, Route::Fixed, count, pause);
        let (nodes, strict) = (self.nodes, STRICT * self.nodes);
        let loads = [load(nodes, 10, 5), load(strict, 1, 0), load(nodes, 7, 2)];
        let mixed = Mixed::begin(timeline, loads);
        std::thread::sleep(BEFORE);
        let leader = cluster.leader();
        let term = cluster.term();
        cluster.links().lateness();

        let begin = timeline.at();
        let fault = self.fault.impose(cluster, leader);
        std::thread::sleep(self.length);
        let elections = cluster.term().saturating_sub(term);
        let end = timeline.at();
        let touched = fault.heal();
        let all: Vec<usize> = (0..nodes).collect();
        let given = |node: &usize| mixed.order.acknowledged_by(*node);
        let before: Vec<usize> = all.iter().map(given).collect();
        let ready = cluster.wait_ready_of(&all, READY);
        let goes_on = |node: &usize| given(node) > before[*node];
        wait::within(AFTER, || all.iter().all(goes_on).then_some(()));
        let mut histories = mixed.finish();

        println!("  {histories}");
        let (touched, late) = (touched?, cluster.links().lateness());
        println!("  {touched} packets touched, at most {late:.1?} late");
        report.at_most("ready after healing", ready, HEALED);
        let is_allowed = elections == 0 || !self.fault.spares_the_leader();
        let line = format!("{elections} elections");
        println!("  {line}");
        report.require(is_allowed, "an election without a reason", line);
        let strict = self.judge(&histories, (begin, end), report);
        report.checked(histories.check(cluster, timeline));
        Ok(Seen { strict, elections })
    }

    /// Judges the strict values and the IDs during the fault and after it. Returns the number of
    /// values.
    fn judge(self, histories: &Histories, (begin, end): (At, At), report: &mut Report) -> usize {
        let (order, ids) = (&histories.order, &histories.ids);
        let values = latencies(order, (begin, end));
        let rate = values.count() as f64 / self.length.as_secs_f64();
        let pause = pauses::longest_of_all(order, begin, end).0;
        println!("  {rate:.1} strict values/s{values}  pause {pause:.2?}");
        report.at_most("a stall under the fault", pause, LONGEST_PAUSE);
        let pause_of = |node| pauses::longest_of_node(ids, node, begin, end).0;
        let pause = (0..self.nodes).map(pause_of).max();
        println!("  IDs {}  pause {pause:.2?}", latencies(ids, (begin, end)));
        for node in 0..self.nodes {
            let own = order.iter().filter(|op| op.node == node && op.back >= end);
            let first = own
                .filter(|op| op.answer().is_some())
                .map(|op| op.back)
                .min();
            let healed = first.map_or(Duration::MAX, |first| first.since(end));
            report.at_most("a stall after healing", healed, HEALED);
        }
        values.count()
    }
}

/// The latencies of the requests that were acknowledged during the fault.
fn latencies<T>(history: &[Op<T>], (begin, end): (At, At)) -> Times {
    let within = |op: &&Op<T>| op.call >= begin && op.back <= end && op.answer().is_some();
    Times::of(
        history
            .iter()
            .filter(within)
            .map(|op| op.back.since(op.call)),
    )
}
