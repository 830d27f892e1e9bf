//! Power cuts of real nodes on real file systems, under load, and the invariants that must hold
//! afterwards.
//!
//! Each node has a disk of its own. A cut removes all unsynced data and ends the process; the disk
//! is mounted again and the node started at once. There are two manners:
//!
//! - [`Manner::Dead`]: the process dies first, then the disk loses its power. Every answer that a
//!   client received came from a process whose disk worked, so every answer counts.
//! - [`Manner::Alive`]: the disk loses its power under the running process, which then ends itself
//!   (`EIO`) or is ended by `kill -9`. A sync that races with the cut may be reported although its
//!   bytes are lost, so answers during the cut do not count.

use std::time::{Duration, Instant};

use crate::checkers::{Violation, lost, require};
use crate::cluster::{Cluster, READY};
use crate::history::{Created, Doubt, History, Timeline, doubt};
use crate::http;
use crate::loop_disk::{FileSystem, Loss, ROOMY};
use crate::mixed::{self, Given, Histories, Mixed};
use crate::seed::Random;
use crate::wait;
use crate::workload::{Route, Workload};

/// Snapshots are frequent, so that cuts also hit their creation, and the purge after them.
const SNAPSHOT_EVERY: &str = "1500";

/// The least number of acknowledgements between two cuts, so that there is something to lose.
const PROGRESS: usize = 20;

/// The exit code of a node whose disk failed.
const DISK_FAILED: Option<i32> = Some(10);

/// The order in which a process and its disk fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Dead,
    Alive,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    pub single: usize,
    pub of_all: usize,
    /// Cuts of a node that was not ready again after the cut before.
    pub while_starting: usize,
    pub given: Given,
    pub created: u64,
    pub torn_tails: usize,
    pub rebuilds: usize,
    pub snapshots: usize,
    pub slowest_start: Duration,
}

impl Figures {
    /// The number of cuts; a cut of all nodes counts once.
    pub fn cuts(&self) -> usize {
        self.single + self.of_all
    }
}

/// A three-node cluster on cuttable disks, under load.
#[derive(Debug)]
pub struct PowerRun {
    // Dropped first, which ends it.
    load: Option<(Mixed, Workload<Created>)>,
    cluster: Cluster,
    random: Random,
    timeline: Timeline,
    histories: Histories,
    created: History<Created>,
    doubtful: Vec<Doubt>,
    loads: usize,
    unsettled: bool,
    figures: Figures,
}

impl PowerRun {
    /// Founds a cluster. With `lying` disks each sync returns `Ok` and syncs nothing
    /// (eatmydata).
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
            histories: Histories::default(),
            created: Vec::new(),
            doubtful: Vec::new(),
            loads: 0,
            unsettled: false,
            figures: Figures::default(),
        }
    }

    /// Founds the cluster, and cuts its power at some moment of that.
    pub fn bootstrap(&mut self) -> Result<(), Violation> {
        self.cluster.start_all();
        std::thread::sleep(Duration::from_millis(self.random.below(900)));
        self.unsettled = true;
        self.cut(&[0, 1, 2])?;
        self.settle()?;
        mixed::create(&self.cluster);
        Ok(())
    }

    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Cuts `count` times under one continuous load, every `all_every`th time all nodes at once,
    /// and checks what was acknowledged.
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
            // One cut in four is followed by the next one while the node starts.
            self.unsettled = self.random.below(4) == 0;
            if !self.unsettled {
                self.settle()?;
            }
        }
        self.settle()?;
        self.end_load();
        self.judge()
    }

    /// A random node; in half of the cases the leader, if there is one.
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
            // The process gets some time to encounter the first error, or none.
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

    /// Ends a process whose disk is gone, unless it has ended itself.
    fn end(&mut self, victim: usize) -> Result<(), Violation> {
        let node = self.cluster.node_mut(victim);
        if let Some(status) = node.ended() {
            let detail = format!("{status} without a disk: {}", node.last_line());
            let is_known = status.code() == DISK_FAILED;
            require(is_known, "a lost disk ends the node with exit 10", detail)?;
        }
        node.kill();
        Ok(())
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
        let load = |clients, route, count, pause| self.cluster.load(clients, route, count, pause);
        let loads = [
            load(3, Route::Fixed, 50, 5),
            load(4, Route::Roaming, 1, 1),
            load(3, Route::Fixed, 7, 3),
        ];
        let prefix = format!("made.{}.", self.loads);
        let created = Workload::creates(load(1, Route::Roaming, 1, 3), self.timeline, &prefix);
        self.loads += 1;
        self.load = Some((Mixed::begin(self.timeline, loads), created));
    }

    /// Waits until more requests were acknowledged since the last cut.
    fn progress(&self) -> Result<(), Violation> {
        let Some((load, _)) = &self.load else {
            return Ok(());
        };
        let goal = load.order.acknowledged() + PROGRESS;
        let more = wait::within(READY, || (load.order.acknowledged() >= goal).then_some(()));
        let detail = format!("not in {READY:?}");
        require(more.is_some(), "a cluster with a quorum serves", detail)
    }

    fn end_load(&mut self) {
        let Some((load, created)) = self.load.take() else {
            return;
        };
        let doubts = std::mem::take(&mut self.doubtful);
        self.histories.extend(load.finish(), &doubts);
        let mut created = created.finish();
        doubt(&mut created, &doubts);
        self.created.extend(created);
    }

    fn judge(&mut self) -> Result<(), Violation> {
        self.figures.given = self.histories.check(&self.cluster, self.timeline)?;
        let there = self.cluster.sequence_names(0);
        self.figures.created = lost::created(&self.created, &there)?;
        let stderr = (0..3).map(|i| self.cluster.node(i).stderr());
        let stderr: String = stderr.collect();
        self.figures.torn_tails = stderr.matches("the last write was interrupted").count();
        self.figures.rebuilds = stderr.matches("the checkpoint cannot be used").count();
        self.figures.snapshots = stderr.matches("snapshot taken").count();
        Ok(())
    }

    /// All outcomes so far.
    pub fn histories(&self) -> &Histories {
        &self.histories
    }

    /// The last log lines of the nodes, for the report of a failed run.
    pub fn tails(&self) -> String {
        (0..3).map(|i| self.cluster.node(i).tail()).collect()
    }
}
