//! A fault on the links of a cluster under a mixed load: what went on, and the verdict.

use std::fmt;
use std::time::Duration;

use serde_json::json;

use crate::checkers::{Violation, disjoint, increasing, linearizable, lost, pauses, unique};
use crate::cluster::{Cluster, READY};
use crate::history::{At, History, Ids, Op, Timeline, Values, reasons, tally};
use crate::link_faults::LinkFault;
use crate::report::quantile;
use crate::workload::{Route, Workload};
use crate::{memory, wait};

/// How long after the end of a fault a node may go without a strict value.
pub const HEALED: Duration = Duration::from_secs(5);

/// How long strict values may pause under a fault, each of which leaves a majority: a failover in
/// silence, and a request's whole timeout on top.
pub const LONGEST_PAUSE: Duration = Duration::from_millis(4_500);

/// What a node may have in memory, bytes.
pub const MOST_MEMORY: u64 = 400 << 20;

/// The load before a fault.
const BEFORE: Duration = Duration::from_secs(1);

/// How long after a fault the load goes on at most: what is late is seen to be late.
const AFTER: Duration = Duration::from_secs(10);

/// The time between two looks at the memory of the nodes.
const LOOK: Duration = Duration::from_millis(200);

/// Strict clients for each node.
const STRICT: usize = 2;

#[derive(Debug, Clone, Copy)]
pub struct LinkRun {
    pub nodes: usize,
    pub fault: LinkFault,
    pub length: Duration,
    /// Whether elections are late, so that a pause of the machine brings none about.
    pub is_patient: bool,
}

/// What a run measured; each figure of the time of the fault if nothing else is written.
#[derive(Debug)]
pub struct Figures {
    pub run: LinkRun,
    /// Packets or connections that the fault touched.
    pub touched: u64,
    /// Strict values in all, and the longest time without one.
    pub strict: usize,
    pub strict_pause: Duration,
    /// The latencies of strict values and of IDs: median and 99 of 100.
    pub strict_latency: [Duration; 2],
    pub ids_latency: [Duration; 2],
    /// The longest time that some node went without an ID.
    pub ids_pause: Duration,
    pub elections: u64,
    /// From the fault's end until every node had given a strict value.
    pub healed: Duration,
    /// From the fault's end until every node was ready.
    pub ready: Duration,
    /// The most memory of any node, in the whole run.
    pub memory: u64,
    /// The most that a packet was carried too late in the whole run, which is the machine's fault.
    pub lateness: Duration,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.strict as f64 / self.run.length.as_secs_f64();
        write!(
            f,
            "{:20} {} nodes: {:6.1} strict/s, p50 {:.1} p99 {:.0} ms, pause {:.2} s; IDs' p50 {:.1} \
             p99 {:.0} ms, pause {:.2} s; {} elections, \
             healed {:4.2} s, ready {:4.2} s, {:3} MiB, {} packets touched, {:.1} ms late",
            self.run.fault.name,
            self.run.nodes,
            rate,
            ms(self.strict_latency[0]),
            ms(self.strict_latency[1]),
            self.strict_pause.as_secs_f64(),
            ms(self.ids_latency[0]),
            ms(self.ids_latency[1]),
            self.ids_pause.as_secs_f64(),
            self.elections,
            self.healed.as_secs_f64(),
            self.ready.as_secs_f64(),
            self.memory >> 20,
            self.touched,
            ms(self.lateness),
        )
    }
}

/// The histories of the load.
struct Histories {
    ids: History<Ids>,
    order: History<Values>,
    ticket: History<Values>,
}

/// The times of a fault on the run's clock.
struct Moments {
    begin: At,
    end: At,
}

impl LinkRun {
    /// Runs it; the figures are there also where the verdict is a violation.
    pub fn judged(self) -> (Option<Figures>, Result<(), Violation>) {
        let planned = Cluster::on_links(self.nodes, 0);
        let cluster = if self.is_patient {
            planned.patient().ready()
        } else {
            planned.ready()
        };
        cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
        cluster.create_sequence(0, "ticket", &json!({"segment": {"min": 20, "max": 500}}));
        let look = || {
            let pids = (0..self.nodes).map(|node| memory::resident(cluster.node(node).pid()));
            let most = pids.max().unwrap_or_default();
            std::thread::sleep(LOOK);
            most
        };
        let ((figures, histories), memory) = wait::beside(look, || self.run(&cluster));
        let mut figures = match figures {
            Ok(figures) => figures,
            Err(violation) => return (None, Err(violation)),
        };
        figures.memory = memory.into_iter().max().unwrap_or_default();
        let verdict = histories
            .check(&cluster)
            .and_then(|()| figures.check())
            .inspect_err(|_| histories.print());
        (Some(figures), verdict)
    }

    fn run(self, cluster: &Cluster) -> (Result<Figures, Violation>, Histories) {
        let timeline = Timeline::begin();
        let load = |clients, count, pause| cluster.load(clients, Route::Fixed, count, pause);
        let ids = Workload::ids(load(self.nodes, 10, 5), timeline);
        let order = Workload::next(load(STRICT * self.nodes, 1, 0), timeline, "order");
        let ticket = Workload::next(load(self.nodes, 7, 2), timeline, "ticket");
        std::thread::sleep(BEFORE);
        let leader = cluster.leader();
        let term = term(cluster);
        cluster.links().lateness();

        let begin = timeline.at();
        let fault = self.fault.impose(cluster, leader);
        std::thread::sleep(self.length);
        let elections = self::term(cluster).saturating_sub(term);
        let end = timeline.at();
        let (touched, has_bitten) = fault.heal();
        let all: Vec<usize> = (0..self.nodes).collect();
        let given = all.iter().map(|node| order.acknowledged_by(*node));
        let given: Vec<usize> = given.collect();
        let ready = cluster.wait_ready_of(&all, READY);
        let goes_on = |node: usize| order.acknowledged_by(node) > given[node];
        wait::within(AFTER, || (0..self.nodes).all(goes_on).then_some(()));
        let histories = Histories {
            ids: ids.finish(),
            order: order.finish(),
            ticket: ticket.finish(),
        };
        if !has_bitten {
            let detail = format!("{} touched {touched} in all", self.fault.name);
            let violation = Violation::new("a fault that never bit", detail);
            return (Err(violation), histories);
        }
        let moments = Moments { begin, end };
        let mut figures = self.figures(&histories, &moments);
        figures.touched = touched;
        figures.elections = elections;
        figures.ready = ready;
        figures.lateness = cluster.links().lateness();
        (Ok(figures), histories)
    }

    fn figures(self, histories: &Histories, moments: &Moments) -> Figures {
        let (begin, end) = (moments.begin, moments.end);
        let order = &histories.order;
        let within = |op: &&Op<Values>| op.back >= begin && op.back <= end;
        let acknowledged = order.iter().filter(|op| op.answer().is_some());
        let pause_of = |node| pauses::longest_of_node(&histories.ids, node, begin, end).0;
        let healed_of = |node| {
            let own = order.iter().filter(|op| op.node == node && op.back >= end);
            let acknowledged = own.filter(|op| op.answer().is_some());
            let first = acknowledged.map(|op| op.back).min();
            first.map_or(Duration::MAX, |first| first.since(end))
        };
        Figures {
            run: self,
            touched: 0,
            strict: acknowledged.filter(within).count(),
            strict_pause: pauses::longest_of_all(order, begin, end).0,
            strict_latency: latency(order, moments),
            ids_latency: latency(&histories.ids, moments),
            ids_pause: (0..self.nodes).map(pause_of).max().unwrap_or_default(),
            elections: 0,
            healed: (0..self.nodes).map(healed_of).max().unwrap_or_default(),
            ready: Duration::ZERO,
            memory: 0,
            lateness: Duration::ZERO,
        }
    }
}

impl Figures {
    fn check(&self) -> Result<(), Violation> {
        if self.strict_pause > LONGEST_PAUSE {
            let detail = format!("{:?} without a strict value", self.strict_pause);
            return Err(Violation::new("a stall under the fault", detail));
        }
        if self.elections > 0 && self.run.fault.spares_the_leader() {
            let detail = format!("{} under {}", self.elections, self.run.fault.name);
            return Err(Violation::new("an election without a reason", detail));
        }
        if self.healed > HEALED || self.ready > HEALED {
            let detail = format!(
                "{:?} and ready {:?} after the fault",
                self.healed, self.ready
            );
            return Err(Violation::new("a stall after healing", detail));
        }
        if self.memory > MOST_MEMORY {
            let detail = format!("{} MiB", self.memory >> 20);
            return Err(Violation::new("bounded memory", detail));
        }
        Ok(())
    }
}

impl Histories {
    fn check(&self, cluster: &Cluster) -> Result<(), Violation> {
        unique::numbers(&self.ids)?;
        increasing::ids_per_worker(&self.ids)?;
        linearizable::strict(&self.order)?;
        let (next, _) = cluster.next(0, "order", 1);
        lost::strict(&self.order, 1, next)?;
        disjoint::segments(&self.ticket, 1, i64::MAX)?;
        let all: Vec<usize> = (0..cluster.size()).collect();
        cluster.wait_same_state(&all);
        Ok(())
    }

    fn print(&self) {
        println!("ids    {:?} {:?}", tally(&self.ids), reasons(&self.ids));
        println!("order  {:?} {:?}", tally(&self.order), reasons(&self.order));
        let ticket = &self.ticket;
        println!("ticket {:?} {:?}", tally(ticket), reasons(ticket));
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The median latency of what was acknowledged under the fault, and that of 99 of 100.
fn latency<T>(history: &[Op<T>], moments: &Moments) -> [Duration; 2] {
    let within = |op: &&Op<T>| op.call >= moments.begin && op.back <= moments.end;
    let acknowledged = history.iter().filter(|op| op.answer().is_some());
    let mut times: Vec<Duration> = acknowledged
        .filter(within)
        .map(|op| op.back.since(op.call))
        .collect();
    times.sort_unstable();
    [0.5, 0.99].map(|share| quantile(&times, share))
}

/// The highest term that any node is at.
fn term(cluster: &Cluster) -> u64 {
    let term = |node: usize| cluster.node(node).cluster_view()?["term"].as_u64();
    (0..cluster.size())
        .filter_map(term)
        .max()
        .unwrap_or_default()
}
