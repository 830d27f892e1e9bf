//! What a node knows of itself and of its peers, shared by everything that sends or receives.
//!
//! Invariants:
//! - A message leaves in an envelope that names this start (boot and nonce).
//! - A message is taken only from this cluster, for this node, from the latest start of its
//!   sender that was seen, and never from a removed member.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use seqd_state::idgen::WallClock;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::folder::{self, Folder, Identity};
use crate::handle::{Peer, Phase, Report, Stop};
use crate::messages::{self, Envelope, Ping, Sealed};
use crate::records;
use crate::replica::Replica;
use crate::stamping::ClockOffset;
use crate::transport::{CallError, Link, Rejection, RejectionCode, Transport};

/// How long a peer counts as reachable after its last answer.
const REACHABLE_FOR: Duration = Duration::from_secs(3);

/// The parts of the options that stay.
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) peer_advertise: String,
    pub(crate) http_advertise: String,
    pub(crate) peers: Vec<Peer>,
    pub(crate) heartbeat: Duration,
    pub(crate) election: (Duration, Duration),
    pub(crate) snapshot_every: u64,
    pub(crate) window_ms: u64,
    pub(crate) max_peer_skew_ms: u64,
    pub(crate) version: String,
    pub(crate) clock: Arc<dyn WallClock>,
}

/// One node: settings, folder, identity, peers, and its replica once that runs.
pub(crate) struct Local {
    pub(crate) settings: Settings,
    pub(crate) folder: Folder,
    pub(crate) boot: u64,
    pub(crate) nonce: u64,
    pub(crate) transport: Transport,
    pub(crate) replica: OnceLock<Arc<Replica>>,
    pub(crate) report: Mutex<Report>,
    /// Answered whenever this node takes an identity.
    pub(crate) identity_taken: tokio::sync::Notify,
    /// Held while an identity is taken: one offer at a time.
    pub(crate) taking: tokio::sync::Mutex<()>,
    identity: RwLock<Option<Identity>>,
    /// Whether the log has a vote or an entry; unknown until it is open.
    history: watch::Sender<Option<bool>>,
    known: Mutex<BTreeMap<u64, Known>>,
    phase: watch::Sender<Phase>,
}

/// What is known of another node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    boot: u64,
    nonce: u64,
    heard: Option<Instant>,
    refused: bool,
    pub(crate) ping: Option<Ping>,
    clock: Option<ClockOffset>,
}

impl Known {
    /// Whether it answered lately.
    pub(crate) fn is_reachable(&self) -> bool {
        !self.refused && self.heard.is_some_and(|at| at.elapsed() < REACHABLE_FOR)
    }

    /// How far its clock is ahead, while that was measured lately.
    pub(crate) fn clock_offset(&self) -> Option<ClockOffset> {
        self.clock
            .filter(|offset| offset.seen.elapsed() < REACHABLE_FOR)
    }
}

impl Local {
    pub(crate) fn new(
        settings: Settings,
        folder: Folder,
        identity: Option<Identity>,
        boot: u64,
        nonce: u64,
        transport: Transport,
    ) -> Self {
        let (history, _) = watch::channel(None);
        let (phase, _) = watch::channel(Phase::Waiting {
            reason: "starting".to_owned(),
        });
        Self {
            settings,
            folder,
            boot,
            nonce,
            transport,
            replica: OnceLock::new(),
            report: Mutex::default(),
            identity_taken: tokio::sync::Notify::new(),
            taking: tokio::sync::Mutex::default(),
            identity: RwLock::new(identity),
            history,
            known: Mutex::default(),
            phase,
        }
    }

    /// Where this node is in its life.
    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Moves on, unless it is over already.
    pub(crate) fn set_phase(&self, next: Phase) {
        self.phase.send_if_modified(|phase| {
            let moves = !matches!(phase, Phase::Stopped(_)) && *phase != next;
            if moves {
                *phase = next;
            }
            moves
        });
    }

    /// Ends this node. A folder that must not be used again is marked.
    pub(crate) fn stop(&self, stop: Stop) {
        if matches!(stop.code, "node-removed" | "stale-folder")
            && let Err(error) = self.folder.mark_refused(&stop)
        {
            tracing::error!(%error, "the folder could not be marked as refused");
        }
        self.set_phase(Phase::Stopped(stop));
    }

    /// Whether this node is over.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Stopped(_))
    }

    /// This node's identity, once it has one.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.identity
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Stores an identity, on the disk first, unless this node has one already: returns the one
    /// that it has then.
    pub(crate) fn take_identity(&self, identity: Identity) -> std::io::Result<Identity> {
        let mut own = self
            .identity
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = &*own {
            return Ok(own.clone());
        }
        self.folder.write_identity(&identity)?;
        *own = Some(identity.clone());
        drop(own);
        self.identity_taken.notify_waiters();
        Ok(identity)
    }

    /// Notes that the cluster is founded: from now on an empty log of this folder is a lost one.
    pub(crate) fn finish_founding(&self) -> std::io::Result<()> {
        let mut own = self
            .identity
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = &mut *own {
            own.founder = false;
            self.folder.write_identity(own)?;
        }
        Ok(())
    }

    /// Records what the opened log holds.
    pub(crate) fn found_history(&self, any: bool) {
        self.history.send_replace(Some(any));
    }

    /// Whether this node has a vote or an entry; `None` until its log is open.
    pub(crate) fn has_history(&self) -> Option<bool> {
        match self.replica.get() {
            Some(replica) => Some(replica.has_history()),
            None => *self.history.borrow(),
        }
    }

    /// As `has_history`, once it is known.
    pub(crate) async fn history_known(&self) -> bool {
        let mut history = self.history.subscribe();
        let _ = history.wait_for(Option::is_some).await;
        self.has_history().unwrap_or(true)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u64, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of one node.
    pub(crate) fn peer(&self, node: u64) -> Known {
        self.known().get(&node).cloned().unwrap_or_default()
    }

    /// The greatest boot number seen of a node, where a start with these numbers is not the latest.
    pub(crate) fn superseded_by(&self, node: u64, boot: u64, nonce: u64) -> Option<u64> {
        let known = self.known();
        let seen = known.get(&node)?;
        let latest = boot > seen.boot || (boot, nonce) == (seen.boot, seen.nonce);
        (!latest).then_some(seen.boot)
    }

    /// Remembers a start of a member.
    fn note_start(&self, envelope: &Envelope) {
        let node = envelope.from;
        let is_member = self
            .replica
            .get()
            .is_some_and(|replica| replica.member(node).is_some())
            || self
                .identity()
                .is_some_and(|own| own.members.iter().any(|member| member.node == node));
        if is_member {
            let mut known = self.known();
            let seen = known.entry(node).or_default();
            if envelope.boot > seen.boot {
                (seen.boot, seen.nonce) = (envelope.boot, envelope.nonce);
            }
        }
    }

    /// Records that a node answered.
    pub(crate) fn heard(&self, node: u64, ping: Option<Ping>) {
        let mut known = self.known();
        let seen = known.entry(node).or_default();
        seen.heard = Some(Instant::now());
        seen.refused = false;
        if ping.is_some() {
            seen.ping = ping;
        }
    }

    /// Records how far a node's clock is ahead.
    pub(crate) fn saw_clock(&self, node: u64, offset: ClockOffset) {
        self.known().entry(node).or_default().clock = Some(offset);
    }

    /// Records that a node's port is closed.
    pub(crate) fn found_closed(&self, node: u64) {
        self.known().entry(node).or_default().refused = true;
    }

    /// The envelope for a message to `to`; `None` before this node has an identity.
    pub(crate) fn envelope(&self, to: u64) -> Option<Envelope> {
        let identity = self.identity.read().unwrap_or_else(PoisonError::into_inner);
        identity.as_ref().map(|identity| Envelope {
            protocol: messages::PROTOCOL,
            cluster_id: identity.cluster_id.clone(),
            from: identity.node,
            to,
            boot: self.boot,
            nonce: self.nonce,
        })
    }

    /// Checks the envelope of a message that came in.
    pub(crate) fn accept(&self, envelope: &Envelope) -> Result<(), Rejection> {
        let refuse = |code, detail: String| Err(Rejection::new(code, detail));
        if self.is_stopped() {
            return refuse(RejectionCode::NotRunning, "this node is stopping".into());
        }
        let Some(own) = self.envelope(envelope.from) else {
            return refuse(
                RejectionCode::NotRunning,
                "this node has no identity yet".into(),
            );
        };
        if envelope.protocol != messages::PROTOCOL {
            let detail = format!("peers' protocol {} is not known here", envelope.protocol);
            return refuse(RejectionCode::Malformed, detail);
        }
        if envelope.cluster_id != own.cluster_id {
            let detail = format!("this node is of cluster {}", own.cluster_id);
            return refuse(RejectionCode::WrongCluster, detail);
        }
        if envelope.to != own.from {
            let detail = format!("this is node {}, not {}", own.from, envelope.to);
            return refuse(RejectionCode::WrongTarget, detail);
        }
        if self
            .replica
            .get()
            .is_some_and(|replica| replica.is_removed(envelope.from))
        {
            let detail = format!("node {} was removed from the cluster", envelope.from);
            return refuse(RejectionCode::Removed, detail);
        }
        if let Some(boot) = self.superseded_by(envelope.from, envelope.boot, envelope.nonce) {
            let detail = format!("start {boot} of node {} was seen", envelope.from);
            return refuse(RejectionCode::StaleBoot, detail);
        }
        if self.peer(envelope.from).boot < envelope.boot {
            self.note_start(envelope);
        }
        Ok(())
    }

    /// Sends a message to a node and reads its answer; both envelopes are checked.
    pub(crate) async fn call<M, R>(
        &self,
        link: Link,
        (to, addr): (u64, &str),
        path: &str,
        message: M,
        timeout: Duration,
    ) -> Result<R, CallError>
    where
        M: Serialize + DeserializeOwned,
        R: Serialize + DeserializeOwned,
    {
        let Some(envelope) = self.envelope(to) else {
            return Err(CallError::Unsent(
                "this node has no identity yet".to_owned(),
            ));
        };
        let body = records::encode(&Sealed { envelope, message })
            .map_err(|e| CallError::Unsent(e.to_string()))?;
        let answer = self.transport.post(link, addr, path, body, timeout).await;
        self.open(to, answer)
    }

    /// Opens an answer, and draws the consequences of a rejection.
    pub(crate) fn open<R: Serialize + DeserializeOwned>(
        &self,
        to: u64,
        answer: Result<bytes::Bytes, CallError>,
    ) -> Result<R, CallError> {
        match answer {
            Ok(bytes) => {
                let sealed: Sealed<R> =
                    records::decode(&bytes).map_err(|e| CallError::Broken(e.to_string()))?;
                if sealed.envelope.from != to {
                    let detail = format!("node {} answered for {to}", sealed.envelope.from);
                    return Err(CallError::Broken(detail));
                }
                // The peer did take the message: a reply that is not taken here leaves it open what
                // came of that.
                self.accept(&sealed.envelope)
                    .map_err(|e| CallError::Broken(e.to_string()))?;
                self.heard(to, None);
                Ok(sealed.message)
            }
            Err(error) => {
                match &error {
                    CallError::Refused => self.found_closed(to),
                    CallError::Rejected(rejection) => self.consider(rejection),
                    CallError::Unsent(_) | CallError::Broken(_) => {}
                }
                Err(error)
            }
        }
    }

    /// A rejection that says that this node is over ends it.
    fn consider(&self, rejection: &Rejection) {
        match rejection.code {
            RejectionCode::Removed => self.stop(removed(&self.settings.name)),
            RejectionCode::StaleBoot => self.stop(stale(&self.settings.name, &rejection.detail)),
            _ => {}
        }
    }
}

/// The end of a node that was removed.
pub(crate) fn removed(name: &str) -> Stop {
    folder::refusal(
        "node-removed",
        format!(
            "this node was removed from the cluster and its folder is of no further use; to bring \
             the machine back, empty the folder, start seqd, and run `seqd member add {name} \
             HOST:PORT`"
        ),
    )
}

/// The end of a node whose folder is an older copy, or that has a twin.
pub(crate) fn stale(name: &str, detail: &str) -> Stop {
    folder::refusal(
        "stale-folder",
        format!(
            "this folder is a copy of one that was started later ({detail}); it must not vote. \
             Use the latest folder of this node; if it is lost, run `seqd member remove {name}`, \
             empty this folder and add the node again"
        ),
    )
}
