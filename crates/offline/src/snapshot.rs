//! Reads a snapshot file in full: header, membership, every row, and footer.
//!
//! Rows are counted and verified one block at a time, so that the largest snapshot needs no more
//! memory than a small one.

use std::path::{Path, PathBuf};

use seqd_state::{Census, Counts};
use serde::Serialize;

use super::error::OfflineError;
use super::files::DISK;
use super::reports::{MemberReport, members, unreadable_code};
use seqd_store::disk_errors::named;
use seqd_store::records::restore_position;
use seqd_store::snapshot_file::SnapshotReader;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnapshotReport {
    pub file: PathBuf,
    pub cluster_id: String,
    /// The index of the last entry in the snapshot.
    pub index: u64,
    pub term: u64,
    pub rows: u64,
    pub bytes: u64,
    /// The digest of the rows, equal to the digest of a node that has applied `index`.
    pub digest: String,
    /// The highest wall clock of any entry in the snapshot, in Unix milliseconds.
    pub wall_ms: u64,
    pub members: Vec<MemberReport>,
    /// The number of records of each kind.
    pub records: Counts,
    /// The replicated window, in milliseconds.
    pub window_ms: Option<u64>,
    /// The replicated limit for the skew between peers, in milliseconds.
    pub max_peer_skew_ms: Option<u64>,
    /// The highest token, lease ID or node ID that was assigned. It is a text because it may exceed
    /// 2^53.
    pub last_token: String,
}

/// Reads a snapshot and verifies every checksum, the number of its rows and their digest, and that
/// each row is a valid record. `progress` receives the number of row bytes read.
///
/// # Errors
/// `corrupt` with the position of the first damage, `newer-format`, or the error of the disk.
pub fn read_snapshot(
    path: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<SnapshotReport, OfflineError> {
    let failed = |error: std::io::Error| OfflineError::io(path, &error);
    let corrupt = |why: String| OfflineError::new("corrupt", format!("{}: {why}", path.display()));
    let reader = SnapshotReader::open(&DISK, path).map_err(failed)?;
    let (header, bytes) = (reader.header().clone(), reader.len_bytes());
    let (id, membership) = restore_position(&header.log_id, &header.membership)
        .map_err(|error| failed(named(format!("{}: its header", path.display()), error)))?;
    let named = id.map(|id| (id.index, id.term));
    if named.unwrap_or_default() != (header.index, header.term) {
        return Err(corrupt(format!(
            "its header has entry {} of term {}, but its name has another",
            header.index, header.term
        )));
    }
    let mut census = Census::default();
    let mut read = 0;
    let mut unknown = None;
    let rows = reader.rows().visit(&mut |key, value| {
        read += (key.len() + value.len()) as u64;
        progress(read);
        // Damage to the file is reported in preference to an invalid record.
        if unknown.is_none() {
            unknown = census.row(key, value).err();
        }
        Ok(())
    });
    let tally = rows.map_err(failed)?;
    let counted = unknown.map_or_else(|| census.finish(), Err);
    let counted = counted.map_err(|error| {
        let code = unreadable_code(error.is_newer());
        OfflineError::new(code, format!("{}: {error}", path.display()))
    })?;
    let settings = counted.settings.as_ref();
    Ok(SnapshotReport {
        file: path.to_owned(),
        cluster_id: header.cluster_id,
        index: header.index,
        term: header.term,
        rows: tally.rows,
        bytes,
        digest: seqd_state::Digest(tally.digest).to_string(),
        wall_ms: counted.wall_ms.0,
        members: members(&membership),
        records: counted.counts,
        window_ms: settings.map(|settings| settings.window_ms),
        max_peer_skew_ms: settings.map(|settings| settings.max_peer_skew_ms),
        last_token: counted.last_token.to_string(),
    })
}
