//! A new cluster of one node that replaces another cluster: its state, its folder, and the report
//! of both before anything is written.
//!
//! Both tools that create such a cluster use this file: the restore of a backup, and the recovery
//! from a lost majority. They differ in the source of the state and the location of the folder.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use seqd_disk::create_dir_durable;
use seqd_state::idgen::WallMs;
use seqd_state::{
    Raise, RaisedSequence, Restoration, RestorationError, SequenceName, SequenceRecord, State,
};
use seqd_wal::{Done, Wal, WalOptions};
use serde::Serialize;

use super::error::OfflineError;
use super::replay::Replayed;
use seqd_store::checkpoint::{self, Checkpoint, Place};
use seqd_store::cluster_id;
use seqd_store::folder::{Folder, Identity};
use seqd_store::records::{
    self, LogIdRecord, Member, MembershipRecord, StoredMembershipRecord, VoteRecord,
};
use seqd_store::snapshot_file::{SnapshotHeader, SnapshotReader, SnapshotWriter};

/// The options given by the operator.
#[derive(Clone, Debug, Default)]
pub struct TakeoverOptions {
    /// The first value that may be granted, for each named sequence.
    pub floors: Vec<(String, i64)>,
    /// The number of values to skip for every other sequence.
    pub margin: Option<u64>,
    /// The time at which the state was written, in Unix milliseconds, if the time in the state is
    /// wrong because a leader's clock had run ahead.
    pub written_ms: Option<u64>,
    /// `true` for a rehearsal: the nodes of the old cluster are not stopped.
    pub drill: bool,
    /// The wall clock of this machine, in Unix milliseconds.
    pub now_ms: u64,
}

/// The source and the result of a takeover, for review before it is carried out.
#[derive(Clone, Debug, Serialize)]
pub struct Takeover {
    /// The source of the state.
    pub source: PathBuf,
    pub from_cluster: String,
    pub former_members: Vec<String>,
    pub cluster_id: String,
    /// The only member of the new cluster.
    pub member: Member,
    /// The clusters whose nodes stop as `superseded`. Empty for a rehearsal.
    pub ancestors: Vec<String>,
    /// The last entry in the state.
    pub index: u64,
    pub term: u64,
    /// The latest time of any entry in the state, or the time given by the operator, in Unix
    /// milliseconds.
    pub wall_ms: u64,
    /// The clock of this machine minus that time. Negative if the clock is behind.
    pub age_ms: i64,
    /// Entries that possibly only this node had, and that may never have been acknowledged.
    pub unproven_entries: u64,
    /// `true` if the operator gave `wall_ms`.
    pub wall_ms_is_given: bool,
    /// The data that could not be read or checked, one sentence each.
    pub notes: Vec<String>,
    pub window_ms: u64,
    pub max_peer_skew_ms: u64,
    /// The time after the start of its first leader at which the new cluster mints its first ID.
    pub ids_after_ms: u64,
    /// The holds of locks in the state. Every lock of the new cluster is free.
    pub freed_holds: u64,
    pub sequences: Vec<SequenceTakeover>,
}

/// A sequence before and after the takeover. Values are strings because they may exceed 2^53.
#[derive(Clone, Debug, Serialize)]
pub struct SequenceTakeover {
    pub name: String,
    pub mode: String,
    /// `true` if it was deleted. Its high-water mark is kept.
    pub deleted: bool,
    /// The next value before the takeover. Null if none was left.
    pub next_before: Option<String>,
    /// The next value after the takeover. Null if none is left.
    pub next_after: Option<String>,
    /// The next value once the end of the sequence is extended that far, if none is left. Null if
    /// there is none.
    pub continues_at: Option<String>,
    pub passed_over: u64,
    /// The floor, if one was given.
    pub floor: Option<String>,
    /// The margin, if it moved the sequence.
    pub margin: Option<u64>,
    /// The expected number of values granted since then, at the average rate since the cluster
    /// began. Null if it is unknown.
    pub expected: Option<u64>,
}

/// The source of a takeover.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) state: State,
    pub(super) position: LogIdRecord,
    pub(super) membership: StoredMembershipRecord,
    pub(super) unproven_entries: u64,
    /// Ancestors that are recorded outside the state.
    pub(super) ancestors: Vec<String>,
    /// The data that could not be read or checked, one sentence each.
    pub(super) notes: Vec<String>,
}

impl Source {
    /// Creates the source from a snapshot or a folder. Fails if it contains no state.
    pub(super) fn new(path: &Path, replayed: Replayed) -> Result<Self, OfflineError> {
        let Replayed {
            state,
            position,
            membership,
        } = replayed;
        let nothing = || {
            let text = format!("{}: it has neither a snapshot nor a log", path.display());
            OfflineError::new("not-found", text)
        };
        Ok(Self {
            path: path.to_owned(),
            state,
            position: position.ok_or_else(nothing)?,
            membership,
            unproven_entries: 0,
            ancestors: Vec::new(),
            notes: Vec::new(),
        })
    }
}

/// The new cluster, in memory.
pub(super) struct Successor {
    state: State,
    position: LogIdRecord,
    identity: Identity,
    membership: StoredMembershipRecord,
}

/// Creates the new cluster and its report.
pub(super) fn take_over(
    source: Source,
    member: Member,
    options: &TakeoverOptions,
) -> Result<(Successor, Takeover), OfflineError> {
    let Source {
        path,
        mut state,
        position,
        membership,
        unproven_entries,
        ancestors,
        mut notes,
    } = source;
    let Some(settings) = state.settings().cloned() else {
        return Err(refused(&state, RestorationError::NotFounded));
    };
    let lineage = lineage(&settings.cluster_id, ancestors, &state);
    let began_ms = lineage
        .iter()
        .filter_map(|id| cluster_id::time_of_id(id))
        .min();
    let wall_ms = options.written_ms.unwrap_or(state.last_wall_ms().0);
    let cluster_id = cluster_id::cluster_id_at(WallMs(options.now_ms))
        .map_err(|stop| OfflineError::new("failure", stop.message))?;
    let restoration = Restoration {
        cluster_id: cluster_id.clone(),
        founder: member.name.clone(),
        ancestors: if options.drill { Vec::new() } else { lineage },
        floors: floors(&options.floors)?,
        margin: options.margin,
        written: options.written_ms.map(WallMs),
    };
    let freed_holds = state.lock_counts().holders;
    let (node, raised) = match state.restore(&restoration) {
        Ok(done) => done,
        Err(error) => return Err(refused(&state, error)),
    };
    // The rate of the grants is the only use of this time. A clock that was ahead when the cluster
    // was founded is in its ID, too.
    if let Some(began_ms) = began_ms.filter(|began_ms| *began_ms > wall_ms) {
        notes.push(format!(
            "the cluster's ID has the time {}, after the time of the state: the expected numbers \
             of values are unknown",
            rfc3339(began_ms)
        ));
    }
    let age_ms = i64::try_from(options.now_ms)
        .unwrap_or(i64::MAX)
        .saturating_sub_unsigned(wall_ms);
    let since = Since {
        began_ms,
        wall_ms,
        age_ms: u64::try_from(age_ms).unwrap_or(0),
    };
    let takeover = Takeover {
        source: path,
        from_cluster: settings.cluster_id,
        former_members: (membership.membership.nodes.values())
            .map(|member| member.name.clone())
            .collect(),
        cluster_id: cluster_id.clone(),
        member: member.clone(),
        ancestors: restoration.ancestors.clone(),
        index: position.index,
        term: position.term,
        wall_ms,
        wall_ms_is_given: options.written_ms.is_some(),
        age_ms,
        unproven_entries,
        notes,
        window_ms: settings.window_ms,
        max_peer_skew_ms: settings.max_peer_skew_ms,
        ids_after_ms: settings.window_ms + 4 * settings.max_peer_skew_ms,
        freed_holds,
        sequences: raised.iter().map(|raised| since.report(raised)).collect(),
    };
    let successor = Successor::new(state, position, node.0, member, restoration);
    Ok((successor, takeover))
}

/// Returns the old cluster and all clusters that it replaced, each once.
fn lineage(from_cluster: &str, recorded: Vec<String>, state: &State) -> Vec<String> {
    let of_state = state.restoration().map(|record| record.ancestors.clone());
    let mut lineage = vec![from_cluster.to_owned()];
    lineage.extend(recorded);
    lineage.extend(of_state.into_iter().flatten());
    let mut seen = BTreeSet::new();
    lineage.retain(|cluster| seen.insert(cluster.clone()));
    lineage
}

fn floors(given: &[(String, i64)]) -> Result<BTreeMap<SequenceName, i64>, OfflineError> {
    let mut floors = BTreeMap::new();
    for (name, floor) in given {
        let name = SequenceName::new(name.clone())
            .map_err(|error| OfflineError::new("invalid-argument", format!("{name}: {error}")))?;
        if floors.insert(name.clone(), *floor).is_some() {
            let twice = format!("two floors for {name}");
            return Err(OfflineError::new("invalid-argument", twice));
        }
    }
    Ok(floors)
}

/// An error that contains the missing options and the position of each sequence.
fn refused(state: &State, error: RestorationError) -> OfflineError {
    let next = |record: &SequenceRecord| {
        record
            .next_value()
            .map_or("no value left".to_owned(), |next| {
                format!("next value {next}")
            })
    };
    let lines = |names: &[SequenceName]| -> String {
        names
            .iter()
            .filter_map(|name| {
                let record = state.sequence_or_deleted(name)?;
                let deleted = if record.deleted { ", deleted" } else { "" };
                let cycles = record.definition.progression.cycle();
                let cycles = if cycles { ", cycles" } else { "" };
                let mode = record.definition.mode;
                Some(format!(
                    "\n  {name}: {mode}{cycles}{deleted}, {}",
                    next(record)
                ))
            })
            .collect()
    };
    match error {
        RestorationError::NotFounded => OfflineError::new(
            "not-found",
            "it contains no cluster: the cluster was never founded",
        ),
        RestorationError::MissingFloors(names) => OfflineError::new(
            "invalid-argument",
            format!(
                "the state ends before the last grants, and only you can know which values of \
                 these sequences were granted:{}",
                lines(&names)
            ),
        )
        .with_hint(
            "give --floor NAME=VALUE for each (the first value that was certainly never granted), \
             or --margin N to skip N values of each other sequence; --margin 0 asserts that \
             nothing was granted since",
        ),
        RestorationError::FloorOfCycling(names) => OfflineError::new(
            "invalid-argument",
            format!(
                "a value does not identify the pass of a cycling sequence:{}",
                lines(&names)
            ),
        )
        .with_hint("--margin N skips N values of each sequence that has no floor"),
        RestorationError::WrittenOutOfRange { given, from, to } => OfflineError::new(
            "invalid-argument",
            format!(
                "the state cannot have been written at {}: allowed are {} to {}",
                rfc3339(given.0),
                rfc3339(from.0),
                rfc3339(to.0)
            ),
        ),
        other => OfflineError::new("invalid-argument", other.to_string()),
    }
}

/// Formats the time as `2026-11-21T02:26:41.118Z`.
fn rfc3339(at_ms: u64) -> String {
    let known = i64::try_from(at_ms)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    match known {
        Some(stamp) => format!("{stamp:.3}"),
        None => format!("{at_ms} ms after 1970"),
    }
}

/// The inputs for an average rate.
struct Since {
    began_ms: Option<u64>,
    wall_ms: u64,
    age_ms: u64,
}

impl Since {
    fn report(&self, raised: &RaisedSequence) -> SequenceTakeover {
        let RaisedSequence {
            name,
            mode,
            deleted,
            raise,
            index_before,
            index_after,
            next_before,
            next_after,
            continues_at,
        } = raised;
        let (floor, margin) = match raise {
            Raise::Floor(floor) => (Some(floor.to_string()), None),
            Raise::Margin(margin) => (None, Some(*margin)),
        };
        SequenceTakeover {
            name: name.to_string(),
            mode: mode.to_string(),
            deleted: *deleted,
            next_before: next_before.map(|value| value.to_string()),
            next_after: next_after.map(|value| value.to_string()),
            continues_at: continues_at.map(|value| value.to_string()),
            passed_over: index_after - index_before,
            floor,
            margin,
            expected: self.expected(*index_before),
        }
    }

    fn expected(&self, index: u64) -> Option<u64> {
        let lived_ms = self.wall_ms.checked_sub(self.began_ms?)?.max(1);
        let expected = u128::from(index) * u128::from(self.age_ms) / u128::from(lived_ms);
        Some(u64::try_from(expected).unwrap_or(u64::MAX))
    }
}

impl Successor {
    fn new(
        state: State,
        position: LogIdRecord,
        node: u64,
        member: Member,
        restoration: Restoration,
    ) -> Self {
        let identity = Identity {
            cluster_id: restoration.cluster_id,
            node,
            name: member.name.clone(),
            members: vec![(node, member.clone())],
            founder: false,
            joined: false,
            ancestors: restoration.ancestors,
        };
        Self {
            state,
            position,
            identity,
            membership: StoredMembershipRecord {
                log_id: Some(position),
                membership: MembershipRecord::of_one(node, member),
            },
        }
    }

    /// Writes all files that a start needs into an empty folder, the identity last. They are
    /// durable when this returns.
    pub(super) fn write(&self, folder: &Folder) -> io::Result<()> {
        let disk = folder.disk();
        let cluster_id = self.identity.cluster_id.clone();
        let log_id = records::encode(&self.position)?;
        let membership = records::encode(&self.membership)?;
        let snapshots = folder.snapshots();
        create_dir_durable(&**disk, &snapshots)?;
        let header = SnapshotHeader {
            cluster_id: cluster_id.clone(),
            index: self.position.index,
            term: self.position.term,
            log_id: log_id.clone(),
            membership: membership.clone(),
        };
        let mut writer = SnapshotWriter::create(disk, &snapshots, header)?;
        for (key, value) in self.state.rows() {
            writer.row(&key, &value)?;
        }
        let file = writer.finish()?;
        self.write_log(folder, &log_id)?;
        let place = Place {
            disk: Arc::clone(disk),
            ..Place::on_sled(folder.root(), &cluster_id)
        };
        let applied = Checkpoint {
            index: file.index,
            log_id,
            membership,
            digest: file.digest,
        };
        let rows = SnapshotReader::open(&**disk, &file.path)?.rows();
        checkpoint::create_generation(&place, rows, &applied)?.close()?;
        folder.write_identity(&self.identity)
    }

    /// Writes a log that begins after the snapshot, with a vote of its term, so that the next term
    /// is higher.
    fn write_log(&self, folder: &Folder, log_id: &[u8]) -> io::Result<()> {
        let options = WalOptions {
            disk: Arc::clone(folder.disk()),
            ..WalOptions::new(folder.wal())
        };
        let (wal, _) = Wal::open(options).map_err(io::Error::other)?;
        let term = self.position.term;
        let vote = VoteRecord {
            term,
            node: self.identity.node,
            committed: false,
        };
        let vote = records::encode(&vote)?;
        durable(|done| wal.save_vote(vote, done))?;
        wal.save_committed(log_id.to_vec());
        durable(|done| wal.purge(self.position.index, log_id.to_vec(), done))?;
        wal.close()
    }
}

/// Waits for a callback of the log's writer thread.
fn durable(start: impl FnOnce(Done)) -> io::Result<()> {
    let (done, wait) = mpsc::sync_channel(1);
    start(Box::new(move |result| {
        let _ = done.send(result);
    }));
    wait.recv()
        .unwrap_or_else(|_| Err(io::Error::other("the log's writer thread has ended")))
}
