//! The replicated state and its reads. A read sees the applied state at the applied time.

use std::ops::Bound;

use seqd_idgen::{Layout, Tick, WallMs, WorkerId};

use crate::access::{AccessCommand, AccessId, AccessOutcome, AccessRecord};
use crate::cluster::nodes::NodeRecord;
use crate::cluster::restoration::RestorationRecord;
use crate::cluster::secret::SecretKey;
use crate::cluster::settings::{Clock, Settings};
use crate::context::ApplyContext;
use crate::deadlines::Deadlines;
use crate::domains::{Outcome, Refusal};
use crate::level::Level;
use crate::newtypes::{ClusterMs, NodeId, SequenceName};
use crate::sequences::commands::SequenceCommand;
use crate::sequences::record::SequenceRecord;
use crate::table::Table;
use crate::tables::Tables;
use crate::workers::commands::Holder;
use crate::workers::record::{LeaseView, WorkerKey};

#[derive(Debug, Clone, Default)]
pub struct State {
    pub(crate) tables: Tables,
    /// Derived from the tables.
    pub(crate) deadlines: Deadlines,
}

impl State {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn find_deadlines(&mut self) {
        let deadlines = self
            .context()
            .map(|context| self.tables.deadlines(&context));
        self.deadlines = deadlines.unwrap_or_default();
    }
}

impl State {
    #[must_use]
    pub fn is_founded(&self) -> bool {
        self.settings().is_some()
    }

    #[must_use]
    pub fn settings(&self) -> Option<&Settings> {
        self.tables.settings.get(&())
    }

    #[must_use]
    pub fn level(&self) -> Level {
        self.tables.level.level()
    }

    #[must_use]
    pub fn restoration(&self) -> Option<&RestorationRecord> {
        self.tables.restoration.get(&())
    }

    #[must_use]
    pub fn cluster_ms(&self) -> ClusterMs {
        self.clock().cluster_ms
    }

    /// The highest wall clock of any applied entry.
    #[must_use]
    pub fn last_wall_ms(&self) -> WallMs {
        WallMs(self.clock().wall_ms)
    }

    /// The cluster time at which the next record expires.
    #[must_use]
    pub fn next_deadline(&self) -> Option<ClusterMs> {
        self.deadlines.next()
    }

    #[must_use]
    pub fn layout(&self, name: &str) -> Option<&Layout> {
        self.tables.layouts.named(name)
    }

    pub fn layouts(&self) -> impl Iterator<Item = &Layout> {
        self.tables.layouts.all()
    }

    /// All members, removed ones included, by ID.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeRecord)> {
        self.tables.nodes.iter().map(|(id, record)| (*id, record))
    }

    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&NodeRecord> {
        self.tables.nodes.get(&id)
    }

    #[must_use]
    pub fn is_removed(&self, id: NodeId) -> bool {
        self.node(id).is_some_and(|record| record.removed)
    }

    /// All workers that were ever leased, with their latest leases, by layout and number.
    pub fn leases(&self) -> impl Iterator<Item = LeaseView<'_>> {
        self.tables.workers.iter().filter_map(|(key, record)| {
            let context = self.context()?;
            Some(self.tables.workers.view(&context, key, record))
        })
    }

    /// A worker's latest lease, live or not.
    fn lease_of(&self, layout: &str, worker: WorkerId) -> Option<LeaseView<'_>> {
        let key = WorkerKey {
            layout: layout.to_owned(),
            worker,
        };
        let (key, record) = self.tables.workers.get_key_value(&key)?;
        Some(self.tables.workers.view(&self.context()?, key, record))
    }

    /// Who may have minted an ID of this worker and tick, if the worker's latest lease covers it.
    /// Earlier leases are not kept.
    #[must_use]
    pub fn holder_at(&self, layout: &str, worker: WorkerId, tick: Tick) -> Option<Holder> {
        let record = self.lease_of(layout, worker)?.record;
        (record.from_tick <= tick && tick < record.fence).then(|| Holder::of(record))
    }

    /// A sequence, unless it was deleted.
    #[must_use]
    pub fn sequence(&self, name: &SequenceName) -> Option<&SequenceRecord> {
        self.tables.sequences.existing(name)
    }

    #[must_use]
    pub fn sequence_or_deleted(&self, name: &SequenceName) -> Option<&SequenceRecord> {
        self.tables.sequences.get(name)
    }

    /// The outcome of a command about a sequence, and the sequence after it. Nothing changes: the
    /// command is applied to a copy of its sequence.
    #[must_use]
    pub fn try_out(&self, command: &SequenceCommand) -> (Outcome, Option<SequenceRecord>) {
        let name = command.name();
        let mut sequences = Table::<SequenceRecord>::default();
        if let Some(record) = self.tables.sequences.get(name) {
            sequences.put(name.clone(), record.clone());
        }
        let mut counter = self.tables.counter.clone();
        let outcome = match sequences.apply(&mut counter, command) {
            Ok(outcome) => Outcome::Sequences(outcome),
            Err(refusal) => Outcome::Refused(refusal),
        };
        (outcome, sequences.get(name).cloned())
    }

    /// The cluster's secret, once it has one.
    #[must_use]
    pub fn secret(&self) -> Option<SecretKey> {
        self.tables.secret.get(&()).map(|secret| secret.key)
    }

    /// A token by its ID, expired or not.
    #[must_use]
    pub fn access(&self, id: AccessId) -> Option<&AccessRecord> {
        self.tables.access.get(&id)
    }

    /// All tokens, by ID.
    pub fn tokens(&self) -> impl Iterator<Item = (AccessId, &AccessRecord)> {
        self.tables.access.iter().map(|(id, record)| (*id, record))
    }

    /// What would become of a change of the tokens.
    ///
    /// # Errors
    /// What it would be refused for.
    pub fn try_access(&self, command: &AccessCommand) -> Result<AccessOutcome, Refusal> {
        let mut tokens = self.tables.access.clone();
        tokens.apply(self.last_wall_ms(), command)
    }

    /// At most `limit` sequences whose names begin with `prefix`, by name, after `after`.
    #[must_use]
    pub fn sequences(
        &self,
        prefix: &str,
        after: Option<&SequenceName>,
        limit: usize,
    ) -> Vec<(&SequenceName, &SequenceRecord)> {
        let from = match after {
            Some(after) if after.as_str() >= prefix => Bound::Excluded(after.as_str()),
            _ => Bound::Included(prefix),
        };
        let behind = self.tables.sequences.range::<str>((from, Bound::Unbounded));
        let matching = behind.take_while(|(name, _)| name.as_str().starts_with(prefix));
        matching
            .filter(|(_, record)| !record.deleted)
            .take(limit)
            .collect()
    }

    #[cfg(any(test, feature = "test-next-level"))]
    #[must_use]
    pub fn note(&self, name: &str) -> Option<&crate::notes::NoteRecord> {
        self.tables.notes.live(name, self.cluster_ms()).ok()
    }

    fn clock(&self) -> Clock {
        self.tables.clock.get(&()).copied().unwrap_or_default()
    }

    fn context(&self) -> Option<ApplyContext<'_>> {
        Some(ApplyContext {
            settings: self.settings()?,
            layouts: &self.tables.layouts,
            nodes: &self.tables.nodes,
            restoration: self.restoration(),
            wall_ms: self.last_wall_ms(),
            cluster_ms: self.cluster_ms(),
        })
    }
}
