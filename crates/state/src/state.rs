//! The replicated state and its reads. A read sees the state at the applied entry and cluster time.

use std::ops::Bound;

use seqd_idgen::{Layout, Tick, WallMs, WorkerId};

use crate::access::{AccessCommand, AccessOutcome, AccessRecord};
use crate::cluster::nodes::NodeRecord;
use crate::cluster::restoration::RestorationRecord;
use crate::cluster::secret::SecretKey;
use crate::cluster::settings::{Clock, Settings};
use crate::context::ApplyContext;
use crate::deadlines::Deadlines;
use crate::domains::{Outcome, Refusal};
use crate::keys::record::{KeyName, KeyRecord};
use crate::layouts::DEFAULT;
use crate::layouts::commands::{LayoutCommand, LayoutOutcome};
use crate::level::Level;
use crate::locks::tally::LockTally;
use crate::newtypes::{AccessId, ClusterMs, LeaseId, NodeId, SequenceName};
use crate::sequences::commands::SequenceCommand;
use crate::sequences::record::SequenceRecord;
use crate::table::Table;
use crate::tables::Tables;
use crate::tenant::Holdings;
use crate::tokens::record::{OneTimeId, OneTimeRecord};
use crate::workers::commands::Holder;
use crate::workers::past::PastIndex;
use crate::workers::record::{LeaseView, WorkerKey, WorkerRecord, is_live, ms_until_free};
use crate::workers::room::LayoutUse;

/// The lease holder that may have minted an ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The holder of the worker in the ID's tick.
    Held(Box<Holder>),
    /// No lease had the worker in that tick, so no generator of this cluster minted the ID.
    Nobody,
    /// The tick lies before the time from which all leases are recorded.
    Unknown {
        /// `None` if no time is known to be covered.
        known_from: Option<WallMs>,
    },
}

#[derive(Debug, Clone, Default)]
pub struct State {
    pub(crate) tables: Tables,
    /// Derived from the tables, like the index of past leases and the tally of locks.
    pub(crate) deadlines: Deadlines,
    pub(crate) past_index: PastIndex,
    pub(crate) lock_tally: LockTally,
}

impl State {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Computes the parts that are derived from the tables.
    pub(crate) fn derive(&mut self) {
        let layouts = &self.tables.layouts;
        self.lock_tally = LockTally::of(&self.tables.locks);
        self.past_index = PastIndex::of(&self.tables.past_leases, |name, tick| {
            let layout = layouts.named(name);
            layout.map_or(WallMs(0), |layout| layout.wall_at(tick))
        });
        let deadlines = self
            .context()
            .map(|context| self.tables.deadlines(&context));
        self.deadlines = deadlines.unwrap_or_default();
    }

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

    /// The wall clock of the last applied entry.
    #[must_use]
    pub fn last_wall_ms(&self) -> WallMs {
        WallMs(self.clock().wall_ms)
    }

    /// The cluster time at which the next record expires.
    #[must_use]
    pub fn next_deadline(&self) -> Option<ClusterMs> {
        self.deadlines.next()
    }

    /// The last millisecond whose timestamps were granted to a leader; 0 if none was.
    #[must_use]
    pub fn timestamp_bound(&self) -> WallMs {
        self.tables.timestamp_bound()
    }

    /// Adds a layout to the state. For models, which need a layout with few ticks.
    #[must_use]
    pub fn with_layout(mut self, layout: Layout) -> Self {
        self.tables.layouts.add(layout);
        self
    }

    #[must_use]
    pub fn layout(&self, name: &str) -> Option<&Layout> {
        self.tables.layouts.named(name)
    }

    pub fn layouts(&self) -> impl Iterator<Item = &Layout> {
        self.tables.layouts.all()
    }

    /// Returns all members by ID, removed ones included.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeRecord)> {
        self.tables.nodes.iter().map(|(id, record)| (*id, record))
    }

    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&NodeRecord> {
        self.tables.nodes.get(&id)
    }

    /// Returns the number of the latest reset of a member's workers, if there was one.
    #[must_use]
    pub fn reset_of(&self, id: NodeId) -> Option<u64> {
        self.tables.resets.get(&id).map(|record| record.number)
    }

    #[must_use]
    pub fn is_removed(&self, id: NodeId) -> bool {
        self.node(id).is_some_and(|record| record.removed)
    }

    /// Returns all workers that were ever leased, with their latest leases, by layout and number.
    pub fn leases(&self) -> impl Iterator<Item = LeaseView<'_>> {
        self.tables.workers.iter().filter_map(|(key, record)| {
            let context = self.context()?;
            Some(self.tables.workers.view(&context, key, record))
        })
    }

    /// Returns the latest lease of each worker of one layout, live or not.
    pub fn leases_of<'a>(&'a self, layout: &'a str) -> impl Iterator<Item = LeaseView<'a>> {
        let parts = self.context().zip(self.layout(layout));
        let first = WorkerKey {
            layout: layout.to_owned(),
            worker: WorkerId(0),
        };
        let workers = self.tables.workers.range(first..);
        let workers = workers.take_while(move |(key, _)| key.layout == layout);
        workers.filter_map(move |(key, record)| {
            let (context, definition) = parts.as_ref()?;
            Some(LeaseView {
                layout,
                worker: key.worker,
                record,
                live: is_live(context, definition, record),
            })
        })
    }

    /// Returns the layouts in use: the default one first, and those of which a worker is leased or
    /// was leased within the last week, by name.
    #[must_use]
    pub fn layouts_in_use(&self) -> Vec<LayoutUse> {
        let in_use = self.layouts().filter_map(|layout| {
            let leases: Vec<_> = self.leases_of(layout.name()).collect();
            let is_leased = leases
                .iter()
                .any(|lease| lease.is_in_use(self.cluster_ms()));
            (is_leased || layout.name() == DEFAULT).then(|| LayoutUse::of(layout, &leases))
        });
        let mut in_use: Vec<_> = in_use.collect();
        in_use.sort_by_key(|one| one.layout.name() != DEFAULT);
        in_use
    }

    /// Returns the milliseconds until the worker of a lease can be granted, by the applied times
    /// and provided that the lease is not renewed; 0 if the worker is free.
    #[must_use]
    pub fn ms_until_free(&self, lease: &LeaseView<'_>) -> u64 {
        let parts = self.context().zip(self.layout(lease.layout));
        let wait_ms = parts.and_then(|(context, layout)| {
            let tick = layout.tick_at(context.wall_ms).ok()?;
            Some(ms_until_free(&context, layout, tick, lease.record))
        });
        wait_ms.unwrap_or(0)
    }

    /// Returns the ended leases after `after` whose workers were granted again, by lease ID, with
    /// layout, worker and holder.
    pub fn past_leases(&self, after: LeaseId) -> impl Iterator<Item = (&str, WorkerId, Holder)> {
        let after = (Bound::Excluded(after), Bound::Unbounded);
        let past = self.tables.past_leases.range(after);
        past.map(|(lease, past)| (past.layout.as_str(), past.worker, past.holder(*lease)))
    }

    /// Returns a worker's latest lease, live or not.
    #[must_use]
    pub fn worker(&self, layout: &str, worker: WorkerId) -> Option<&WorkerRecord> {
        let layout = layout.to_owned();
        self.tables.workers.get(&WorkerKey { layout, worker })
    }

    /// Returns the holder that may have minted an ID with this worker and tick.
    #[must_use]
    pub fn origin(&self, layout: &Layout, worker: WorkerId, tick: Tick) -> Origin {
        let key = WorkerKey {
            layout: layout.name().to_owned(),
            worker,
        };
        let latest = self.tables.workers.get(&key);
        let latest = latest.filter(|latest| (latest.from_tick..latest.fence).contains(&tick));
        let past = || {
            let past = &self.tables.past_leases;
            past.holder_at(&self.past_index, &key, tick)
        };
        let known_from = self.leases_known_from(layout);
        let at = layout.wall_at(tick);
        // After the backup of a restored cluster was taken, the old cluster may have granted the
        // worker to another holder.
        let is_in_doubt = self.restoration().is_some_and(|restored| {
            at > restored.backup_wall_ms && known_from.is_none_or(|known_from| at < known_from)
        });
        if let Some(holder) = latest.map(Holder::of).or_else(past)
            && !is_in_doubt
        {
            return Origin::Held(Box::new(holder));
        }
        match known_from {
            Some(known_from) if at >= known_from => Origin::Nobody,
            known_from => Origin::Unknown { known_from },
        }
    }

    /// Returns the time from which every lease of a layout is recorded. Returns `None` if there is
    /// no such time, as in a restored cluster whose start is not stamped yet.
    #[must_use]
    pub fn leases_known_from(&self, layout: &Layout) -> Option<WallMs> {
        let start = self.tables.past_start.get(&())?;
        let Some(restored) = self.restoration() else {
            return Some(start.known_from);
        };
        // The grants that the old cluster made after the backup are unknown.
        let begins = restored.windows_from(self.settings()?, layout);
        let begins = restored.stamped.then(|| layout.wall_at(begins))?;
        Some(begins.max(start.known_from))
    }

    /// Returns a sequence unless it was deleted.
    #[must_use]
    pub fn sequence(&self, name: &SequenceName) -> Option<&SequenceRecord> {
        self.tables.sequences.existing(name)
    }

    #[must_use]
    pub fn sequence_or_deleted(&self, name: &SequenceName) -> Option<&SequenceRecord> {
        self.tables.sequences.get(name)
    }

    /// Returns the outcome that a command would have, and the sequence after it. The state does not
    /// change: the command is applied to a copy of its sequence.
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

    /// Returns the cluster's secret, if it has one yet.
    #[must_use]
    pub fn secret(&self) -> Option<SecretKey> {
        self.tables.secret.get(&()).map(|secret| secret.key)
    }

    /// Returns a token by its ID, expired or not.
    #[must_use]
    pub fn access(&self, id: AccessId) -> Option<&AccessRecord> {
        self.tables.access.get(&id)
    }

    /// Returns all tokens by ID.
    pub fn tokens(&self) -> impl Iterator<Item = (AccessId, &AccessRecord)> {
        self.tables.access.iter().map(|(id, record)| (*id, record))
    }

    /// Returns a key unless it has expired.
    #[must_use]
    pub fn key(&self, name: &KeyName) -> Option<&KeyRecord> {
        self.tables.keys.live(name, self.cluster_ms())
    }

    /// Returns the keys from a name on, in the order of names, users' keys before those of
    /// requests. Includes expired keys that have not been dropped yet.
    pub fn keys_from(&self, from: Bound<KeyName>) -> impl Iterator<Item = (&KeyName, &KeyRecord)> {
        self.tables.keys.range((from, Bound::Unbounded))
    }

    /// Returns the number of keys, including expired keys that have not been dropped yet.
    #[must_use]
    pub fn keys_count(&self) -> usize {
        self.tables.keys.len()
    }

    /// Returns the cost of all keys, in bytes.
    #[must_use]
    pub fn key_bytes(&self) -> u64 {
        self.keys_held().all().bytes
    }

    /// Returns the holdings of tenants in keys, both users' keys and those of requests.
    #[must_use]
    pub fn keys_held(&self) -> &Holdings {
        self.tables.keys.holdings()
    }

    /// Returns the holdings of tenants in one-time tokens.
    #[must_use]
    pub fn one_time_held(&self) -> &Holdings {
        self.tables.one_time.holdings()
    }

    /// Returns the holdings of tenants in locks. Each holder and each waiter counts as one.
    #[must_use]
    pub fn locks_held(&self) -> &Holdings {
        self.tables.locks.holdings()
    }

    /// Returns the holdings of tenants in sequences, deleted ones included.
    #[must_use]
    pub fn sequences_held(&self) -> &Holdings {
        self.tables.sequences.holdings()
    }

    /// Returns a one-time token, used or not, unless it has expired.
    #[must_use]
    pub fn one_time(&self, id: OneTimeId) -> Option<&OneTimeRecord> {
        self.tables.one_time.live(id, self.cluster_ms())
    }

    /// Returns the one-time tokens from an ID on, by ID. Includes expired tokens that have not been
    /// dropped yet.
    pub fn one_time_from(
        &self,
        from: Bound<OneTimeId>,
    ) -> impl Iterator<Item = (OneTimeId, &OneTimeRecord)> {
        let tokens = self.tables.one_time.range((from, Bound::Unbounded));
        tokens.map(|(id, record)| (*id, record))
    }

    /// Returns the number of one-time tokens, including used tokens and expired tokens that have
    /// not been dropped yet.
    #[must_use]
    pub fn one_time_count(&self) -> usize {
        self.tables.one_time.len()
    }

    /// Returns the outcome that a change of the layouts would have at this time.
    ///
    /// # Errors
    /// The reason why the change would be refused.
    pub fn try_layout(
        &self,
        wall_ms: WallMs,
        command: &LayoutCommand,
    ) -> Result<LayoutOutcome, Refusal> {
        let mut layouts = self.tables.layouts.clone();
        Ok(layouts.apply(wall_ms, command)?)
    }

    /// Returns the outcome that a change of the tokens would have.
    ///
    /// # Errors
    /// The reason why the change would be refused.
    pub fn try_access(&self, command: &AccessCommand) -> Result<AccessOutcome, Refusal> {
        let mut tokens = self.tables.access.clone();
        tokens.apply(self.last_wall_ms(), command)
    }

    /// Returns the sequences after `after` whose names begin with `prefix`, deleted ones included,
    /// by name.
    pub fn sequences<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a SequenceName>,
    ) -> impl Iterator<Item = (&'a SequenceName, &'a SequenceRecord)> {
        let from = match after {
            Some(after) if after.as_str() >= prefix => Bound::Excluded(after.as_str()),
            _ => Bound::Included(prefix),
        };
        let behind = self.tables.sequences.range::<str>((from, Bound::Unbounded));
        behind.take_while(move |(name, _)| name.as_str().starts_with(prefix))
    }

    #[cfg(feature = "test-next-level")]
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
