//! A state of the model: the replicated state, the processes, the messages in flight, and the
//! ledger.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use seqd_idgen::WallMs;
use seqd_state::{GrantToken, LeaseId, SequenceName, State, row_hash};

use super::ask::{Answer, Origin, Proposal};
use super::ledger::Ledger;
use super::minting::Kept;
use super::scene::{Left, SEQUENCE, Scene};

/// The applied state. All states of the model that have it share it, and it is compared by its
/// rows.
#[derive(Clone)]
pub(super) struct Replicated {
    pub(super) state: Arc<State>,
    rows: u128,
}

impl Replicated {
    /// The row of the clock counts only until a backup is saved: only a restore reads its wall
    /// time, and its cluster time is never above that of the next entry.
    pub(super) fn new(state: State, with_clock: bool) -> Self {
        let rows = state.rows().filter(|(key, _)| with_clock || key != b"b");
        let rows = rows.map(|(key, value)| row_hash(&key, &value));
        Self {
            rows: rows.fold(0, u128::wrapping_add),
            state: Arc::new(state),
        }
    }
}

impl PartialEq for Replicated {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows
    }
}

impl Hash for Replicated {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.rows.hash(hasher);
    }
}

impl fmt::Debug for Replicated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rows {:032x}", self.rows)
    }
}

/// A proposal whose answer a process waits for.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct Waiting {
    pub(super) proposal: Proposal,
    /// Set when the proposal is committed, while the answer is in flight.
    pub(super) answer: Option<Answer>,
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct Holder {
    pub(super) lease: LeaseId,
    pub(super) kept: Kept,
    /// `true` if the holder's release was proposed.
    pub(super) leaving: bool,
}

/// A granted range of the sequence, and its next value to use.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct Segment {
    pub(super) token: GrantToken,
    pub(super) next: u64,
    pub(super) end: u64,
}

/// A start of a node, or the external generator.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct Process {
    pub(super) origin: Origin,
    pub(super) is_twin: bool,
    /// The offset of the process's clock from the time.
    pub(super) off_ms: i64,
    /// `true` if the process has received the registration of its start. An external generator
    /// needs none.
    pub(super) started: bool,
    pub(super) down: bool,
    pub(super) waiting: Option<Waiting>,
    pub(super) holder: Option<Holder>,
    /// The reading of the clock by a stopped thread.
    pub(super) reading: Option<WallMs>,
    pub(super) segment: Option<Segment>,
}

impl Process {
    pub(super) fn new(origin: Origin) -> Self {
        Self {
            started: origin.node.is_none(),
            origin,
            is_twin: false,
            off_ms: 0,
            down: false,
            waiting: None,
            holder: None,
            reading: None,
            segment: None,
        }
    }

    pub(super) fn clock(&self, now: u64) -> WallMs {
        WallMs(now.saturating_add_signed(self.off_ms))
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let twin = if self.is_twin { "the twin of " } else { "" };
        write!(f, "{twin}{}", self.origin)
    }
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct World {
    /// The time, in milliseconds.
    pub(super) now: u64,
    pub(super) replicated: Replicated,
    pub(super) backup: Option<Replicated>,
    /// The nodes, the external generator, and the twin.
    pub(super) processes: Vec<Process>,
    /// Proposals in flight that no process waits for any more, sorted.
    pub(super) strays: Vec<Proposal>,
    pub(super) ledger: Ledger,
    /// The number of processes so far.
    pub(super) nonces: u64,
    pub(super) left: Left,
}

impl World {
    /// The possible readings of a leader's clock: those of the nodes, and those of others that only
    /// lead.
    pub(super) fn leaders(&self, scene: &Scene) -> BTreeSet<WallMs> {
        let nodes = self.processes.iter();
        let nodes = nodes.filter(|process| process.origin.node.is_some() && !process.down);
        let clocks = nodes.map(|node| node.clock(self.now));
        let others = scene.leaders_off_ms.iter();
        let others = others.map(|off_ms| WallMs(self.now.saturating_add_signed(*off_ms)));
        clocks.chain(others).collect()
    }

    pub(super) fn is_unstamped(&self) -> bool {
        let restoration = self.replicated.state.restoration();
        restoration.is_some_and(|record| !record.stamped)
    }

    /// The next index of the sequence to grant.
    pub(super) fn mark(&self) -> u64 {
        let name = SequenceName::new(SEQUENCE).expect("a name");
        let sequence = self.replicated.state.sequence(&name);
        sequence.map_or(0, |record| record.next_index)
    }

    pub(super) fn stray(&mut self, proposal: Proposal) {
        self.strays.push(proposal);
        self.strays.sort_unstable();
    }

    /// Removes everything on which nothing depends any more.
    pub(super) fn settle(&mut self) {
        let processes = self.processes.iter();
        let held = processes.flat_map(|process| {
            let answer = process.waiting.as_ref().and_then(|waiting| waiting.answer);
            let granted = match answer {
                Some(Answer::Leased { lease, .. }) => Some(lease),
                _ => None,
            };
            let holder = process.holder.as_ref().map(|holder| holder.lease);
            [granted, holder].into_iter().flatten()
        });
        let held: BTreeSet<LeaseId> = held.collect();
        self.ledger.forget_all_but(&held);
    }
}
