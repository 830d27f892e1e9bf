//! Writes a snapshot under a temporary name and renames it at the end.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqd_disk::{Disk, DiskFile, FileWriter};
use seqd_state::codec;

use super::{
    BLOCK_BYTES, CRC_BYTES, Footer, FrameKind, MAGIC, SnapshotFile, SnapshotHeader, check_room,
    file_name,
};
use crate::checkpoint::{Tally, check_row};

/// The file is synced each time this many bytes were written: the final sync must not take seconds,
/// and the syncs of the log must not wait for so much writeback.
const SYNC_EVERY_BYTES: u64 = 4 << 20;

/// A snapshot that is being written. If it is dropped before [`SnapshotWriter::finish`], its file
/// is removed.
pub struct SnapshotWriter {
    out: BufWriter<FileWriter>,
    dir: PathBuf,
    tmp: TmpFile,
    header: SnapshotHeader,
    block: Vec<u8>,
    crc: u32,
    len: u64,
    synced: u64,
    tally: Tally,
}

/// A file that is removed when it is dropped, unless it was given its final name.
pub(super) struct TmpFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    named: bool,
}

impl TmpFile {
    /// Creates the file, which must not exist yet.
    pub(super) fn create(
        disk: &Arc<dyn Disk>,
        path: PathBuf,
    ) -> io::Result<(TmpFile, Arc<dyn DiskFile>)> {
        let file = disk.create(&path)?;
        let tmp = TmpFile {
            disk: Arc::clone(disk),
            path,
            named: false,
        };
        Ok((tmp, file))
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives a synced file its final name, durably.
    pub(super) fn rename(&mut self, dir: &Path, name: &str) -> io::Result<PathBuf> {
        let path = dir.join(name);
        self.disk.rename(&self.path, &path)?;
        self.named = true;
        self.disk.sync_dir(dir)?;
        Ok(path)
    }
}

impl Drop for TmpFile {
    fn drop(&mut self) {
        if !self.named {
            // If this fails, the next start removes the file.
            let _ = self.disk.remove(&self.path);
        }
    }
}

impl SnapshotWriter {
    /// Begins a snapshot in `dir`, which must exist.
    pub fn create(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        header: SnapshotHeader,
    ) -> io::Result<SnapshotWriter> {
        let path = dir.join(file_name(header.index, header.term) + ".tmp");
        let bytes = codec::encode(&header).map_err(too_large)?;
        if disk.kind(&path)?.is_some() {
            // The remains of a failed attempt that could not remove its file.
            disk.remove(&path)?;
        }
        let (tmp, file) = TmpFile::create(disk, path)?;
        let out = BufWriter::with_capacity(BLOCK_BYTES, FileWriter::new(file));
        let mut writer = SnapshotWriter {
            out,
            dir: dir.to_owned(),
            tmp,
            header,
            block: Vec::with_capacity(2 * BLOCK_BYTES),
            crc: crc32c::crc32c(MAGIC),
            len: MAGIC.len() as u64,
            synced: 0,
            tally: Tally::default(),
        };
        writer.out.write_all(MAGIC)?;
        writer.frame(FrameKind::Header, &bytes)?;
        Ok(writer)
    }

    /// Writes one row. Each key occurs once, and the order is preserved.
    pub fn row(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        check_row(key, value)?;
        for part in [key, value] {
            // A row has at most 1 MiB, so its lengths fit.
            self.block
                .extend_from_slice(&(part.len() as u32).to_le_bytes());
        }
        self.block.extend_from_slice(key);
        self.block.extend_from_slice(value);
        self.tally.add(key, value);
        if self.block.len() >= BLOCK_BYTES {
            self.close_block()
        } else {
            Ok(())
        }
    }

    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Completes the file, syncs it and gives it its final name, durably.
    pub fn finish(mut self) -> io::Result<SnapshotFile> {
        let footer = self.close()?;
        self.out.get_ref().file().sync_all()?;
        let name = file_name(self.header.index, self.header.term);
        let path = self.tmp.rename(&self.dir, &name)?;
        Ok(SnapshotFile::new(path, self.header, footer, self.len))
    }

    /// Completes the file and removes its name: it exists as long as the returned handle, and is
    /// not synced. The returned path is its former one.
    pub fn finish_unnamed(mut self) -> io::Result<(Arc<dyn DiskFile>, SnapshotFile)> {
        let footer = self.close()?;
        let file = Arc::clone(self.out.get_ref().file());
        let path = self.tmp.path().to_owned();
        drop(self.tmp);
        let described = SnapshotFile::new(path, self.header, footer, self.len);
        Ok((file, described))
    }

    fn close(&mut self) -> io::Result<Footer> {
        if !self.block.is_empty() {
            self.close_block()?;
        }
        let Tally { rows, digest } = self.tally;
        let footer = Footer { rows, digest };
        self.frame(
            FrameKind::Footer,
            &codec::encode(&footer).map_err(too_large)?,
        )?;
        self.out.flush()?;
        Ok(footer)
    }

    fn close_block(&mut self) -> io::Result<()> {
        let mut block = std::mem::take(&mut self.block);
        self.frame(FrameKind::Block, &block)?;
        block.clear();
        self.block = block;
        if self.len - self.synced >= SYNC_EVERY_BYTES {
            self.out.flush()?;
            self.out.get_ref().file().sync_data()?;
            self.synced = self.len;
            check_room(self.tmp.disk(), &self.dir, SYNC_EVERY_BYTES)?;
        }
        Ok(())
    }

    fn frame(&mut self, kind: FrameKind, payload: &[u8]) -> io::Result<()> {
        // The bounds of the header and the rows keep every payload below 2 MiB.
        let length = (payload.len() as u32).to_le_bytes();
        for part in [&[kind as u8][..], &length, payload] {
            self.crc = crc32c::crc32c_append(self.crc, part);
            self.out.write_all(part)?;
            self.len += part.len() as u64;
        }
        self.out.write_all(&self.crc.to_le_bytes())?;
        self.len += CRC_BYTES as u64;
        Ok(())
    }
}

fn too_large(error: codec::CodecError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}
