//! The state that every module of a node may read: settings, folder, identity, phase, and the
//! records about the other nodes.
//!
//! The replica is in a layer above. The modules below it use it through the trait [`ClusterView`],
//! which it implements.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use seqd_net::Lock;
use seqd_peers::clock::{Drift, Measured};
use seqd_peers::levels::LevelRange;
use seqd_peers::starts::Peers;
use seqd_peers::table::Start;
use seqd_peers::watched::Watched;
use seqd_peers::wire::envelope::Envelope;
use seqd_peers::wire::transport::Transport;
use seqd_state::Level;
use seqd_state::idgen::Line;
use seqd_store::folder::{Folder, Identity};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clocks::Clocks;
use crate::diagnosis::Diagnosis;
use crate::disk_health::DiskHealth;
use crate::draining::Draining;
use crate::handle::{NodeReport, Phase, Settings, Stop, StopReason};
use crate::messages::{Ping, Stopping};
use crate::other_cluster::OtherCluster;
use crate::storage::opening::Began;
use crate::types::Member;

/// Time for which a peer counts as reachable after its last answer.
const REACHABLE_FOR: Duration = Duration::from_secs(3);

/// Time for which a measurement of a peer's clock is used. It equals a window. The line of a clock
/// is steady, so a process that was suspended for a few seconds can still use its measurements.
const CLOCK_KNOWN_FOR: Duration = Duration::from_secs(30);

/// Largest number of recorded names of nodes that are not members.
const NAMES: usize = 64;

/// The parts of a running replica that the modules below it use.
pub(crate) trait ClusterView: Send + Sync {
    /// Returns whether a vote or an entry is stored.
    fn has_history(&self) -> bool;
    /// Returns whether a node was a member and is no longer one.
    fn is_removed(&self, node: u64) -> bool;
    fn members(&self) -> BTreeMap<u64, Member>;
    fn member(&self, node: u64) -> Option<Member>;
    /// The leader's name, while the leader and a quorum are in contact.
    fn live_leader_name(&self) -> Option<String>;
    /// Returns whether a node votes; `None` before the first membership is applied.
    fn votes(&self, node: u64) -> Option<bool>;
    fn level(&self) -> Level;
    /// Returns whether this node leads and has applied all entries of earlier leaders.
    fn leads(&self) -> bool;
    /// Time since a quorum was last in contact with this node as the leader; `None` if it does not
    /// lead, or has just been elected.
    fn without_quorum_for(&self) -> Option<Duration>;
}

pub(crate) struct NodeContext {
    pub(crate) settings: Settings,
    pub(crate) folder: Arc<Folder>,
    pub(crate) start: Start,
    pub(crate) transport: Arc<dyn Transport>,
    /// The records about the starts of the other nodes.
    pub(crate) peers: Peers,
    pub(crate) disk: DiskHealth,
    pub(crate) diagnosis: Diagnosis,
    pub(crate) other_cluster: OtherCluster,
    pub(crate) draining: Draining,
    /// Notified when a member answers again, so that its clock is measured at once.
    pub(crate) member_came: tokio::sync::Notify,
    /// The origin of the monotonic clock in the lines of clocks.
    pub(crate) clock_since: Instant,
    clocks: watch::Sender<Clocks>,
    /// The state with which this start began; unset until its log is open.
    pub(crate) began: OnceLock<Began>,
    pub(crate) report: Lock<NodeReport>,
    /// Notified when this node takes an identity.
    pub(crate) identity_taken: tokio::sync::Notify,
    /// Held while the log is created or opened, even if the future that waits for it is dropped. A
    /// stop waits for it, and it serialises the taking of identities.
    pub(crate) opening: Arc<tokio::sync::Mutex<()>>,
    identity: Lock<Option<Identity>>,
    /// True if the log has a vote or an entry; `None` until it is open.
    history: Watched<Option<bool>>,
    view: OnceLock<Arc<dyn ClusterView>>,
    known: Lock<BTreeMap<u64, PeerState>>,
    phase: watch::Sender<Phase>,
    /// Becomes true when this node is stopped.
    stopped: Arc<Watched<bool>>,
    /// The progress of this node's stop, and the time at which the stop began.
    stopping: Lock<(Stopping, Option<Instant>)>,
    /// The names of nodes that are not members yet, from their certificates.
    names: Lock<BTreeMap<u64, String>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct PeerState {
    answered: Option<Instant>,
    refused: bool,
    pub(crate) ping: Option<Ping>,
    clock: Option<Measured>,
    /// The drift of the other node's clock against this node's.
    pub(crate) drift: Drift,
    /// The progress of the other node's stop, and the start that reported it.
    stopping: Option<(Start, Stopping)>,
}

impl PeerState {
    pub(crate) fn is_reachable(&self) -> bool {
        !self.refused && self.answered.is_some_and(|at| at.elapsed() < REACHABLE_FOR)
    }

    /// The other node's clock, if the measurement is recent enough.
    pub(crate) fn clock(&self) -> Option<Measured> {
        self.clock
            .filter(|measured| measured.seen.elapsed() < CLOCK_KNOWN_FOR)
    }

    /// Returns whether the other node last reported that its disk has only the reserve left.
    pub(crate) fn is_disk_low(&self) -> bool {
        self.ping.as_ref().is_some_and(|ping| ping.disk_low)
    }

    /// Returns whether the other node last reported that it drains.
    pub(crate) fn is_draining(&self) -> bool {
        self.ping.as_ref().is_some_and(|ping| ping.report.draining)
    }

    /// Returns whether the other node last reported that its disk hangs.
    pub(crate) fn is_disk_hanging(&self) -> bool {
        self.ping.as_ref().is_some_and(|ping| ping.disk_hangs)
    }
}

impl NodeContext {
    pub(crate) fn new(
        settings: Settings,
        folder: Folder,
        identity: Option<Identity>,
        start: Start,
        transport: Arc<dyn Transport>,
        peers: Peers,
    ) -> Self {
        let clock_since = Instant::now();
        let (clocks, _) = watch::channel(Clocks::unknown(clock_since));
        let (phase, _) = watch::channel(Phase::Waiting {
            reason: "starting".to_owned(),
        });
        Self {
            settings,
            folder: Arc::new(folder),
            start,
            transport,
            peers,
            disk: DiskHealth::default(),
            diagnosis: Diagnosis::default(),
            other_cluster: OtherCluster::default(),
            draining: Draining::default(),
            member_came: tokio::sync::Notify::new(),
            clock_since,
            clocks,
            began: OnceLock::new(),
            report: Lock::default(),
            identity_taken: tokio::sync::Notify::new(),
            opening: Arc::default(),
            identity: Lock::new(identity),
            history: Watched::new(None),
            view: OnceLock::new(),
            known: Lock::default(),
            phase,
            stopped: Arc::default(),
            stopping: Lock::default(),
            names: Lock::default(),
        }
    }

    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    pub(crate) fn stopped(&self) -> &Arc<Watched<bool>> {
        &self.stopped
    }

    /// Changes the phase, unless the node is stopped already.
    pub(crate) fn set_phase(&self, next: Phase) {
        self.phase.send_if_modified(|phase| {
            let moves = !matches!(phase, Phase::Stopped(_)) && *phase != next;
            if moves {
                *phase = next;
            }
            moves
        });
        if self.is_stopped() {
            self.stopped.set(true);
        }
    }

    /// Stops this node. Marks the folder if it must not be used again.
    pub(crate) fn stop(&self, stop: Stop) {
        if stop.reason.is_final()
            && let Err(error) = self.folder.mark_refused(stop.code(), &stop.message)
        {
            tracing::error!(%error, "the folder could not be marked as refused");
        }
        self.set_phase(Phase::Stopped(stop));
    }

    pub(crate) fn is_stopped(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Stopped(_))
    }

    /// Returns whether this node has stopped because it was removed from the cluster.
    pub(crate) fn is_removed_itself(&self) -> bool {
        let phase = self.phase.borrow();
        matches!(&*phase, Phase::Stopped(stop) if stop.reason == StopReason::NodeRemoved)
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        self.identity.lock().clone()
    }

    pub(crate) fn with_identity<R>(&self, look: impl FnOnce(&Identity) -> R) -> Option<R> {
        self.identity.lock().as_ref().map(look)
    }

    /// The envelope for a message to `to`; `None` before this node has an identity.
    pub(crate) fn envelope(&self, to: u64) -> Option<Envelope> {
        self.with_identity(|identity| Envelope {
            cluster_id: identity.cluster_id.clone(),
            from: identity.node,
            to,
            start: self.start,
        })
    }

    /// Stores an identity, on the disk first, unless this node has one already. Returns the
    /// identity that the node then has.
    pub(crate) fn take_identity(&self, identity: Identity) -> std::io::Result<Identity> {
        let mut own = self.identity.lock();
        if let Some(own) = &*own {
            return Ok(own.clone());
        }
        self.folder.write_identity(&identity)?;
        *own = Some(identity.clone());
        drop(own);
        self.identity_taken.notify_waiters();
        Ok(identity)
    }

    /// Records that the cluster has begun. From then on, an empty log in this folder counts as
    /// lost.
    pub(crate) fn finish_bootstrap(&self) -> std::io::Result<()> {
        let mut own = self.identity.lock();
        if let Some(own) = &mut *own {
            own.founder = false;
            self.folder.write_identity(own)?;
        }
        Ok(())
    }

    pub(crate) fn set_history(&self, any: bool, began: Began) {
        // Set once: a start opens its log once.
        let _ = self.began.set(began);
        self.history.set(Some(any));
    }

    /// The replica's view for the modules below it; `None` until the replica runs.
    pub(crate) fn view(&self) -> Option<&dyn ClusterView> {
        self.view.get().map(|view| &**view)
    }

    pub(crate) fn set_view(&self, view: Arc<dyn ClusterView>) {
        // Set once: a start runs one replica.
        let _ = self.view.set(view);
    }

    /// Returns whether a node was removed from the cluster, by the entries applied here.
    pub(crate) fn is_removed(&self, node: u64) -> bool {
        self.view().is_some_and(|view| view.is_removed(node))
    }

    /// The members that this node has recorded: the applied ones or, while it starts, those of its
    /// folder.
    fn members(&self) -> BTreeMap<u64, Member> {
        let applied = self.view().map(|view| view.members()).unwrap_or_default();
        if !applied.is_empty() {
            return applied;
        }
        let given = self.with_identity(|own| own.members.iter().cloned().collect());
        let mut members: BTreeMap<u64, Member> = given.unwrap_or_default();
        if let Some(began) = self.began.get() {
            members.extend(began.members.clone());
        }
        members
    }

    /// The name of a node: as a member, or from the certificate with which it introduced itself.
    pub(crate) fn name_of(&self, node: u64) -> Option<String> {
        if let Some(member) = self.members().remove(&node) {
            return Some(member.name);
        }
        let names = self.names.lock();
        names.get(&node).cloned()
    }

    /// Records the name of a node that has introduced itself with a certificate.
    pub(crate) fn learn_name(&self, node: u64, name: &str) {
        let mut names = self.names.lock();
        if names.len() >= NAMES && !names.contains_key(&node) {
            names.pop_first();
        }
        names.insert(node, name.to_owned());
    }

    /// The name of the node at a peer's address, by the members or the configuration.
    pub(crate) fn name_at(&self, addr: &str) -> Option<String> {
        let mut members = self.members().into_values();
        if let Some(member) = members.find(|member| member.peer == addr) {
            return Some(member.name);
        }
        let mut listed = self.settings.peers.iter();
        let peer = listed.find(|peer| peer.addr == addr);
        peer.map(|peer| peer.name.clone())
    }

    /// The level that this node has applied (the first level before its log is open). It is the
    /// cluster's level, or a lower one if this node lags.
    pub(crate) fn level(&self) -> Level {
        let began = || self.began.get().map_or(Level::FIRST, |began| began.level);
        self.view().map_or_else(began, ClusterView::level)
    }

    /// The level for which a program with this range is refused. Only a leader is certain that its
    /// level is not below the cluster's, so no other node refuses a range that begins above its own
    /// level.
    pub(crate) fn level_outside(&self, range: LevelRange) -> Option<Level> {
        let level = self.level();
        let leads = || self.view().is_some_and(ClusterView::leads);
        let is_outside = range.newest < level.0 || (range.oldest > level.0 && leads());
        is_outside.then_some(level)
    }

    /// Returns whether this node has a vote or an entry; `None` until its log is open.
    pub(crate) fn has_history(&self) -> Option<bool> {
        match self.view() {
            Some(view) => Some(view.has_history()),
            None => self.history.get(),
        }
    }

    /// Like `has_history`, but waits until the log is open.
    pub(crate) async fn history_known(&self) -> bool {
        self.history.wait_for(|known| known.is_some()).await;
        self.has_history().unwrap_or(true)
    }

    /// This node's ping, with the index of its last applied entry and the number of committed
    /// entries that it has yet to apply.
    pub(crate) fn own_ping(&self, applied: u64, behind: u64) -> Ping {
        let mut report = self.report.lock().clone();
        report.draining |= self.draining.is_on();
        Ping {
            name: self.settings.name.clone(),
            version: self.settings.version.clone(),
            applied,
            behind,
            report,
            wall_ms: self.settings.clock.wall().0,
            acknowledged: self.peers.rows().0,
            disk_hangs: self.disk.hangs(),
            disk_low: self.disk.space.is_low(),
            levels: self.settings.levels,
        }
    }

    pub(crate) fn peer(&self, node: u64) -> PeerState {
        self.known.lock().get(&node).cloned().unwrap_or_default()
    }

    /// The levels that a node's program supports, while the node is reachable. They are those of
    /// the handshake of its latest start, because the last ping may come from an earlier program.
    pub(crate) fn levels_of(&self, node: u64) -> Option<LevelRange> {
        let levels = self.peers.levels(node);
        levels.filter(|_| self.peer(node).is_reachable())
    }

    pub(crate) fn record_answer(&self, node: u64, ping: Option<Ping>) {
        let mut known = self.known.lock();
        let seen = known.entry(node).or_default();
        seen.answered = Some(Instant::now());
        seen.refused = false;
        if ping.is_some() {
            seen.ping = ping;
        }
    }

    /// Records that a member drains, or no longer does, before its next ping reports it.
    pub(crate) fn record_draining(&self, node: u64, drains: bool) {
        if let Some(ping) = &mut self.known.lock().entry(node).or_default().ping {
            ping.report.draining = drains;
        }
    }

    /// The progress of this node's stop.
    pub(crate) fn stopping(&self) -> Stopping {
        self.stopping.lock().0
    }

    /// Advances this node's stop, never back. Returns the time at which the stop began.
    pub(crate) fn set_stopping(&self, next: Stopping) -> Instant {
        let mut own = self.stopping.lock();
        own.0 = own.0.max(next);
        *own.1.get_or_insert_with(Instant::now)
    }

    pub(crate) fn record_stopping(&self, node: u64, start: Start, stopping: Stopping) {
        self.known.lock().entry(node).or_default().stopping = Some((start, stopping));
    }

    /// The progress of a node's stop, as last received from its latest start.
    pub(crate) fn stopping_of(&self, node: u64) -> Stopping {
        let received = self.peer(node).stopping;
        let latest = self.peers.start_of(node);
        let of_latest = received.filter(|(start, _)| Some(*start) == latest);
        of_latest.map_or(Stopping::No, |(_, stopping)| stopping)
    }

    pub(crate) fn record_clock(&self, node: u64, measured: Measured) {
        let ahead_ms = self.ahead_ms(measured);
        let at = self.clock_since.elapsed();
        let mut known = self.known.lock();
        let known = known.entry(node).or_default();
        known.clock = Some(measured);
        known.drift.sample(at, ahead_ms);
    }

    /// The difference between a measured clock and this node's, in milliseconds; negative if the
    /// measured clock is behind.
    pub(crate) fn ahead_ms(&self, measured: Measured) -> i64 {
        let own = Line::of(self.settings.clock.wall(), self.clock_since.elapsed(), 0);
        measured.line.ms.saturating_sub(own.ms)
    }

    /// Returns whether a measured clock is certainly within `limit_ms` of this node's, by a recent
    /// measurement.
    pub(crate) fn is_within(&self, measured: Measured, limit_ms: u64) -> bool {
        let apart = self.ahead_ms(measured).unsigned_abs();
        let is_fresh = measured.seen.elapsed() < REACHABLE_FOR;
        is_fresh && apart.saturating_add(measured.line.uncertain_ms) <= limit_ms
    }

    /// The clocks of the members, as of the last comparison.
    pub(crate) fn clocks(&self) -> watch::Ref<'_, Clocks> {
        self.clocks.borrow()
    }

    pub(crate) fn clocks_watched(&self) -> watch::Receiver<Clocks> {
        self.clocks.subscribe()
    }

    pub(crate) fn set_clocks(&self, clocks: Clocks) {
        self.clocks.send_replace(clocks);
    }

    /// Discards the records about nodes that were removed from the cluster.
    pub(crate) fn discard_removed(&self, view: &dyn ClusterView) {
        self.peers.retain(|node| !view.is_removed(node));
        // The view takes a lock of its own, so it is called while no other is held.
        let mut nodes: Vec<u64> = self.known.lock().keys().copied().collect();
        nodes.extend(self.diagnosis.nodes());
        for node in nodes.into_iter().filter(|node| view.is_removed(*node)) {
            self.known.lock().remove(&node);
            self.diagnosis.remove(node);
        }
    }

    pub(crate) fn record_refused(&self, node: u64) {
        self.known.lock().entry(node).or_default().refused = true;
    }
}
