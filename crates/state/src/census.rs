//! Counts records without holding a whole state in memory, because a snapshot may be larger than
//! the memory of the machine that inspects it.

use seqd_idgen::WallMs;
use serde::Serialize;

use crate::cluster::settings::Settings;
use crate::row::{Row, RowError};
use crate::rows::StateLoader;
use crate::state::State;
use crate::tables::Tables;

/// The number of rows that are decoded together.
const BATCH_ROWS: usize = 1024;

/// Counts rows, one after the other, and checks that each is a valid record.
#[derive(Debug, Default)]
pub struct Census {
    /// Loaded at once, because the level's row precedes the rows that a newer level may introduce.
    single: StateLoader,
    batch: Vec<Row>,
    counts: Counts,
}

/// The number of records of some kinds. The tools print them under these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Sequences that can be used.
    pub sequences: u64,
    /// Deleted sequences, whose marks are kept.
    pub deleted_sequences: u64,
    pub workers: u64,
    /// Members, and nodes to which an ID was allocated.
    pub nodes: u64,
    pub removed_nodes: u64,
    /// Idempotency keys.
    pub keys: u64,
    /// The cost of all keys, in bytes: names, results and overhead.
    pub key_bytes: u64,
    /// One-time tokens, used ones included.
    pub one_time_tokens: u64,
    /// Locks that are held, waited for or delayed.
    pub locks: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    pub counts: Counts,
    /// The settings of the cluster; `None` before it is founded.
    pub settings: Option<Settings>,
    pub wall_ms: WallMs,
    /// The highest token, lease ID or node ID that was allocated.
    pub last_token: u64,
}

impl Census {
    /// Counts one row. An error may concern an earlier row, because rows are decoded in batches.
    pub fn row(&mut self, key: &[u8], value: &[u8]) -> Result<(), RowError> {
        if key.first().is_some_and(|prefix| Tables::is_single(*prefix)) {
            return self.single.row(key, value);
        }
        self.batch.push((key.to_vec(), value.to_vec()));
        if self.batch.len() < BATCH_ROWS {
            return Ok(());
        }
        self.count_batch()
    }

    fn count_batch(&mut self) -> Result<(), RowError> {
        let State { tables, .. } = State::from_rows(std::mem::take(&mut self.batch))?;
        let counts = &mut self.counts;
        for (_, record) in tables.sequences.iter() {
            counts.sequences += u64::from(!record.deleted);
            counts.deleted_sequences += u64::from(record.deleted);
        }
        for (_, record) in tables.nodes.iter() {
            counts.nodes += 1;
            counts.removed_nodes += u64::from(record.removed);
        }
        counts.workers += tables.workers.len() as u64;
        counts.keys += tables.keys.len() as u64;
        counts.key_bytes += tables.keys.holdings().all().bytes;
        counts.one_time_tokens += tables.one_time.len() as u64;
        counts.locks += tables.locks.len() as u64;
        Ok(())
    }

    pub fn finish(mut self) -> Result<Counted, RowError> {
        self.count_batch()?;
        let state = self.single.finish();
        Ok(Counted {
            counts: self.counts,
            settings: state.settings().cloned(),
            wall_ms: state.last_wall_ms(),
            last_token: (state.tables.counter.get(&())).map_or(0, |counter| counter.last),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::level::LevelRecord;
    use crate::codec::encode;
    use crate::level::Level;
    use crate::testing::{entry, founded};
    use crate::{
        AcquireLock, Attempt, BeginKey, ClusterCommand, Command, KeyClaim, KeyCommand, KeyName,
        KeySpace, LockCommand, NodeId, Nonce, OneTimeCommand, OneTimeId, SegmentSizes,
        SequenceCommand, SequenceDefinition, SequenceMode, SequenceName, TakeLease, TokenHash,
        WorkerCommand,
    };
    use seqd_idgen::{Layout, Progression};

    /// A time after the layout's epoch.
    const NOON: u64 = 1_795_262_400_000;

    fn state(sequences: usize) -> State {
        let mut state = founded();
        let layout = Layout::preset("default").unwrap();
        let mut at = NOON;
        let mut apply = |command: Command| {
            at += 1;
            state.apply(&entry(at, vec![command]), None);
        };
        for number in 0..sequences {
            apply(Command::Sequences(SequenceCommand::Create {
                tenant: crate::Tenant::OPERATOR,
                name: SequenceName::new(format!("s{number}")).unwrap(),
                definition: SequenceDefinition {
                    progression: Progression::new(1, 1, 1, i64::MAX, false).unwrap(),
                    mode: SequenceMode::Strict,
                    segment: SegmentSizes {
                        target_ms: 60_000,
                        min: 1,
                        max: 1,
                    },
                    description: String::new(),
                },
            }));
        }
        apply(Command::Sequences(SequenceCommand::Delete {
            name: SequenceName::new("s0").unwrap(),
            if_revision: None,
        }));
        apply(Command::Workers(WorkerCommand::TakeLease(TakeLease {
            tenant: crate::Tenant::OPERATOR,
            layout: "default".to_owned(),
            owner: "w".to_owned(),
            node: None,
            boot: 0,
            fence: layout.fence_at(WallMs(NOON + 30_000)),
            datacenter: None,
        })));
        apply(Command::Cluster(ClusterCommand::MarkRemoved {
            node: NodeId(2),
        }));
        let name = KeyName {
            space: KeySpace::Users,
            key: "pay".to_owned(),
        };
        let begin = BeginKey {
            tenant: crate::Tenant::OPERATOR,
            name: name.clone(),
            ttl_ms: 60_000,
            claim_ttl_ms: 1_000,
            fingerprint: String::new(),
            nonce: String::new(),
        };
        apply(KeyCommand::Begin(begin).into());
        let (claim, result) = (KeyClaim(4), b"paid".to_vec().into());
        let complete = KeyCommand::Complete {
            name,
            claim,
            result,
        };
        apply(complete.into());
        let token = |id| (OneTimeId(id), TokenHash([0; 32]));
        apply(Command::OneTime(OneTimeCommand::Issue {
            tenant: crate::Tenant::OPERATOR,
            tokens: vec![token(1), token(2)],
            ttl_ms: 60_000,
        }));
        apply(Command::Locks(LockCommand::Acquire(AcquireLock {
            tenant: crate::Tenant::OPERATOR,
            name: "jobs".parse().unwrap(),
            owner: "w".to_owned(),
            nonce: Nonce(1),
            attempt: Attempt(1),
            ttl_ms: 1000,
            wait_ms: 0,
            permits: 1,
            shared: false,
            lock_delay_ms: 0,
        })));
        state
    }

    #[test]
    fn each_kind_is_counted_over_many_batches() {
        let state = state(3 * BATCH_ROWS + 7);
        let mut census = Census::default();
        for (key, value) in state.rows() {
            census.row(&key, &value).unwrap();
        }
        let counted = census.finish().unwrap();
        let expected = Counts {
            sequences: 3 * BATCH_ROWS as u64 + 6,
            deleted_sequences: 1,
            workers: 1,
            nodes: 2,
            removed_nodes: 1,
            keys: 1,
            key_bytes: 394,
            one_time_tokens: 2,
            locks: 1,
        };
        assert_eq!(counted.counts, expected);
        assert_eq!(counted.settings.as_ref(), state.settings());
        assert_eq!(counted.wall_ms, state.last_wall_ms());
        assert_eq!(counted.last_token, 5);
    }

    #[test]
    fn a_table_of_a_newer_level_is_newer_and_not_unknown() {
        let mut census = Census::default();
        let level = LevelRecord {
            level: Level::NEWEST.next(),
        };
        let level = encode(&level).unwrap();
        let counted = (census.row(b"e", &level))
            .and_then(|()| census.row(b"~new", b"what a newer program keeps"))
            .and_then(|()| census.finish());
        let error = counted.unwrap_err();
        assert!(error.is_newer(), "{error}");
    }

    #[test]
    fn a_row_that_is_not_a_record_is_found() {
        for (key, value) in [(&b"sx"[..], &b"junk"[..]), (b"?", b""), (b"", b"")] {
            let mut census = Census::default();
            let counted = census.row(key, value).and_then(|()| census.finish());
            assert!(counted.is_err(), "{key:?}");
        }
    }
}
