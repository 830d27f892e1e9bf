//! Power cuts of real nodes on real file systems under load, and the checks afterwards.
//!
//! Each node has its own disk. A power cut discards unsynced data and ends the process. The disk is
//! then mounted again and the node started at once. There are two manners:
//!
//! - [`Manner::Dead`]: the process dies first, then the disk loses its power. Every response that a
//!   client has came from a process whose disk worked, so every response counts.
//! - [`Manner::Alive`]: the disk loses its power under the running process, which then exits by
//!   itself (`EIO`) or is killed with `kill -9`. A sync that races with the cut may be reported
//!   although its bytes are lost, so responses during the cut do not count.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::checkers::{Violation, disjoint, increasing, linearizable, lost, unique};
use crate::cluster::{Cluster, READY};
use crate::history::{Created, Doubt, History, Ids, Timeline, Values, doubt, reasons, tally};
use crate::http;
use crate::loop_disk::{FileSystem, Loss, ROOMY};
use crate::seed::Random;
use crate::wait;
use crate::workload::{Load, Route, Workload, next_value};

/// Snapshots are frequent, so that cuts also interrupt their creation and the log purge that
/// follows.
const SNAPSHOT_EVERY: &str = "1500";

/// The smallest number of acknowledged requests between two cuts, so that there is data to lose.
const PROGRESS: usize = 20;

/// The exit code of a node whose disk has failed.
const DISK_FAILED: Option<i32> = Some(10);

/// The order in which a process and its disk die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Dead,
    Alive,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    pub single: usize,
    pub of_all: usize,
    /// Cuts of a node that was not ready again after the previous cut.
    pub while_starting: usize,
    pub strict: u64,
    pub segment: u64,
    pub ids: u64,
    pub created: u64,
    pub torn_tails: usize,
    pub rebuilds: usize,
    pub snapshots: usize,
    pub slowest_start: Duration,
}

impl Figures {
    pub fn add(&mut self, other: &Self) {
        self.single += other.single;
        self.of_all += other.of_all;
        self.while_starting += other.while_starting;
        self.strict += other.strict;
        self.segment += other.segment;
        self.ids += other.ids;
        self.created += other.created;
        self.torn_tails += other.torn_tails;
        self.rebuilds += other.rebuilds;
        self.snapshots += other.snapshots;
        self.slowest_start = self.slowest_start.max(other.slowest_start);
    }

    /// The number of cuts. A cut of all nodes counts once.
    pub fn cuts(&self) -> usize {
        self.single + self.of_all
    }
}

/// A three-node cluster under load, on disks whose power can be cut.
#[derive(Debug)]
pub struct PowerRun {
    // The load is dropped first: it ends by itself when it has no receiver.
    load: Option<Mixed>,
    cluster: Cluster,
    random: Random,
    timeline: Timeline,
    order: History<Values>,
    ticket: History<Values>,
    ids: History<Ids>,
    created: History<Created>,
    doubtful: Vec<Doubt>,
    loads: usize,
    unsettled: bool,
    figures: Figures,
}

#[derive(Debug)]
struct Mixed {
    order: Workload<Values>,
    ticket: Workload<Values>,
    ids: Workload<Ids>,
    created: Workload<Created>,
}

impl PowerRun {
    /// Plans a cluster. With `lying` disks, each sync returns `Ok` and syncs nothing (eatmydata).
    pub fn new(kind: FileSystem, random: Random, lying: bool) -> Self {
        let mut cluster = Cluster::planned(3)
            .with("raft", "snapshot_every", SNAPSHOT_EVERY)
            .on_disks(kind, ROOMY);
        if lying {
            (0..3).for_each(|i| cluster.node_mut(i).set_launcher(&["eatmydata"]));
        }
        Self {
            load: None,
            cluster,
            random,
            timeline: Timeline::begin(),
            order: Vec::new(),
            ticket: Vec::new(),
            ids: Vec::new(),
            created: Vec::new(),
            doubtful: Vec::new(),
            loads: 0,
            unsettled: false,
            figures: Figures::default(),
        }
    }

    /// Founds the cluster. The power is cut at a random moment of it.
    pub fn bootstrap(&mut self) -> Result<(), Violation> {
        self.cluster.start_all();
        std::thread::sleep(Duration::from_millis(self.random.below(900)));
        self.unsettled = true;
        self.cut(&[0, 1, 2])?;
        self.settle()?;
        let strict = json!({"mode": "strict"});
        self.cluster.create_sequence(0, "order", &strict);
        let small = json!({"segment": {"min": 20, "max": 500}});
        self.cluster.create_sequence(0, "ticket", &small);
        Ok(())
    }

    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Cuts the power `count` times under one continuous load, every `all_every`th time of all
    /// nodes at once, and checks the acknowledged requests.
    pub fn round(&mut self, count: usize, all_every: usize) -> Result<(), Violation> {
        self.begin_load();
        for number in 1..=count {
            if !self.unsettled {
                self.progress()?;
            }
            std::thread::sleep(Duration::from_millis(self.random.below(250)));
            if number % all_every == 0 {
                self.cut(&[0, 1, 2])?;
            } else {
                let victim = self.victim();
                self.cut(&[victim])?;
            }
            // In one of four cases the next cut follows while the node starts.
            self.unsettled = self.random.below(4) == 0;
            if !self.unsettled {
                self.settle()?;
            }
        }
        self.settle()?;
        self.end_load();
        self.judge()
    }

    /// A random node. In half of the cases it is the leader, if it is known.
    fn victim(&mut self) -> usize {
        let any = self.random.below(3) as usize;
        if self.random.below(2) == 0 {
            return any;
        }
        self.cluster.leader_claims().unwrap_or(any)
    }

    /// Cuts the power of these nodes at once and starts them again.
    pub fn cut(&mut self, victims: &[usize]) -> Result<(), Violation> {
        for &victim in victims {
            self.check_running(victim)?;
        }
        let loss = match self.random.below(3) {
            0 => Loss::Data,
            _ => Loss::All,
        };
        let manner = match self.random.below(2) {
            0 => Manner::Dead,
            _ => Manner::Alive,
        };
        let begin = self.timeline.at();
        if manner == Manner::Dead {
            victims
                .iter()
                .for_each(|&i| self.cluster.node_mut(i).kill());
        }
        for &victim in victims {
            self.cluster.disk_mut(victim).cut(loss);
        }
        if manner == Manner::Alive {
            // Time for the process to get the first error, or not.
            std::thread::sleep(Duration::from_millis(self.random.below(4) * 30));
            for &victim in victims {
                self.end(victim)?;
            }
            self.doubtful.push(Doubt {
                nodes: victims.to_vec(),
                from: begin,
                to: self.timeline.at(),
            });
        }
        for &victim in victims {
            let disk = self.cluster.disk_mut(victim);
            disk.unmount();
            disk.mount();
        }
        for &victim in victims {
            self.cluster.node_mut(victim).start();
        }
        match victims.len() {
            1 => self.figures.single += 1,
            _ => self.figures.of_all += 1,
        }
        self.figures.while_starting += usize::from(self.unsettled);
        Ok(())
    }

    /// Ends a process whose disk is lost, unless it has exited by itself.
    fn end(&mut self, victim: usize) -> Result<(), Violation> {
        let node = self.cluster.node_mut(victim);
        match node.ended() {
            Some(status) if status.code() != DISK_FAILED => {
                let detail = format!("{status} without a disk: {}", node.last_line());
                Err(Violation::new(
                    "a lost disk ends the node with exit 10",
                    detail,
                ))
            }
            _ => {
                node.kill();
                Ok(())
            }
        }
    }

    fn check_running(&mut self, index: usize) -> Result<(), Violation> {
        let node = self.cluster.node_mut(index);
        if node.is_running() {
            return Ok(());
        }
        let detail = format!("{} ended by itself: {}", node.name(), node.last_line());
        Err(Violation::new("every node opens", detail))
    }

    fn settle(&mut self) -> Result<(), Violation> {
        let begin = Instant::now();
        for index in 0..3 {
            let ready = wait::within(READY.saturating_sub(begin.elapsed()), || {
                let runs = self.check_running(index);
                if runs.is_err() || self.cluster.node(index).is_ready() {
                    return Some(runs);
                }
                None
            });
            ready.unwrap_or_else(|| {
                let url = self.cluster.url(index, "/readyz?verbose");
                let readiness = http::get(&url).send();
                let detail = format!("n{} is not ready in {READY:?}: {readiness:?}", index + 1);
                Err(Violation::new("every node gets ready", detail))
            })?;
        }
        self.unsettled = false;
        self.figures.slowest_start = self.figures.slowest_start.max(begin.elapsed());
        Ok(())
    }

    fn begin_load(&mut self) {
        let (urls, timeline) = (self.cluster.urls(), self.timeline);
        let load = |clients, route, count, pause_ms| Load {
            urls: urls.clone(),
            clients,
            route,
            count,
            pause: Duration::from_millis(pause_ms),
        };
        let prefix = format!("made.{}.", self.loads);
        self.loads += 1;
        self.load = Some(Mixed {
            order: Workload::next(load(4, Route::Roaming, 1, 1), timeline, "order"),
            ticket: Workload::next(load(3, Route::Fixed, 7, 3), timeline, "ticket"),
            ids: Workload::ids(load(3, Route::Fixed, 50, 5), timeline),
            created: Workload::creates(load(1, Route::Roaming, 1, 3), timeline, &prefix),
        });
    }

    /// Waits until `PROGRESS` more requests were acknowledged.
    fn progress(&self) -> Result<(), Violation> {
        let Some(load) = &self.load else {
            return Ok(());
        };
        let goal = load.order.acknowledged() + PROGRESS;
        wait::within(READY, || (load.order.acknowledged() >= goal).then_some(())).ok_or_else(|| {
            Violation::new(
                "a cluster with a quorum serves",
                format!("not in {READY:?}"),
            )
        })
    }

    fn end_load(&mut self) {
        let Some(load) = self.load.take() else {
            return;
        };
        self.order.extend(load.order.finish());
        self.ticket.extend(load.ticket.finish());
        self.ids.extend(load.ids.finish());
        self.created.extend(load.created.finish());
        let times = std::mem::take(&mut self.doubtful);
        doubt(&mut self.order, &times);
        doubt(&mut self.ticket, &times);
        doubt(&mut self.ids, &times);
        doubt(&mut self.created, &times);
    }

    fn judge(&mut self) -> Result<(), Violation> {
        self.figures.strict = linearizable::strict(&self.order)?;
        self.figures.segment = disjoint::segments(&self.ticket, 1, i64::MAX)?;
        self.figures.ids = unique::numbers(&self.ids)?;
        increasing::ids_per_worker(&self.ids)?;
        let order = &mut self.order;
        let judged = wait::within(READY, || {
            let asked = next_value(&self.cluster, 0, "order", self.timeline);
            if asked.runs().is_empty() {
                order.push(asked);
                return None;
            }
            Some(asked)
        });
        let Some(judged) = judged else {
            let detail = format!("the sequence does not go on: {:?}", reasons(order));
            return Err(Violation::new("no lost acknowledgement", detail));
        };
        lost::strict(&self.order, 1, judged.runs()[0].first)?;
        self.order.push(judged);
        let there = self.cluster.sequence_names(0);
        self.figures.created = lost::created(&self.created, &there)?;
        self.cluster.wait_same_state(&[0, 1, 2]);
        let stderr = (0..3).map(|i| self.cluster.node(i).stderr());
        let stderr: String = stderr.collect();
        self.figures.torn_tails = stderr.matches("the last write was interrupted").count();
        self.figures.rebuilds = stderr.matches("the checkpoint is not usable").count();
        self.figures.snapshots = stderr.matches("snapshot taken").count();
        Ok(())
    }

    /// The numbers of (acknowledged, unknown, refused) strict requests so far.
    pub fn tally(&self) -> (usize, usize, usize) {
        tally(&self.order)
    }

    /// The last lines of the nodes, for the report of a failed run.
    pub fn tails(&self) -> String {
        (0..3).map(|i| self.cluster.node(i).tail()).collect()
    }
}
