//! `seqd data`: inspects, verifies and recovers a stopped node's folder without a running node.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use seqd_client::api::exit;
use seqd_node::last_minted_ms;
use seqd_offline::{
    Check, CheckResult, EntryId, FolderReport, OfflineError, Problem, unreadable_code,
};
use serde_json::json;

use crate::commands::takeover::{self, RecoverArgs};
use crate::display::{self, or_dash};
use crate::failure::Failure;
use crate::format::Format;
use crate::output::{Report, write_stdout};
use crate::session::Session;

/// The operations on a data folder.
#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// Show the contents of a stopped node's folder
    ///
    /// Writes nothing to the folder, and holds its lock so that no node starts in the meantime. The
    /// checkpoint is opened in a copy, under TMPDIR.
    Inspect {
        /// Data folder of the node
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
    },
    /// Make a new cluster of one node from the folder of a node whose cluster lost its majority
    ///
    /// This is the last resort: data that only the other nodes had is lost. Every process of the
    /// old cluster must have ended.
    RecoverQuorum(RecoverArgs),
    /// Check every checksum, record and digest in a stopped node's folder
    ///
    /// Writes nothing to the folder. Applies the snapshots and the log again and compares the
    /// resulting state with the checkpoint, which is opened in a copy, under TMPDIR. Exit code 0 if
    /// no problem is found, 1 otherwise.
    Verify {
        /// Data folder of the node
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
    },
}

pub(crate) fn run(command: DataCommand, session: &Session) -> Result<u8, Failure> {
    match command {
        DataCommand::Inspect { data_dir } => inspect(&data_dir, session),
        DataCommand::RecoverQuorum(args) => takeover::recover(args, session),
        DataCommand::Verify { data_dir } => verify(&data_dir, session),
    }
}

fn inspect(folder: &Path, session: &Session) -> Result<u8, Failure> {
    let report = inspect_folder(folder)?;
    if let Some(why) = &report.unlocked {
        session.note(&format!("read without a lock: {why}"));
    }
    Report::facts(&report, facts(&report))?.print(session.format)?;
    match report.problems.first() {
        None => Ok(exit::OK),
        Some(first) => {
            let detail = format!("{}: {}", first.file, first.detail);
            let newer_only = report.problems.iter().all(|problem| problem.is_newer);
            Err(
                Failure::of(exit::FAILURE, unreadable_code(newer_only), detail)
                    .with_hint(format!("seqd data verify --data-dir {}", folder.display())),
            )
        }
    }
}

fn entry(id: EntryId) -> String {
    format!("{} of term {}", id.index, id.term)
}

fn facts(report: &FolderReport) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("folder", report.path.display().to_string()),
        ("format", or_dash(report.format.as_ref())),
    ];
    identity(report, &mut facts);
    log(report, &mut facts);
    for found in &report.snapshots {
        let id = EntryId {
            index: found.index,
            term: found.term,
        };
        let (rows, bytes) = (found.rows, display::bytes(found.bytes));
        let text = format!("{}: entry {}, {rows} rows, {bytes}", found.file, entry(id));
        facts.push(("snapshot", text));
    }
    if let Some(found) = &report.checkpoint {
        let applied = or_dash(found.applied.map(entry));
        let (folder, rows, digest) = (&found.folder, found.rows, &found.digest);
        let text = format!("{folder}: entry {applied}, {rows} rows, digest {digest}");
        facts.push(("checkpoint", text));
        for member in &found.members {
            facts.push(("member", display::member(member)));
        }
    }
    facts.extend(report.last_entry.map(|last| ("last entry", entry(last))));
    let minted = report.last_minted_ms;
    facts.extend(minted.map(|ms| ("last minted", display::time(ms))));
    for peer in &report.peers {
        let text = format!("node {}, start {}: {}", peer.id, peer.boot, peer.synced);
        facts.push(("peer", text));
    }
    let set_aside = report.set_aside.iter();
    facts.extend(set_aside.map(|name| ("set aside", name.clone())));
    let leftovers = report.leftovers.iter();
    facts.extend(leftovers.map(|name| ("left over", name.clone())));
    let sizes = report.sizes;
    let text = format!(
        "log {}, snapshots {}, checkpoint {}, other {}, total {}",
        display::bytes(sizes.log),
        display::bytes(sizes.snapshots),
        display::bytes(sizes.checkpoint),
        display::bytes(sizes.other),
        display::bytes(sizes.total),
    );
    facts.push(("on the disk", text));
    for problem in &report.problems {
        facts.push(("PROBLEM", format!("{}: {}", problem.file, problem.detail)));
    }
    facts
}

fn identity(report: &FolderReport, facts: &mut Vec<(&'static str, String)>) {
    match &report.identity {
        Some(own) => {
            facts.push(("node", format!("{}, ID {}", own.name, own.node)));
            facts.push(("cluster", own.cluster_id.clone()));
            let what = if own.joined { "joined" } else { "founded by" };
            facts.push((what, own.members.join(", ")));
            if own.founding {
                facts.push(("bootstrap", "begun but not finished".to_owned()));
            }
            if !own.ancestors.is_empty() {
                facts.push(("ancestors", own.ancestors.join(", ")));
            }
        }
        None => facts.push((
            "node",
            "none yet: the node is not a member of a cluster".to_owned(),
        )),
    }
    facts.extend(report.boot.map(|boot| ("starts", boot.to_string())));
    if let Some(refused) = &report.refused {
        facts.push(("refused", format!("{}: {}", refused.code, refused.message)));
    }
}

fn log(report: &FolderReport, facts: &mut Vec<(&'static str, String)>) {
    let log = &report.log;
    let entries = match (log.first, log.last) {
        (Some(first), Some(last)) => format!("entries {} to {}", entry(first), entry(last)),
        _ => "no entry".to_owned(),
    };
    facts.push(("log", entries));
    if let Some(vote) = log.vote {
        let won = if vote.committed { ", which leads" } else { "" };
        facts.push((
            "vote",
            format!("term {} for node {}{won}", vote.term, vote.node),
        ));
    }
    if let Some(committed) = log.committed {
        facts.push(("committed", format!("{} at least", entry(committed))));
    }
    if let Some(purged) = log.purged {
        facts.push(("purged", format!("up to {}", entry(purged))));
    }
    for segment in &log.segments {
        let entries = match (segment.first, segment.last) {
            (Some(first), Some(last)) => format!("entries {first} to {last}"),
            _ => "no usable entry".to_owned(),
        };
        let used = display::bytes(segment.used);
        facts.push((
            "segment",
            format!("{}: {entries}, {used} used", segment.file),
        ));
    }
    if let Some(torn) = &log.torn {
        let text = format!(
            "{} at byte {}, {} bytes",
            torn.file, torn.offset, torn.bytes
        );
        facts.push(("torn tail", text));
    }
    let damage = log.damage.iter();
    facts.extend(damage.map(|damage| ("DAMAGE", damage.clone())));
}

/// The name of the file in reports and checks.
const LAST_TICK: &str = "last-tick";

/// Inspects a folder: the files of consensus, and the file with the last minted tick.
fn inspect_folder(root: &Path) -> Result<FolderReport, OfflineError> {
    let mut report = seqd_offline::inspect_folder(root)?;
    match last_minted_ms(root) {
        Ok(found) => report.last_minted_ms = found.filter(|ms| *ms > 0),
        Err(error) => report.problems.push(Problem::of_io(LAST_TICK, &error)),
    }
    Ok(report)
}

/// Verifies the same files as `inspect_folder`.
fn verify_folder(root: &Path, report: &mut dyn FnMut(&Check)) -> Result<(), OfflineError> {
    seqd_offline::verify_folder(root, report)?;
    match last_minted_ms(root) {
        Ok(None) => {}
        Ok(Some(0)) => report(&Check::ok(LAST_TICK, "nothing minted yet")),
        Ok(Some(ms)) => report(&Check::ok(
            LAST_TICK,
            format!("minted up to {}", display::time(ms)),
        )),
        Err(error) => report(&Check::problem(&Problem::of_io(LAST_TICK, &error))),
    }
    Ok(())
}

fn verify(folder: &Path, session: &Session) -> Result<u8, Failure> {
    let mut checks: Vec<Check> = Vec::new();
    let live = session.format == Format::Table;
    let mut failed = None;
    let verified = verify_folder(folder, &mut |check| {
        if live {
            // Prints each check when it is done, since a large folder takes long.
            let line = format!(
                "{:<4}  {}  {}\n",
                check.verdict.as_str(),
                check.what,
                check.detail
            );
            failed = failed.take().or(write_stdout(&line).err());
        }
        checks.push(check.clone());
    });
    verified?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    let is_bad = |check: &&Check| check.verdict == CheckResult::Bad;
    let bad: Vec<&Check> = checks.iter().filter(is_bad).collect();
    let (count, of) = (bad.len(), checks.len());
    let newer_only = bad.iter().all(|check| check.is_newer);
    let verdict = match count {
        0 => format!("sound: {of} checks\n"),
        _ if newer_only => format!("of a newer seqd: {count} of {of} checks\n"),
        _ => format!("DAMAGED: {count} of {of} checks failed\n"),
    };
    let mut shown = Report::new(&json!({
        "folder": folder, "sound": count == 0, "checks": checks,
    }))?
    .with_items(&checks)?
    .with_columns("verdict what detail")
    .with_people(verdict);
    for check in &checks {
        let verdict = check.verdict.as_str().to_owned();
        shown.row(vec![verdict, check.what.clone(), check.detail.clone()]);
    }
    shown.print(session.format)?;
    match bad.first() {
        None => Ok(exit::OK),
        Some(first) => {
            let detail = format!("{}: {}", first.what, first.detail);
            Err(Failure::of(
                exit::FAILURE,
                unreadable_code(newer_only),
                detail,
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for found in fs::read_dir(from).unwrap().flatten() {
            let to = to.join(found.file_name());
            if found.path().is_dir() {
                copy(&found.path(), &to);
            } else {
                fs::copy(found.path(), to).unwrap();
            }
        }
    }

    fn checks(root: &Path) -> Vec<Check> {
        let mut checks = Vec::new();
        verify_folder(root, &mut |check| checks.push(check.clone())).unwrap();
        checks
    }

    #[test]
    fn a_damaged_mark_of_the_clock_is_reported_and_is_not_ok() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = tempfile::tempdir().unwrap();
        copy(&crates.join("../raft/tests/golden/data-v1"), folder.path());
        let path = folder.path().join(LAST_TICK);
        let mut bytes = fs::read(&path).unwrap();
        let whole = inspect_folder(folder.path()).unwrap();
        assert_eq!((whole.problems.len(), whole.last_minted_ms), (0, Some(1)));
        let last = checks(folder.path()).pop().unwrap();
        assert_eq!(last.detail, "minted up to 1970-01-01T00:00:00.001Z");

        // A last tick that lies centuries in the future.
        bytes[7] ^= 8;
        fs::write(&path, &bytes).unwrap();
        let damaged = inspect_folder(folder.path()).unwrap();
        let files: Vec<_> = damaged.problems.iter().map(|at| at.file.as_str()).collect();
        assert_eq!((files, damaged.last_minted_ms), (vec![LAST_TICK], None));
        let last = checks(folder.path()).pop().unwrap();
        assert_eq!(last, Check::bad(LAST_TICK, "its checksum does not match"));
    }
}
