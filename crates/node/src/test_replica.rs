//! A replica for unit tests: the real state machine without a log, a clock that tests set, and a
//! quorum that tests can remove.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seqd_idgen::{ClockPolicy, WallClock, WallMs};
use seqd_raft::{DrawError, ProposeError, Turn, Turns};
use seqd_state::{
    ClusterCommand, ClusterMs, Command, Draw, DrawFrom, DrawResult, Entry, Found, NodeId, Outcome,
    Restoration, Stamp, State, Wait, Windows,
};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::minting::{ClockWatch, Keeper};
use crate::replica::{Answer, Drawing, Progress, Replica, STATE_WAIT, no_state};

/// 2026-11-21T02:26:41.118Z, well inside the default layout.
pub(crate) const NOON: u64 = 1_795_228_001_118;

#[derive(Debug)]
pub(crate) struct TestClock {
    ms: AtomicU64,
    /// The next reading alone is behind by this many milliseconds.
    stale_ms: AtomicU64,
}

impl TestClock {
    pub(crate) fn at(ms: u64) -> Arc<TestClock> {
        Arc::new(TestClock {
            ms: AtomicU64::new(ms),
            stale_ms: AtomicU64::new(0),
        })
    }

    pub(crate) fn set(&self, ms: u64) {
        self.ms.store(ms, Ordering::SeqCst);
    }

    /// Lets the next reading appear as that of a thread that was stopped after it.
    pub(crate) fn read_once_behind(&self, ms: u64) {
        self.stale_ms.store(ms, Ordering::SeqCst);
    }

    pub(crate) fn step(&self, ms: i64) {
        let now = self.ms.load(Ordering::SeqCst);
        self.set(now.saturating_add_signed(ms));
    }

    /// Advances the clock with the monotonic time until the task is aborted.
    pub(crate) fn ticking(self: &Arc<Self>) -> JoinHandle<()> {
        let clock = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                sleep(Duration::from_millis(1)).await;
                clock.step(1);
            }
        })
    }
}

impl WallClock for TestClock {
    fn wall(&self) -> WallMs {
        let stale_ms = self.stale_ms.swap(0, Ordering::SeqCst);
        WallMs(self.ms.load(Ordering::SeqCst) - stale_ms)
    }
}

/// A founded cluster of one registered node.
pub(crate) struct TestReplica {
    state: Mutex<State>,
    pub(crate) clock: Arc<TestClock>,
    started: Instant,
    pub(crate) has_quorum: AtomicBool,
    /// True if reads succeed while there is a quorum.
    pub(crate) can_read: AtomicBool,
    /// True if an entry brings the time of each read, as that of a leader that can commit.
    pub(crate) commits_time: AtomicBool,
    /// True if the node has a state, which is missing at the beginning of a start.
    pub(crate) has_state: AtomicBool,
    proposals: AtomicU64,
    /// Committed commands that this node applies at its next read.
    unapplied: Mutex<Vec<Command>>,
    /// The outcome of the next proposal, which this node applies at its next read.
    pub(crate) outcome: Mutex<Option<Outcome>>,
    /// The other members; none, unless a test sets some.
    pub(crate) progress: Mutex<Progress>,
    pub(crate) turns: Arc<Turns>,
    windows: Mutex<Windows>,
}

pub(crate) const NODE: NodeId = NodeId(1);
const BOOT: u64 = 7;

impl TestReplica {
    pub(crate) fn founded(clock: Arc<TestClock>, window_ms: u64) -> Arc<TestReplica> {
        let replica = TestReplica {
            state: Mutex::new(State::new()),
            clock,
            started: Instant::now(),
            has_quorum: AtomicBool::new(true),
            can_read: AtomicBool::new(true),
            commits_time: AtomicBool::new(true),
            has_state: AtomicBool::new(true),
            proposals: AtomicU64::new(0),
            unapplied: Mutex::default(),
            outcome: Mutex::default(),
            progress: Mutex::default(),
            turns: Arc::default(),
            windows: Mutex::default(),
        };
        let outcomes = replica.apply(vec![
            Command::Cluster(ClusterCommand::Found(Found {
                cluster_id: "test".to_owned(),
                window_ms,
                max_peer_skew_ms: 500,
                founders: vec![(NODE, "n1".to_owned())],
            })),
            Command::Cluster(ClusterCommand::RegisterStart {
                node: NODE,
                boot: BOOT,
                nonce: 1,
            }),
        ]);
        let is_refused = |outcome: &Outcome| matches!(outcome, Outcome::Refused(_));
        assert!(!outcomes.iter().any(is_refused), "{outcomes:?}");
        Arc::new(replica)
    }

    /// Applies commands at once, even without a quorum.
    pub(crate) fn apply(&self, commands: Vec<Command>) -> Vec<Outcome> {
        let cluster_ms = ClusterMs(self.started.elapsed().as_millis() as u64);
        let stamp = Stamp {
            wall_ms: self.clock.wall(),
            cluster_ms,
        };
        let mut state = self.state.lock().unwrap();
        let outcomes = state.apply(&Entry { stamp, commands }, None);
        self.turns.wake(state.ended_waits());
        outcomes
    }

    /// Commits a command that was proposed at another node. This node applies it at its next read.
    pub(crate) fn commit_unapplied(&self, command: Command) {
        self.unapplied.lock().unwrap().push(command);
    }

    /// Replaces the state by that of another cluster, like the restore of a backup.
    pub(crate) fn restore(&self) {
        let restoration = Restoration {
            cluster_id: "restored".to_owned(),
            founder: "n1".to_owned(),
            ancestors: Vec::new(),
            floors: BTreeMap::new(),
            margin: Some(1000),
            written: None,
        };
        self.state.lock().unwrap().restore(&restoration).unwrap();
    }

    /// The keeper of this cluster's node.
    pub(crate) fn keeper(self: &Arc<Self>, clock: &Arc<ClockWatch>, policy: ClockPolicy) -> Keeper {
        let state = self.state.lock().unwrap();
        Keeper {
            replica: self.clone(),
            clock: Arc::clone(clock),
            policy,
            owner: "n1".to_owned(),
            datacenter: 0,
            window_ms: state.settings().unwrap().window_ms,
            workers: 1,
            drained: Arc::default(),
            seed: 1,
        }
    }

    /// The number of proposals.
    pub(crate) fn proposals(&self) -> u64 {
        self.proposals.load(Ordering::SeqCst)
    }

    pub(crate) fn set_quorum(&self, has_quorum: bool) {
        self.has_quorum.store(has_quorum, Ordering::SeqCst);
    }
}

fn no_quorum() -> ProposeError {
    ProposeError::NoQuorum {
        detail: "1 of 3 voters reachable".to_owned(),
    }
}

impl Replica for TestReplica {
    fn propose(&self, commands: Vec<Command>, deadline: Instant) -> Answer<'_, Vec<Outcome>> {
        Box::pin(async move {
            // A proposal waits for a leader until its deadline.
            while let Err(no_state) = self.look(&mut |_| ()) {
                if Instant::now() >= deadline {
                    return Err(no_state);
                }
                sleep(STATE_WAIT).await;
            }
            self.proposals.fetch_add(1, Ordering::SeqCst);
            // A round of consensus takes time.
            sleep(Duration::from_millis(1)).await;
            if let Some(outcome) = self.outcome.lock().unwrap().take() {
                self.unapplied.lock().unwrap().extend(commands);
                return Ok(vec![outcome]);
            }
            if self.has_quorum.load(Ordering::SeqCst) {
                return Ok(self.apply(commands));
            }
            Err(no_quorum())
        })
    }

    fn read(&self, _: Instant) -> Answer<'_, ClusterMs> {
        Box::pin(async move {
            if self.has_quorum.load(Ordering::SeqCst) && self.can_read.load(Ordering::SeqCst) {
                let unapplied = std::mem::take(&mut *self.unapplied.lock().unwrap());
                if self.commits_time.load(Ordering::SeqCst) || !unapplied.is_empty() {
                    self.apply(unapplied);
                }
                return Ok(ClusterMs(self.started.elapsed().as_millis() as u64));
            }
            Err(no_quorum())
        })
    }

    fn draw(&self, draw: Draw, _: Instant) -> Drawing<'_> {
        Box::pin(async move {
            if !self.has_quorum.load(Ordering::SeqCst) {
                return Err(DrawError::Propose(no_quorum()));
            }
            let mut windows = self.windows.lock().unwrap();
            let now = self.clock.wall();
            assert!(windows.begin(1));
            loop {
                let wanted = {
                    let state = self.state.lock().unwrap();
                    let ms = match draw.from {
                        DrawFrom::Timestamps => windows.timestamps_wait_ms(&state, draw.count, now),
                        DrawFrom::Sequence(_) => 0,
                    };
                    if ms > 0 {
                        return Err(DrawError::Ahead { ms });
                    }
                    let drawn = windows.draw(&state, &draw, now);
                    if let DrawResult::Drawn(drawn) = drawn.map_err(DrawError::Refused)? {
                        return Ok(drawn);
                    }
                    windows.wanted(&state, &draw, (now, ClusterMs(0))).unwrap()
                };
                let outcomes = self.apply(vec![wanted.clone()]);
                windows.granted(1, &wanted, &outcomes[0], ClusterMs(0));
            }
        })
    }

    fn progress(&self) -> Progress {
        self.progress.lock().unwrap().clone()
    }

    fn look(&self, at: &mut dyn FnMut(&State)) -> Result<(), ProposeError> {
        if !self.has_state.load(Ordering::SeqCst) {
            return Err(no_state());
        }
        at(&self.state.lock().unwrap());
        Ok(())
    }

    fn is_in_touch(&self) -> bool {
        self.has_quorum.load(Ordering::SeqCst)
    }

    fn without_leader(&self) -> Option<ProposeError> {
        (!self.is_in_touch()).then(no_quorum)
    }

    fn wait_for_turn(&self, wait: Wait) -> Option<Turn> {
        let has_state = self.has_state.load(Ordering::SeqCst);
        has_state.then(|| self.turns.register(wait))
    }

    fn started(&self) -> Option<(NodeId, u64)> {
        Some((NODE, BOOT))
    }
}
