//! The state, applied once more from a kept snapshot and the log, and its digest compared wherever
//! something else recorded one. It is the only check that finds a checkpoint or a snapshot which is
//! whole in itself and is not what the log leads to.

use seqd_state::{LogPosition, State, StateLoader};
use seqd_store::checkpoint::TakeRows;
use seqd_store::records::{self, EntryPayload, restore_position};
use seqd_store::snapshot_file::SnapshotReader;
use seqd_wal::Inspection;

use super::inspect::DISK;
use super::reports::CheckpointReport;
use super::snapshot::SnapshotReport;
use super::verify::Check;

/// A state, where its membership was set, and the index of the next entry.
struct Replayed {
    state: State,
    membership: Option<LogPosition>,
    next: u64,
}

/// Applies and compares; what was found, in order. The snapshots are in order of their indexes.
pub(super) fn replay(
    log: &Inspection,
    snapshots: &[SnapshotReport],
    checkpoint: Option<&CheckpointReport>,
) -> Vec<Check> {
    let checkpoint = checkpoint.and_then(|found| {
        let index = found.applied?.index;
        Some((index, found.digest.as_str(), found.folder.clone()))
    });
    let mut recorded: Vec<(u64, &str, String)> = (snapshots.iter())
        .map(|found| {
            let name = format!("snap/{}-{}.snap", found.index, found.term);
            (found.index, found.digest.as_str(), name)
        })
        .chain(checkpoint)
        .collect();
    recorded.sort_by_key(|(index, ..)| *index);
    if recorded.is_empty() {
        let nothing = "nothing recorded a digest to compare with";
        return vec![Check::note("state", nothing)];
    }
    let mut replayed = match start(log, snapshots) {
        Ok(Some(start)) => start,
        Ok(None) => {
            let what = "the log does not reach back to a snapshot: the digests stand alone";
            return vec![Check::note("state", what)];
        }
        Err(why) => return vec![Check::bad("state", why)],
    };
    let from = replayed.next;
    let mut checks = Vec::new();
    for (index, digest, what) in recorded {
        match replayed.apply_up_to(log, index) {
            Ok(()) => {}
            Err(stopped) => {
                checks.push(stopped);
                break;
            }
        }
        let found = replayed.state.digest().to_string();
        let applied = replayed.next - from;
        checks.push(if replayed.next > index + 1 {
            let older = format!("{what} is older than what was applied from");
            Check::note("state", older)
        } else if found == digest {
            let same =
                format!("{applied} entries applied again up to {index}: the digest of {what}");
            Check::ok("state", same)
        } else {
            let other = format!("at entry {index} {what} has digest {digest}, applied is {found}");
            Check::bad("state", other)
        });
    }
    checks
}

/// Where applying begins: the newest snapshot that the log's entries did not lead to (a leader sent
/// it), else the first entry of all, else the oldest snapshot that the log reaches back to.
fn start(log: &Inspection, snapshots: &[SnapshotReport]) -> Result<Option<Replayed>, String> {
    let is_whole = log.purged.is_none() && log.first_index() == 0 && log.next_index() > 0;
    let reached = |found: &&SnapshotReport| log.first_index() <= found.index + 1;
    let sent = snapshots.iter().rfind(|found| !continues(log, found));
    let begin = match sent {
        None if is_whole => {
            return Ok(Some(Replayed {
                state: State::new(),
                membership: None,
                next: 0,
            }));
        }
        None => snapshots.iter().find(reached).or(snapshots.last()),
        sent => sent,
    };
    begin.map(load).transpose()
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

fn load(found: &SnapshotReport) -> Result<Replayed, String> {
    let reader = SnapshotReader::open(&DISK, &found.file).map_err(|e| e.to_string())?;
    let header = reader.header();
    let (_, membership) =
        restore_position(&header.log_id, &header.membership).map_err(|e| e.to_string())?;
    let mut loader = StateLoader::default();
    let rows = reader
        .rows()
        .visit(&mut |key, value| TakeRows::row(&mut loader, key, value));
    rows.map_err(|e| e.to_string())?;
    Ok(Replayed {
        state: loader.finish(),
        membership: membership.log_id.map(Into::into),
        next: found.index + 1,
    })
}

impl Replayed {
    /// Applies entries as the node does, up to this one; else what keeps it from that.
    fn apply_up_to(&mut self, log: &Inspection, index: u64) -> Result<(), Check> {
        while self.next <= index {
            let next = self.next;
            let bad = |why: String| Check::bad("state", format!("entry {next}: {why}"));
            let Some(bytes) = log.entry(next).map_err(|e| bad(e.to_string()))? else {
                let what = format!("the log ends before entry {next}, the rest is not compared");
                return Err(Check::note("state", what));
            };
            let entry = records::decode_entry(&bytes).map_err(|e| bad(e.to_string()))?;
            if entry.id.index != next {
                return Err(bad(format!("it is entry {}", entry.id.index)));
            }
            match &entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Normal(commands) => {
                    self.state.apply(commands, self.membership);
                }
                EntryPayload::Membership(_) => self.membership = Some(entry.id.into()),
            }
            self.next += 1;
        }
        Ok(())
    }
}
