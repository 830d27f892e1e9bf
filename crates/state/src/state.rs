//! The replicated state: `apply`, which is its only way to change, and what can be read of it.
//!
//! `apply` is a function of the state and the entry. It reads no clock, draws nothing at random,
//! depends on no hash order and computes no float; it touches maps in memory and no disk. It cannot
//! fail: a refusal is an outcome.

use std::collections::BTreeMap;
use std::ops::Bound;

use seqd_idgen::{Layout, Tick, WallMs, WorkerId};

use crate::command::{Command, MAX_REQUESTS_PER_STRICT_NEXT, NextRequest};
use crate::workers::leases::{Circumstances, Holder, LeaseView, Leases, WorkerKey};
use crate::newtypes::{ClusterMs, NodeId, SequenceName};
use crate::cluster::nodes::{NodeRecord, Nodes, RegisteredStart};
use crate::outcome::Outcome;
use crate::refusal::Refusal;
use crate::cluster::restoration::RestorationRecord;
use crate::sequences::{SequenceRecord, Sequences};
use crate::cluster::settings::{Clock, Counter, Found, Settings, check_founding};
use crate::entry::{Entry, MAX_COMMANDS_PER_ENTRY, Stamp};
use crate::table::Table;

/// Everything that the cluster agrees on.
#[derive(Debug, Clone)]
pub struct State {
    pub(crate) settings: Table<Settings>,
    pub(crate) clock: Table<Clock>,
    pub(crate) counter: Table<Counter>,
    pub(crate) restoration: Table<RestorationRecord>,
    pub(crate) nodes: Nodes,
    pub(crate) leases: Leases,
    pub(crate) sequences: Sequences,
    /// By name. The presets, which are there in every cluster.
    layouts: BTreeMap<String, Layout>,
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    /// The state before the first entry.
    #[must_use]
    pub fn new() -> Self {
        let presets = Layout::presets().into_iter();
        Self {
            settings: Table::default(),
            clock: Table::default(),
            counter: Table::default(),
            restoration: Table::default(),
            nodes: Nodes::default(),
            leases: Leases::default(),
            sequences: Sequences::default(),
            layouts: presets
                .map(|layout| (layout.name().to_owned(), layout))
                .collect(),
        }
    }

    /// Carries out the commands of an entry in order. One outcome for each.
    pub fn apply(&mut self, entry: &Entry) -> Vec<Outcome> {
        self.pass_time(entry.stamp);
        let count = entry.commands.len();
        if count > MAX_COMMANDS_PER_ENTRY {
            let limit = MAX_COMMANDS_PER_ENTRY as u64;
            let refusal = Refusal::TooManyCommands {
                count: count as u64,
                limit,
            };
            return vec![Outcome::Refused(refusal); count];
        }
        let wall_ms = entry.stamp.wall_ms;
        let apply = |command| {
            self.apply_command(wall_ms, command)
                .unwrap_or_else(Outcome::Refused)
        };
        entry.commands.iter().map(apply).collect()
    }

    fn pass_time(&mut self, stamp: Stamp) {
        let clock = self.clock.entry((), Clock::default);
        clock.wall_ms = clock.wall_ms.max(stamp.wall_ms.0);
        clock.cluster_ms = clock.cluster_ms.max(stamp.cluster_ms);
        self.leases.pass_deadlines(clock.cluster_ms);
    }

    fn apply_command(&mut self, wall_ms: WallMs, command: &Command) -> Result<Outcome, Refusal> {
        let cluster_ms = self.cluster_ms();
        self.check_stamped(command)?;
        let Some(settings) = self.settings.get(&()) else {
            return match command {
                Command::Found(found) => self.found(found),
                _ => Err(Refusal::NotFounded),
            };
        };
        let (nodes, layouts) = (&mut self.nodes, &self.layouts);
        let restoration = self.restoration.get(&());
        let (counter, sequences) = (&mut self.counter, &mut self.sequences);
        macro_rules! circumstances {
            () => {
                &Circumstances {
                    settings,
                    layouts,
                    nodes,
                    restoration,
                    wall_ms,
                    cluster_ms,
                }
            };
        }
        match command {
            Command::Found(found) => self.found(found),
            Command::AllocateNodeId(asked) => nodes.allocate(counter, asked),
            Command::RegisterStart { node, boot, nonce } => nodes.register_start(
                *node,
                RegisteredStart {
                    boot: *boot,
                    nonce: *nonce,
                },
            ),
            Command::MarkRemoved { node } => nodes.mark_removed(*node),
            Command::TakeLease(asked) => self.leases.take(counter, circumstances!(), asked),
            Command::ExtendLease {
                layout,
                worker,
                lease,
                fence,
            } => {
                let key = WorkerKey {
                    layout: layout.clone(),
                    worker: *worker,
                };
                self.leases.extend(circumstances!(), &key, *lease, *fence)
            }
            Command::ReleaseLease {
                layout,
                worker,
                lease,
                last_tick,
            } => {
                let key = WorkerKey {
                    layout: layout.clone(),
                    worker: *worker,
                };
                self.leases
                    .release(circumstances!(), &key, *lease, *last_tick)
            }
            Command::CreateSequence { name, definition } => sequences.create(name, definition),
            Command::DeleteSequence { name, if_revision } => sequences.delete(name, *if_revision),
            Command::GrantSegment { name, size, after } => {
                sequences.grant(counter, name, *size, *after)
            }
            Command::ReturnTail {
                name,
                token,
                first_unused,
            } => sequences.return_tail(name, *token, *first_unused),
            Command::Advance { name, to } => sequences.advance(name, *to),
            Command::StrictNext { requests } => self.strict_next(requests),
            Command::StampRestoration { wall_ms } => self.stamp_restoration(*wall_ms),
        }
    }

    fn found(&mut self, found: &Found) -> Result<Outcome, Refusal> {
        let Found {
            cluster_id,
            window_ms,
            max_peer_skew_ms,
            founders,
        } = found.clone();
        let settings = Settings {
            cluster_id,
            window_ms,
            max_peer_skew_ms,
            founders,
        };
        if let Some(existing) = self.settings.get(&()) {
            if *existing == settings {
                return Ok(Outcome::Founded);
            }
            return Err(Refusal::AlreadyFounded {
                cluster_id: existing.cluster_id.clone(),
            });
        }
        check_founding(found)?;
        let highest = found.founders.iter().map(|(id, _)| id.0).max().unwrap_or(0);
        self.counter.put((), Counter { last: highest });
        self.nodes.found(&found.founders);
        self.settings.put((), settings);
        Ok(Outcome::Founded)
    }

    fn strict_next(&mut self, requests: &[NextRequest]) -> Result<Outcome, Refusal> {
        if requests.len() > MAX_REQUESTS_PER_STRICT_NEXT {
            let limit = MAX_REQUESTS_PER_STRICT_NEXT as u64;
            return Err(Refusal::TooManyRequests {
                count: requests.len() as u64,
                limit,
            });
        }
        let sequences = &mut self.sequences;
        Ok(Outcome::StrictNext(
            requests
                .iter()
                .map(|request| sequences.next(request))
                .collect(),
        ))
    }

    pub(crate) fn find_deadlines(&mut self) {
        let (wall_ms, cluster_ms) = (self.last_wall_ms(), self.cluster_ms());
        if let Some(settings) = self.settings.get(&()) {
            let (nodes, layouts) = (&self.nodes, &self.layouts);
            let given = Circumstances {
                settings,
                layouts,
                nodes,
                restoration: self.restoration.get(&()),
                wall_ms,
                cluster_ms,
            };
            self.leases.find_deadlines(&given);
        }
    }
}

/// Reads. They see what was applied, and the time as it was applied.
impl State {
    /// Whether the cluster has begun.
    #[must_use]
    pub fn is_founded(&self) -> bool {
        self.settings().is_some()
    }

    /// What was agreed when the cluster began.
    #[must_use]
    pub fn settings(&self) -> Option<&Settings> {
        self.settings.get(&())
    }

    /// The applied cluster time.
    #[must_use]
    pub fn cluster_ms(&self) -> ClusterMs {
        self.clock
            .get(&())
            .map_or(ClusterMs(0), |clock| clock.cluster_ms)
    }

    /// The highest wall clock of any applied entry.
    #[must_use]
    pub fn last_wall_ms(&self) -> WallMs {
        self.clock
            .get(&())
            .map_or(WallMs(0), |clock| WallMs(clock.wall_ms))
    }

    /// The cluster time at which the next lease ends by itself, if one is live.
    #[must_use]
    pub fn next_deadline(&self) -> Option<ClusterMs> {
        self.leases.next_deadline()
    }

    /// The layout of this name.
    #[must_use]
    pub fn layout(&self, name: &str) -> Option<&Layout> {
        self.layouts.get(name)
    }

    /// All layouts, by name.
    pub fn layouts(&self) -> impl Iterator<Item = &Layout> {
        self.layouts.values()
    }

    /// All members that ever were, removed ones included, by ID.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeRecord)> {
        self.nodes.table.iter().map(|(id, record)| (*id, record))
    }

    /// A member, also if it was removed.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&NodeRecord> {
        self.nodes.table.get(&id)
    }

    /// Whether this ID belonged to a member that was removed.
    #[must_use]
    pub fn is_removed(&self, id: NodeId) -> bool {
        self.node(id).is_some_and(|record| record.removed)
    }

    /// All workers that were ever leased, with their latest leases, by layout and number.
    pub fn leases(&self) -> impl Iterator<Item = LeaseView<'_>> {
        self.leases.table.iter().filter_map(|(key, record)| {
            let given = self.circumstances()?;
            Some(self.leases.view(&given, key, record))
        })
    }

    /// A worker's latest lease, live or not.
    #[must_use]
    pub fn lease_of(&self, layout: &str, worker: WorkerId) -> Option<LeaseView<'_>> {
        let key = WorkerKey {
            layout: layout.to_owned(),
            worker,
        };
        let (key, record) = self.leases.table.get_key_value(&key)?;
        Some(self.leases.view(&self.circumstances()?, key, record))
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
        self.sequences.get(name)
    }

    /// At most `limit` sequences whose names begin with `prefix`, by name, from the first one
    /// behind `after`.
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
        let behind = self.sequences.table.range::<str>((from, Bound::Unbounded));
        let matching = behind.take_while(|(name, _)| name.as_str().starts_with(prefix));
        matching
            .filter(|(_, record)| !record.deleted)
            .take(limit)
            .collect()
    }

    fn circumstances(&self) -> Option<Circumstances<'_>> {
        Some(Circumstances {
            settings: self.settings()?,
            layouts: &self.layouts,
            nodes: &self.nodes,
            restoration: self.restoration(),
            wall_ms: self.last_wall_ms(),
            cluster_ms: self.cluster_ms(),
        })
    }
}
