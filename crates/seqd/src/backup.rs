//! Saves a snapshot to a file: it is downloaded next to the file, checked in full, synced, and only
//! then renamed.
//!
//! Invariant: if the connection, the disk or the command fails, the file that the user named is the
//! old one or the new one, complete and verified.

use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use seqd_client::api::{SnapshotHead, SnapshotQuery};
use seqd_offline::{OfflineError, SnapshotReport, read_snapshot};
use sha2::{Digest as _, Sha256};
use tempfile::{NamedTempFile, TempPath};

use crate::failure::Failure;
use crate::progress::Progress;
use crate::session::Session;
use crate::signals::Signals;

pub(crate) struct Saved {
    pub(crate) report: SnapshotReport,
    pub(crate) node: String,
    pub(crate) sha256: String,
}

/// Checks that a file can be written there. Returns the size of the file that it would replace.
pub(crate) fn check_target(file: &Path) -> Result<Option<u64>, Failure> {
    let shown = file.display();
    let folder = folder_of(file);
    if !folder.is_dir() {
        return Err(Failure::usage(format!(
            "{} is not a folder",
            folder.display()
        )));
    }
    match fs::metadata(file) {
        Ok(known) if known.is_file() => Ok(Some(known.len())),
        Ok(_) => Err(Failure::usage(format!("{shown} exists and is not a file"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound && file.file_name().is_some() => {
            Ok(None)
        }
        Err(error) => Err(Failure::usage(format!("{shown}: {error}"))),
    }
}

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Downloads, verifies, syncs and renames. Ctrl-C and SIGTERM leave no file.
pub(crate) async fn save(
    file: &Path,
    replace: bool,
    query: &SnapshotQuery,
    session: &Session,
) -> Result<Saved, Failure> {
    let failed = |error: io::Error| Failure::failed(format!("{}: {error}", file.display()));
    let mut signals = Signals::new()?;
    let (fresh, saved) = download_unless_stopped(file, query, session, &mut signals).await?;
    let named = if replace {
        fresh.persist(file)
    } else {
        // The user has not confirmed the replacement of a file that appeared after the check.
        fresh.persist_noclobber(file)
    };
    named.map_err(|error| failed(error.error))?;
    let folder = File::open(folder_of(file)).and_then(|folder| folder.sync_all());
    folder.map_err(failed)?;
    Ok(saved)
}

/// Downloads into the system's temporary folder and verifies before it copies to stdout. The reader
/// therefore receives only checked bytes, and the exit code reports an incomplete copy.
pub(crate) async fn save_to_stdout(
    query: &SnapshotQuery,
    session: &Session,
) -> Result<Saved, Failure> {
    if io::stdout().is_terminal() {
        let detail = "snapshots are not written to a terminal: redirect stdout, or give a file";
        return Err(Failure::usage(detail));
    }
    let beside = std::env::temp_dir().join("snapshot");
    let mut signals = Signals::new()?;
    let (fresh, saved) = download_unless_stopped(&beside, query, session, &mut signals).await?;
    let mut bytes = File::open(&fresh)
        .map_err(|error| Failure::failed(format!("{}: {error}", fresh.display())))?;
    // A reader may stop reading.
    let copy = on_thread(move || {
        let mut stdout = io::stdout().lock();
        io::copy(&mut bytes, &mut stdout).and_then(|_| stdout.flush())
    });
    let copied = tokio::select! {
        copied = copy => copied.flatten(),
        name = signals.next() => {
            // The exit of the process ends the thread. `fresh` removes the file.
            return Err(Failure::failed(format!("stopped by {name}: stdout is incomplete")));
        }
    };
    copied.map_err(|error| Failure::failed(format!("cannot write to stdout: {error}")))?;
    Ok(saved)
}

async fn download_unless_stopped(
    file: &Path,
    query: &SnapshotQuery,
    session: &Session,
    signals: &mut Signals,
) -> Result<(TempPath, Saved), Failure> {
    tokio::select! {
        done = download(file, query, session) => done,
        _ = signals.next() => Err(Failure::failed("stopped; nothing was saved")),
    }
}

/// Runs blocking work on a thread of its own, so that a signal can end the wait for it. A runtime
/// waits at its end for threads of its own.
async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (done, result) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // The receiver is gone if a signal ended the wait.
        let _ = done.send(work());
    });
    result.await.map_err(io::Error::other)
}

async fn download(
    file: &Path,
    query: &SnapshotQuery,
    session: &Session,
) -> Result<(TempPath, Saved), Failure> {
    let failed = |error: io::Error| Failure::failed(format!("{}: {error}", file.display()));
    let begun = session.client.snapshot(query);
    let download = session.waiting("waiting for a node to write the snapshot", begun);
    let download = download.await?;
    let (head, node) = (download.head().clone(), download.node().to_owned());
    session.verbose_note(&format!("{node} sends {} bytes", head.bytes));
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let fresh = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .suffix(".tmp")
        .tempfile_in(folder_of(file))
        .map_err(failed)?;
    let (out, fresh) = NamedTempFile::into_parts(fresh);
    let bar = Progress::new(head.bytes, session.is_quiet);
    let mut out = tokio::fs::File::from_std(out);
    download.save(&mut out, |written| bar.at(written)).await?;
    drop(bar);
    out.sync_all().await.map_err(failed)?;
    drop(out);
    // The check reads the file back, so it covers the bytes that are kept.
    let path = fresh.to_path_buf();
    let check = on_thread(move || (read_snapshot(&path, &mut |_| {}), sha256_of(&path)));
    let (report, sha256) = check.await.map_err(failed)?;
    let report = report.map_err(|error| not_saved(error, &fresh, file))?;
    let found = head_of(&report);
    if found != head {
        let detail = format!(
            "the snapshot differs from what {node} announced, and nothing was saved: entry {} of \
             term {}, {} rows, digest {}",
            found.index, found.term, found.rows, found.digest
        );
        return Err(Failure::failed(detail));
    }
    let sha256 = sha256.map_err(failed)?;
    Ok((
        fresh,
        Saved {
            report,
            node,
            sha256,
        },
    ))
}

/// The error if the download in `fresh` was not saved as `file`.
fn not_saved(mut error: OfflineError, fresh: &Path, file: &Path) -> OfflineError {
    let (fresh, file) = (fresh.display().to_string(), file.display().to_string());
    let what = match error.code {
        "newer-format" => "the snapshot was written by a newer version of seqd",
        _ => "the snapshot is damaged",
    };
    let why = error.message.replace(&fresh, &file);
    error.message = format!("{what}, and nothing was saved: {why}");
    error
}

/// The head of the snapshot, as computed from the file.
pub(crate) fn head_of(report: &SnapshotReport) -> SnapshotHead {
    SnapshotHead {
        index: report.index,
        term: report.term,
        cluster_id: report.cluster_id.clone(),
        rows: report.rows,
        digest: report.digest.clone(),
        bytes: report.bytes,
    }
}

/// The checksum that `sha256sum` prints.
pub(crate) fn sha256_of(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hash)?;
    Ok(format!("{:x}", hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_of_a_newer_program_is_not_called_unsound() {
        let (fresh, file) = (Path::new("/b/.x.snap.1.tmp"), Path::new("/b/x.snap"));
        for (code, expected) in [
            ("corrupt", "the snapshot is damaged"),
            (
                "newer-format",
                "the snapshot was written by a newer version of seqd",
            ),
        ] {
            let error = OfflineError::new(code, "/b/.x.snap.1.tmp: row 65");
            let error = not_saved(error, fresh, file);
            assert_eq!(error.code, code);
            assert!(error.message.starts_with(expected), "{}", error.message);
            assert!(
                error.message.ends_with("/b/x.snap: row 65"),
                "{}",
                error.message
            );
        }
    }

    #[tokio::test]
    async fn a_signal_ends_the_wait_for_a_check_of_a_large_snapshot() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let check = on_thread(move || ended.recv());
        tokio::select! {
            biased;
            _ = check => panic!("the wait did not end before the check"),
            () = tokio::task::yield_now() => {}
        }
        drop(end);
        assert_eq!(on_thread(|| 7).await.unwrap(), 7);
    }

    #[test]
    fn the_checksum_is_that_of_sha256sum() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abc");
        fs::write(&path, "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_of(&path).unwrap(), expected);
    }

    #[test]
    fn a_target_is_a_file_or_nothing_in_a_folder_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.snap");
        assert_eq!(check_target(&path).unwrap(), None);
        fs::write(&path, "four").unwrap();
        assert_eq!(check_target(&path).unwrap(), Some(4));
        assert_eq!(check_target(dir.path()).unwrap_err().exit, 2);
        let nowhere = dir.path().join("no/where");
        assert_eq!(check_target(&nowhere).unwrap_err().exit, 2);
    }
}
