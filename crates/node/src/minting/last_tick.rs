//! Stores the mark on disk: how far this node has minted, so that its next start detects a clock
//! that was set back.
//!
//! A dedicated thread writes the mark every 250 ms and at a clean stop. Minting does not wait for
//! the write: a stalled disk must not stop a node that has a window, and uniqueness depends on the
//! fence alone.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use seqd_disk::{Disk, OsDisk, ReadOnly, sibling};
use seqd_idgen::{MARK_EVERY_MS, StoredMark, WallMs};
use seqd_state::codec::{self, Versioned};
use seqd_store::disk_errors::is_newer;
use seqd_store::folder::read_checked;
use seqd_store::stop::Stop;
use serde::{Deserialize, Serialize};

use super::Minters;

/// The name of the file in the data folder.
const FILE: &str = "last-tick";

/// The longest wait of a clean stop for a hanging disk. The previously written mark remains valid.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// The mark as written to disk, sealed with a checksum.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LastTickRecord {
    last_minted_ms: u64,
    ahead_ms: u64,
    /// The number of the latest reset that the node has obeyed, or 0.
    obeyed_reset: u64,
}

/// The minting state left by earlier processes of this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastTick {
    /// `None` if the file is missing or damaged.
    pub(crate) mark: Option<StoredMark>,
    pub(crate) obeyed_reset: u64,
}

impl Versioned for LastTickRecord {
    /// Kinds below 128 belong to the other crates.
    const KIND: u8 = 128;
    const VERSION: u8 = 1;
}

/// Reads the mark that the previous process left. A damaged mark is logged and counts as none,
/// which loses the order across restarts but not uniqueness.
///
/// # Errors
/// A newer program wrote the mark.
pub(crate) fn read(disk: &dyn Disk, data_dir: &Path) -> Result<LastTick, Stop> {
    look(disk, data_dir).or_else(|error| {
        let path = data_dir.join(FILE);
        if is_newer(&error) {
            return Err(Stop::unusable(&path, &error));
        }
        tracing::warn!("{}: {error}; continuing without the file", path.display());
        Ok(LastTick::default())
    })
}

/// The mark in a folder, or the reason why it cannot be used.
fn look(disk: &dyn Disk, data_dir: &Path) -> io::Result<LastTick> {
    let Some(record) = read_checked::<LastTickRecord>(disk, &data_dir.join(FILE))? else {
        return Ok(LastTick::default());
    };
    let mark = StoredMark::found(WallMs(record.last_minted_ms), WallMs(record.ahead_ms));
    let backwards = "its first time is not before its second";
    let mark = mark.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, backwards))?;
    Ok(LastTick {
        mark: Some(mark),
        obeyed_reset: record.obeyed_reset,
    })
}

/// The time of the last minted tick in the folder of a stopped node, in Unix milliseconds: 0 if
/// nothing was minted, `None` if there is no mark. Writes nothing.
///
/// # Errors
/// The mark cannot be used. A start ignores a damaged mark, which loses the order across restarts
/// but not uniqueness.
pub fn last_minted_ms(data_dir: &Path) -> io::Result<Option<u64>> {
    let found = look(&ReadOnly(OsDisk), data_dir)?;
    Ok(found.mark.map(|mark| mark.last_minted.0))
}

/// Replaces the mark. A power failure leaves either the old or the new mark intact. The folder is
/// not synced: a mark that is a quarter of a second older does no harm, but the sync would cost
/// four more journal writes of the file system per second.
fn write(disk: &dyn Disk, data_dir: &Path, mark: StoredMark, obeyed_reset: u64) -> io::Result<()> {
    let record = LastTickRecord {
        last_minted_ms: mark.last_minted.0,
        ahead_ms: mark.ahead.0,
        obeyed_reset,
    };
    let bytes = codec::seal(&record).map_err(io::Error::other)?;
    let path = data_dir.join(FILE);
    let fresh = sibling(&path, ".tmp");
    if disk.kind(&fresh)?.is_some() {
        disk.remove(&fresh)?;
    }
    let file = disk.create(&fresh)?;
    file.write_at(&bytes, 0)?;
    file.sync_all()?;
    disk.rename(&fresh, &path)
}

#[derive(Debug)]
pub(crate) struct LastTickWriter {
    stop: Sender<StoredMark>,
    thread: JoinHandle<()>,
}

impl LastTickWriter {
    /// Starts the thread that writes the mark and obeys resets, since both depend on the last
    /// minted tick. Writes no mark below `before`, the one found at the start, until a reset
    /// discards it.
    pub(crate) fn start(
        disk: Arc<dyn Disk>,
        data_dir: PathBuf,
        minters: Arc<Minters>,
        before: LastTick,
    ) -> io::Result<LastTickWriter> {
        minters.take_over(before);
        let (stop, stopped) = channel::<StoredMark>();
        let thread = std::thread::Builder::new()
            .name("last-tick".to_owned())
            .spawn(move || {
                let mut failed = false;
                loop {
                    let (mark, is_last) =
                        match stopped.recv_timeout(Duration::from_millis(MARK_EVERY_MS)) {
                            Ok(mark) => (mark, true),
                            Err(RecvTimeoutError::Timeout) => {
                                minters.obey_reset();
                                (minters.mark(), false)
                            }
                            Err(RecvTimeoutError::Disconnected) => return,
                        };
                    match write(&*disk, &data_dir, mark, minters.obeyed_reset()) {
                        Ok(()) => failed = false,
                        // Logged once, not four times per second.
                        Err(error) if !failed => {
                            failed = true;
                            tracing::warn!("{FILE} cannot be written: {error}; minting continues");
                        }
                        Err(_) => {}
                    }
                    if is_last {
                        return;
                    }
                }
            })?;
        Ok(LastTickWriter { stop, thread })
    }

    /// Writes the last mark and ends the thread. Gives up if the disk hangs.
    pub(crate) async fn stop(self, last: StoredMark) {
        let _ = self.stop.send(last);
        let deadline = tokio::time::Instant::now() + STOP_WAIT;
        while !self.thread.is_finished() {
            if tokio::time::Instant::now() > deadline {
                tracing::warn!("{FILE} was not written at shutdown: the disk does not respond");
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_comes_back_as_written() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(&OsDisk, folder.path()), Ok(LastTick::default()));
        let mark = StoredMark {
            last_minted: WallMs(1_795_228_001_118),
            ahead: WallMs(u64::MAX),
        };
        write(&OsDisk, folder.path(), mark, 9).unwrap();
        let kept = LastTick {
            mark: Some(mark),
            obeyed_reset: 9,
        };
        assert_eq!(read(&OsDisk, folder.path()), Ok(kept));
        assert!(!folder.path().join("last-tick.tmp").exists());
    }

    const NOON: u64 = 1_795_262_400_000;

    #[test]
    fn the_bytes_of_a_mark_do_not_change() {
        let record = LastTickRecord {
            last_minted_ms: 1,
            ahead_ms: 258,
            obeyed_reset: 0,
        };
        let mut bytes = vec![128, 1, 1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend([0; 8]);
        let crc = crc32c::crc32c(&bytes).to_le_bytes();
        let sealed = codec::seal(&record).unwrap();
        assert_eq!(sealed, [&bytes[..], &crc].concat());
        let golden = include_bytes!("../../../raft/tests/golden/data-v1/last-tick");
        assert_eq!(golden, &sealed[..]);
    }

    #[test]
    fn a_mark_without_a_checksum_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = [128, 1, 1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0];
        std::fs::write(folder.path().join(FILE), bytes).unwrap();
        assert!(look(&OsDisk, folder.path()).is_err());
        assert_eq!(read(&OsDisk, folder.path()), Ok(LastTick::default()));
    }

    #[test]
    fn a_mark_of_a_newer_program_stops_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = vec![128, 2, 1, 2, 3];
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        let path = folder.path().join(FILE);
        std::fs::write(&path, &bytes).unwrap();
        let stop = read(&OsDisk, folder.path()).unwrap_err();
        assert_eq!((stop.code(), stop.exit()), ("newer-format", 9), "{stop}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }

    #[test]
    fn an_impossible_mark_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let backwards = StoredMark {
            last_minted: WallMs(NOON),
            ahead: WallMs(NOON),
        };
        write(&OsDisk, folder.path(), backwards, 0).unwrap();
        assert!(look(&OsDisk, folder.path()).is_err());
        for damaged in [&[][..], &[128], &[128, 1, 7], &[128, 2, 7]] {
            std::fs::write(folder.path().join(FILE), damaged).unwrap();
            assert_eq!(
                read(&OsDisk, folder.path()),
                Ok(LastTick::default()),
                "{damaged:?}"
            );
        }
    }
}
