//! The nodes, each with its disk, its clock and, while it runs, its process.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use seqd_disk::Disk as _;
use seqd_disk::simulated::{Call, Dice, Failure, Fault, SimulatedDisk};
use seqd_net::Lock;
use seqd_peers::wire::dialer::Dialer;
use seqd_state::idgen::{WallClock, WallMs};
use seqd_store::snapshot_file;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::minters::{Minter, Minting, WINDOW};
use super::net::{Dials, Net, Port, address};
use super::record::{Record, Violation};
use crate::platform::NodeTasks;
use crate::platform::scope::{Owned, Scope};
use crate::{LevelRange, Options, Peer, Phase, Raft, Settings, StopReason};

/// The start of every run: an arbitrary time after the layouts' epochs.
const BEGAN_MS: u64 = 1_800_000_000_000;

/// The folder of each node, on its disk.
const DATA: &str = "/data";

/// A node's clock, with its offset from the true time.
pub(super) struct Clock {
    began: Instant,
    off_ms: AtomicI64,
    /// The rate by which the clock runs faster, in millionths.
    drift_ppm: AtomicI64,
}

impl Clock {
    pub(super) fn step(&self, by_ms: i64) {
        self.off_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    pub(super) fn drift(&self, ppm: i64) {
        self.drift_ppm.store(ppm, Ordering::Relaxed);
    }

    pub(super) fn set_right(&self) {
        self.drift(0);
        self.off_ms.store(0, Ordering::Relaxed);
    }
}

impl WallClock for Clock {
    fn wall(&self) -> WallMs {
        let passed = self.began.elapsed().as_millis() as u64;
        let drifted = passed as i64 * self.drift_ppm.load(Ordering::Relaxed) / 1_000_000;
        let off = drifted + self.off_ms.load(Ordering::Relaxed);
        WallMs((BEGAN_MS + passed).saturating_add_signed(off))
    }
}

#[derive(Clone)]
pub(super) struct Process {
    pub(super) scope: Arc<Scope>,
    pub(super) raft: Raft,
    over: Arc<Notify>,
}

pub(super) struct Spot {
    disk: Lock<SimulatedDisk>,
    process: Lock<Option<Process>>,
    /// True if an error of the node's disk is planted, so that the node may stop because of it.
    may_fail: AtomicBool,
    pub(super) clock: Arc<Clock>,
}

pub(super) struct Cluster {
    pub(super) net: Arc<Net>,
    pub(super) record: Arc<Record>,
    pub(super) spots: Vec<Spot>,
    /// The number of founders; they are the first nodes.
    pub(super) founders: usize,
    snapshot_every: u64,
    minting: Lock<Minting>,
    dice: Lock<Dice>,
}

impl Cluster {
    pub(super) fn new(
        seed: u64,
        (founders, others): (usize, usize),
        snapshot_every: u64,
        record: &Arc<Record>,
    ) -> Arc<Self> {
        let mut dice = Dice::new(seed);
        let spots = (0..founders + others).map(|_| Spot {
            disk: Lock::new(SimulatedDisk::holding("/")),
            process: Lock::new(None),
            may_fail: AtomicBool::new(false),
            clock: Arc::new(Clock {
                began: Instant::now(),
                off_ms: AtomicI64::new(0),
                drift_ppm: AtomicI64::new(0),
            }),
        });
        Arc::new(Self {
            net: Net::new(dice.roll()),
            record: Arc::clone(record),
            spots: spots.collect(),
            founders,
            snapshot_every,
            minting: Lock::new(Minting::Nobody),
            dice: Lock::new(dice),
        })
    }

    fn roll(&self) -> u64 {
        let mut dice = self.dice.lock();
        dice.roll()
    }

    pub(super) fn process(&self, node: usize) -> Option<Process> {
        self.spots[node].process.lock().clone()
    }

    fn set_process(&self, node: usize, process: Option<Process>) -> Option<Process> {
        std::mem::replace(&mut *self.spots[node].process.lock(), process)
    }

    fn settings(&self, node: usize) -> Settings {
        let peer = |node: usize| Peer {
            name: format!("n{}", node + 1),
            addr: address(node),
        };
        Settings {
            name: format!("n{}", node + 1),
            peer_advertise: address(node),
            peer_is_configured: true,
            http_advertise: format!("http://n{}.invalid:7400", node + 1),
            peers: (0..self.founders).map(peer).collect(),
            heartbeat: Duration::from_millis(100),
            found_after: Duration::ZERO,
            election: (Duration::from_millis(400), Duration::from_millis(800)),
            snapshot_every: self.snapshot_every,
            window_ms: WINDOW.as_millis() as u64,
            max_peer_skew_ms: 500,
            version: "simulated".to_owned(),
            tenant_share: seqd_state::Share::WHOLE,
            levels: LevelRange::OWN,
            clock: Arc::clone(&self.spots[node].clock) as Arc<dyn WallClock>,
        }
    }

    /// Starts a process on a node without one.
    pub(super) async fn start(self: &Arc<Self>, node: usize) {
        if self.process(node).is_some() {
            return;
        }
        self.spots[node].may_fail.store(false, Ordering::Relaxed);
        self.net.restore_power(node);
        let scope = Scope::new(node, self.roll(), Arc::clone(&self.record) as _);
        let disk = Arc::new(self.spots[node].disk.lock().clone());
        let dial = Arc::new(Dials {
            net: Arc::clone(&self.net),
            from: node,
        });
        let options = Options {
            data_dir: Path::new(DATA).to_owned(),
            disk,
            listener: Box::new(Port::new(&self.net, node)),
            transport: Arc::new(Dialer::new(dial, Arc::new(NodeTasks))),
            settings: self.settings(node),
        };
        match Owned::new(Some(Arc::clone(&scope)), Raft::start(options)).await {
            Ok(raft) => {
                self.record.note(format!("n{} starts", node + 1));
                self.mint(node, &scope, &raft);
                let over = Arc::default();
                let process = Process { scope, raft, over };
                self.set_process(node, Some(process));
            }
            Err(stop) => self.ended(node, &stop),
        }
    }

    /// Sets how processes mint that start from then on.
    pub(super) fn set_minting(&self, minting: Minting) {
        *self.minting.lock() = minting;
    }

    fn mint(&self, node: usize, scope: &Arc<Scope>, raft: &Raft) {
        let minting = *self.minting.lock();
        if minting == Minting::Nobody {
            return;
        }
        let clock = Arc::clone(&self.spots[node].clock) as Arc<dyn WallClock>;
        let record = Arc::clone(&self.record);
        let minter = Minter::new(raft.clone(), clock, record, node, minting);
        scope.spawn(minter.live(self.roll()));
    }

    /// Records that a node has stopped on its own. A removed node does so, and does not start
    /// again.
    fn ended(&self, node: usize, stop: &crate::Stop) {
        let may_fail = self.spots[node].may_fail.load(Ordering::Relaxed);
        // Only syncs of the log fail. A node that was just added opens its log only after its
        // start.
        let what = stop.to_string();
        let of_the_log = ["the log could not be written", "cannot sync /data/wal/"];
        let of_the_log = of_the_log.iter().any(|begins| what.starts_with(begins));
        let why = match stop.reason {
            StopReason::NodeRemoved => "it was removed",
            StopReason::FsyncFailed if may_fail && of_the_log => "its disk failed",
            _ => {
                let what = format!("n{} has ended by itself: {what}", node + 1);
                return self.record.violate(Violation::new("nodes go on", what));
            }
        };
        self.record.note(format!("n{} ends: {why}", node + 1));
    }

    /// Kills the process. If the power is cut, unsynced data may be lost and the host is silent.
    pub(super) fn kill(&self, node: usize, power: bool) {
        let Some(process) = self.set_process(node, None) else {
            return;
        };
        if power {
            self.net.cut_power(node);
        } else {
            self.net.close_port(node);
        }
        let mut disk = self.spots[node].disk.lock();
        disk.switch_off();
        let left = if power {
            disk.cut(&mut Dice::new(self.roll()))
        } else {
            disk.killed()
        };
        *disk = left;
        drop(disk);
        process.scope.end();
        process.over.notify_waiters();
    }

    /// Stops the process cleanly, as an operator does.
    pub(super) async fn stop(&self, node: usize) {
        let Some(process) = self.process(node) else {
            return;
        };
        let raft = process.raft.clone();
        let stopping = Owned::new(Some(process.scope), async move { raft.stop().await });
        let _ = timeout(Duration::from_secs(10), stopping).await;
        self.kill(node, false);
    }

    /// Lets a sync of its log fail, after `after` further syncs.
    pub(super) fn fail_a_sync(&self, node: usize, after: u64) {
        if self.process(node).is_none() {
            return;
        }
        self.spots[node].may_fail.store(true, Ordering::Relaxed);
        let disk = self.spots[node].disk.lock();
        let fault = Fault::on(Call::SyncData, Failure::InputOutput);
        disk.plant(fault.at("wal").after(after));
    }

    /// On a stopped node that keeps an older snapshot, removes the checkpoint and damages the
    /// newest snapshot. Returns whether it did.
    pub(super) fn damage_newest_snapshot(&self, node: usize) -> bool {
        let disk = self.spots[node].disk.lock();
        let root = Path::new(DATA);
        let listed = snapshot_file::list(&*disk, &root.join("snap")).unwrap_or_default();
        let [newest, _, ..] = listed.as_slice() else {
            return false;
        };
        disk.edit(&newest.path, |bytes| bytes[20] ^= 1);
        let names = disk.list(root).unwrap_or_default();
        for name in names.iter().filter(|name| name.starts_with("state-")) {
            disk.delete(root.join(name));
        }
        true
    }

    /// Replaces a node by an empty machine.
    pub(super) fn replace(&self, node: usize) {
        self.kill(node, false);
        *self.spots[node].disk.lock() = SimulatedDisk::holding("/");
    }

    pub(super) fn running(&self) -> Vec<usize> {
        let all = 0..self.spots.len();
        all.filter(|node| self.process(*node).is_some()).collect()
    }

    /// Sends a request to a node; `None` if its process ends before it answers, or it does not
    /// answer in time.
    pub(super) async fn ask<T, F: Future<Output = T>>(
        &self,
        node: usize,
        limit: Duration,
        ask: impl FnOnce(Raft) -> F,
    ) -> Option<T> {
        let Process { scope, raft, over } = self.process(node)?;
        let over = over.notified();
        let asked = Owned::new(Some(scope), ask(raft));
        tokio::select! {
            biased;
            answer = asked => Some(answer),
            () = over => None,
            () = tokio::time::sleep(limit) => None,
        }
    }

    /// Finds nodes that have stopped on their own.
    pub(super) fn look(&self) {
        for node in self.running() {
            let Some(process) = self.process(node) else {
                continue;
            };
            let phase = process.raft.phase();
            let phase = phase.borrow().clone();
            if let Phase::Stopped(stop) = phase
                && stop.reason != StopReason::Stopped
            {
                self.ended(node, &stop);
                self.kill(node, false);
            }
        }
    }
}
