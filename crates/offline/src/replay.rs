//! The state, applied once more from the oldest kept snapshot and the log, and its digest compared
//! wherever something else recorded one.

use seqd_state::{LogPosition, State, StateLoader};
use seqd_wal::Inspection;

use super::inspect::DISK;
use super::reports::{CheckpointReport, LogReport};
use super::snapshot::SnapshotReport;
use super::verify::Check;
use seqd_store::checkpoint::TakeRows;
use seqd_store::records::{self, EntryPayload, restore_position};
use seqd_store::snapshot_file::SnapshotReader;

/// A state and where its membership was set.
type Position = (State, Option<LogPosition>);

/// A recorded digest to compare with.
struct Milestone {
    index: u64,
    digest: String,
    what: String,
}

/// Applies and compares; what was found, in order.
pub(super) fn replay(
    log: &Inspection,
    report: &LogReport,
    snapshots: &[SnapshotReport],
    checkpoint: Option<&CheckpointReport>,
) -> Vec<Check> {
    let mut ahead = milestones(snapshots, checkpoint);
    let Some(last) = ahead.last().map(|milestone| milestone.index) else {
        return vec![Check::note(
            "state",
            "nothing recorded a digest to compare with",
        )];
    };
    let started = start(log, report, snapshots);
    let (mut position, mut next) = match started {
        Ok(Some(started)) => started,
        Ok(None) => {
            let what = "the log does not reach back to a snapshot: the digests stand alone";
            return vec![Check::note("state", what)];
        }
        Err(why) => return vec![Check::bad("state", why)],
    };
    let mut checks = Vec::new();
    let from = next;
    loop {
        while ahead
            .first()
            .is_some_and(|milestone| milestone.index < next)
        {
            let Milestone {
                index,
                digest,
                what,
            } = ahead.remove(0);
            // What it began with is compared too: the rows were read twice then.
            let found = position.0.digest().to_string();
            checks.push(if index + 1 != next {
                Check::note(
                    "state",
                    format!("{what} is older than what was applied from"),
                )
            } else if found == digest {
                let applied = next - from;
                Check::ok(
                    "state",
                    format!("{applied} entries applied again up to {index}: the digest of {what}"),
                )
            } else {
                Check::bad(
                    "state",
                    format!("at entry {index} {what} has digest {digest}, applied is {found}"),
                )
            });
        }
        if next > last {
            return checks;
        }
        match apply(log, next, &mut position) {
            Ok(true) => next += 1,
            Ok(false) => {
                let what = format!("the log ends before entry {next}, the rest is not compared");
                checks.push(Check::note("state", what));
                return checks;
            }
            Err(why) => {
                checks.push(Check::bad("state", format!("entry {next}: {why}")));
                return checks;
            }
        }
    }
}

fn milestones(
    snapshots: &[SnapshotReport],
    checkpoint: Option<&CheckpointReport>,
) -> Vec<Milestone> {
    let mut milestones: Vec<Milestone> = snapshots
        .iter()
        .map(|found| Milestone {
            index: found.index,
            digest: found.digest.clone(),
            what: format!("snap/{}-{}.snap", found.index, found.term),
        })
        .collect();
    if let Some(found) = checkpoint
        && let Some(applied) = found.applied
    {
        milestones.push(Milestone {
            index: applied.index,
            digest: found.digest.clone(),
            what: found.folder.clone(),
        });
    }
    milestones.sort_by_key(|milestone| milestone.index);
    milestones
}

/// Where applying begins: the oldest snapshot that the log reaches back to, else the first entry.
/// The state and the index of the next entry.
fn start(
    log: &Inspection,
    report: &LogReport,
    snapshots: &[SnapshotReport],
) -> Result<Option<(Position, u64)>, String> {
    if let Some(found) = snapshots.iter().rfind(|found| !continues(log, found)) {
        return load(found).map(|position| Some((position, found.index + 1)));
    }
    let reaches = |index: u64| log.first_index() <= index + 1;
    if report.purged.is_none() && report.first.is_some_and(|first| first.index == 0) {
        return Ok(Some(((State::new(), None), 0)));
    }
    let Some(found) = snapshots.iter().find(|found| reaches(found.index)) else {
        // A snapshot alone still says that its rows are a state.
        return match snapshots.last() {
            Some(found) => load(found).map(|position| Some((position, found.index + 1))),
            None => Ok(None),
        };
    };
    load(found).map(|position| Some((position, found.index + 1)))
}

/// Whether the log's entries are those that led to the snapshot. A snapshot that a leader sent voids
/// what came before it, and a crash may have come before that was purged.
fn continues(log: &Inspection, found: &SnapshotReport) -> bool {
    if found.index < log.first_index() {
        return true;
    }
    let entry = log.entry(found.index).ok().flatten();
    let entry = entry.and_then(|bytes| records::decode_entry(&bytes).ok());
    entry.is_some_and(|entry| entry.id.term == found.term)
}

fn load(found: &SnapshotReport) -> Result<Position, String> {
    let reader = SnapshotReader::open(&DISK, &found.file).map_err(|e| e.to_string())?;
    let header = reader.header();
    let (_, membership) =
        restore_position(&header.log_id, &header.membership).map_err(|e| e.to_string())?;
    let mut loader = StateLoader::default();
    let rows = reader
        .rows()
        .visit(&mut |key, value| TakeRows::row(&mut loader, key, value));
    rows.map_err(|e| e.to_string())?;
    Ok((loader.finish(), membership.log_id.map(Into::into)))
}

/// Applies an entry as the node does; `false` if the log does not hold it.
fn apply(log: &Inspection, index: u64, position: &mut Position) -> Result<bool, String> {
    let bytes = log.entry(index).map_err(|e| e.to_string())?;
    let Some(bytes) = bytes else {
        return Ok(false);
    };
    let entry = records::decode_entry(&bytes).map_err(|e| e.to_string())?;
    if entry.id.index != index {
        return Err(format!("it is entry {}", entry.id.index));
    }
    let (state, membership) = position;
    match &entry.payload {
        EntryPayload::Blank => {}
        EntryPayload::Normal(entry) => {
            state.apply(entry, *membership);
        }
        EntryPayload::Membership(_) => {
            *membership = Some(entry.id.into());
        }
    }
    Ok(true)
}
