//! `seqd snapshot`: the state of the cluster as a file, for a backup elsewhere.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use seqd_client::api::SnapshotQuery;
use seqd_client::api::{SnapshotHead, exit};
use seqd_offline::{SnapshotReport, read_snapshot};
use serde_json::{Value, json};

use crate::backup::{self, Saved};
use crate::commands::takeover::{self, RestoreArgs};
use crate::display;
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;
use crate::session::Session;

/// The operations on snapshots.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Save the state of the cluster to a file, from any node, and check the file in full
    ///
    /// The snapshot contains everything that was acknowledged before the command. The bytes go to a
    /// temporary file next to FILE, which is renamed to FILE once it is complete, verified and
    /// synced. The last line of the output has the same sha256 as `sha256sum FILE`.
    Save {
        /// File to write, or - for stdout; an existing file is replaced only after confirmation or
        /// with --yes
        file: PathBuf,
        /// Save the answering node's own state, which needs no quorum; the latest writes may be
        /// missing
        #[arg(long)]
        stale: bool,
    },
    /// Show the contents of a snapshot file
    Inspect {
        /// Snapshot file
        file: PathBuf,
    },
    /// Make a new cluster of one node from a snapshot
    ///
    /// Every process of the old cluster must have ended. Start the new node with `seqd server` on
    /// the folder; other machines join it with empty folders.
    Restore(RestoreArgs),
    /// Check every checksum, record and digest of a snapshot file
    ///
    /// Exit code 0 if the file is sound, 1 otherwise; the message states the position of the
    /// damage.
    Verify {
        /// Snapshot file
        file: PathBuf,
    },
}

pub(crate) async fn run(command: SnapshotCommand, session: &Session) -> Result<u8, Failure> {
    match command {
        SnapshotCommand::Save { file, stale } => save(&file, stale, session).await,
        SnapshotCommand::Inspect { file } => inspect(&file, session),
        SnapshotCommand::Restore(args) => takeover::restore(args, session),
        SnapshotCommand::Verify { file } => verify(&file, session),
    }
}

async fn save(file: &Path, stale: bool, session: &Session) -> Result<u8, Failure> {
    let query = SnapshotQuery {
        stale: stale.then_some(true),
    };
    if file == Path::new("-") {
        let saved = backup::save_to_stdout(&query, session).await?;
        // The report goes to stderr: stdout carries the snapshot itself.
        session.note(
            report_of_saved(file, stale, saved)?
                .text(session.format)
                .trim_end(),
        );
        return Ok(exit::OK);
    }
    let replaces = backup::check_target(file)?;
    if let Some(bytes) = replaces {
        let effect = format!("replaces {} ({bytes} bytes)", file.display());
        if !session.may_go_on(&effect)? {
            return Ok(exit::OK);
        }
    }
    let saved = backup::save(file, replaces.is_some(), &query, session).await?;
    session.print(&report_of_saved(file, stale, saved)?)
}

fn report_of_saved(file: &Path, stale: bool, saved: Saved) -> Result<Report, Failure> {
    let Saved {
        report,
        node,
        sha256,
    } = saved;
    let summary = format!("saved {} from {node}", file.display());
    let more = json!({"node": node, "time": display::time(report.wall_ms), "stale": stale});
    let columns = "file node index term cluster rows bytes digest sha256";
    report_of(&summary, file, (columns, node), more, &report, sha256)
}

/// The report of one snapshot file, in one row. The second column is that of the calling command,
/// which also adds fields for programs.
fn report_of(
    summary: &str,
    file: &Path,
    (columns, cell): (&'static str, String),
    mut json: Value,
    report: &SnapshotReport,
    sha256: String,
) -> Result<Report, Failure> {
    let SnapshotHead {
        index,
        term,
        cluster_id,
        rows,
        digest,
        bytes,
    } = backup::head_of(report);
    json["file"] = json!(file);
    json["index"] = index.into();
    json["term"] = term.into();
    json["cluster_id"] = json!(cluster_id);
    json["rows"] = rows.into();
    json["bytes"] = bytes.into();
    json["digest"] = json!(digest);
    json["sha256"] = json!(sha256);
    let people = format!(
        "{summary}: index {index}, term {term}, cluster {cluster_id}, {rows} rows, {bytes} bytes, \
         digest {digest}, sha256 {sha256}\n"
    );
    let mut table = Report::new(&json)?
        .with_columns(columns)
        .with_people(people);
    table.row(vec![
        file.display().to_string(),
        cell,
        index.to_string(),
        term.to_string(),
        cluster_id,
        rows.to_string(),
        bytes.to_string(),
        digest,
        sha256,
    ]);
    Ok(table)
}

/// Reads a file, with a progress bar on a terminal.
fn read(file: &Path, session: &Session) -> Result<SnapshotReport, Failure> {
    let len = std::fs::metadata(file).map_or(0, |known| known.len());
    let bar = Progress::new(len, session.is_quiet);
    let report = read_snapshot(file, &mut |read| bar.at(read));
    drop(bar);
    Ok(report?)
}

fn inspect(file: &Path, session: &Session) -> Result<u8, Failure> {
    let report = read(file, session)?;
    let mut value = serde_json::to_value(&report).map_err(|e| Failure::failed(e.to_string()))?;
    if let Value::Object(fields) = &mut value {
        fields.insert("time".to_owned(), json!(display::time(report.wall_ms)));
    }
    session.print(&Report::facts(&value, facts(&report))?)
}

fn facts(report: &SnapshotReport) -> Vec<(&'static str, String)> {
    let records = report.records;
    let mut facts = vec![
        ("cluster", report.cluster_id.clone()),
        ("entry", format!("{} of term {}", report.index, report.term)),
        ("time", display::time(report.wall_ms)),
        ("size", display::bytes(report.bytes)),
        ("rows", report.rows.to_string()),
        ("digest", report.digest.clone()),
        (
            "sequences",
            format!(
                "{}, {} deleted",
                records.sequences, records.deleted_sequences
            ),
        ),
        ("workers", records.workers.to_string()),
        (
            "nodes",
            format!("{}, {} removed", records.nodes, records.removed_nodes),
        ),
        (
            "keys",
            format!(
                "{}, with {} of results",
                records.keys,
                display::bytes(records.key_bytes)
            ),
        ),
        ("one-time tokens", records.one_time_tokens.to_string()),
        ("last token", report.last_token.clone()),
    ];
    for member in &report.members {
        facts.push(("member", display::member(member)));
    }
    facts
}

fn verify(file: &Path, session: &Session) -> Result<u8, Failure> {
    let report = read(file, session)?;
    let sha256 = backup::sha256_of(file)
        .map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?;
    let summary = format!("{} is valid", file.display());
    let columns = "file sound index term cluster rows bytes digest sha256";
    let (sound, more) = ((columns, true.to_string()), json!({"sound": true}));
    session.print(&report_of(&summary, file, sound, more, &report, sha256)?)
}
