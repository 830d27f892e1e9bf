//! A checkpoint, looked at in a copy of its folder: sled cannot open one without writing to it.
//!
//! The copy is opened as a start opens a checkpoint, with every row against the recorded digest.
//! It lies in the system's folder for temporary files (`TMPDIR`) and goes when it was looked at.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use seqd_disk::{Disk, FileReader, FileWriter, Kind, OsDisk, read_file};

use super::inspect::DISK;
use super::reports::{CheckpointReport, EntryId, Problem, members};
use crate::checkpoint::{self, Opened, Place, SledStores, TakeRows};
use crate::checkpointer::restore_position;

const CURRENT: &str = "CURRENT";

/// More than any name and its checksum.
const MAX_CURRENT_BYTES: usize = 4096;

/// One write of a copy.
const PIECE_BYTES: usize = 1 << 20;

/// How many rows there are; that they are records is what the digest of the state says.
#[derive(Default)]
struct Rows(u64);

impl TakeRows for Rows {
    fn row(&mut self, _: &[u8], _: &[u8]) -> io::Result<()> {
        self.0 += 1;
        Ok(())
    }
}

/// The checkpoint that a start would find; none before the first.
pub(super) fn look(root: &Path, cluster_id: &str) -> Result<Option<CheckpointReport>, Problem> {
    let problem = |file: &str, why: String| Problem {
        file: file.to_owned(),
        detail: why,
    };
    let line = match read_file(&DISK, &root.join(CURRENT), MAX_CURRENT_BYTES) {
        Ok(Some(line)) => String::from_utf8_lossy(&line).into_owned(),
        Ok(None) => return Err(problem(CURRENT, "it is missing".to_owned())),
        Err(e) => return Err(problem(CURRENT, e.to_string())),
    };
    // Whether the line is right is for the opening to say, which reads it again.
    let folder = line.split(' ').next().unwrap_or_default().to_owned();
    let is_name = folder.starts_with("state-") && !folder.contains(['/', '.']);
    let blamed = if is_name { folder.as_str() } else { CURRENT };
    let failed = |e: io::Error| problem(blamed, e.to_string());
    let copy = tempfile::Builder::new()
        .prefix("seqd-look-")
        .tempdir()
        .map_err(failed)?;
    copy_file(&root.join(CURRENT), &copy.path().join(CURRENT)).map_err(failed)?;
    if is_name && DISK.kind(&root.join(&folder)).map_err(failed)? == Some(Kind::Folder) {
        copy_tree(&root.join(&folder), &copy.path().join(&folder)).map_err(failed)?;
    }
    let place = Place {
        disk: Arc::new(OsDisk),
        data_dir: copy.path().to_owned(),
        cluster_id: cluster_id.to_owned(),
        stores: Arc::new(SledStores),
    };
    match checkpoint::open::<Rows>(&place, false).map_err(failed)? {
        Opened::Good {
            store,
            rows,
            applied,
        } => {
            drop(store);
            let (id, membership) =
                restore_position(&applied.log_id, &applied.membership).map_err(failed)?;
            Ok(Some(CheckpointReport {
                folder,
                applied: id.map(EntryId::of),
                rows: rows.0,
                digest: seqd_state::Digest(applied.digest).to_string(),
                members: members(&membership),
            }))
        }
        Opened::Empty { .. } => Ok(None),
        Opened::SetAside { why, .. } => Err(problem(blamed, why)),
    }
}

/// Copies what is below a folder. The copies can be written, also where the files cannot.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    OsDisk.create_dir_all(to)?;
    for name in DISK.list(from)? {
        let (source, target) = (from.join(&name), to.join(&name));
        match DISK.kind(&source)? {
            Some(Kind::Folder) => copy_tree(&source, &target)?,
            _ => copy_file(&source, &target)?,
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = FileReader::new(DISK.open_read(from)?)?;
    let target = FileWriter::new(OsDisk.create(to)?);
    // A piece of that size at a time: the writer itself collects nothing.
    let mut target = BufWriter::with_capacity(PIECE_BYTES, target);
    io::copy(&mut source, &mut target)?;
    target.flush()
}
