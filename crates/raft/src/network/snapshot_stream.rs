//! The body of a snapshot's transfer, read from the disk as it is sent, and the check of the bytes
//! that were sent before.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::sync::{Arc, OnceLock};

use futures_util::StreamExt;
use seqd_disk::{Disk, FileReader};
use seqd_guards::is_out;
use seqd_peers::wire::transport::Payload;

use crate::blocking;
use crate::storage::applied::SnapshotHandle;

/// Bytes per read.
const CHUNK: usize = 64 << 10;

/// Returns whether the snapshot begins with `bytes` bytes whose CRC-32C is `crc`.
pub(crate) async fn begins_with(
    disk: Arc<dyn Disk>,
    snapshot: &SnapshotHandle,
    (bytes, crc): (u64, u32),
) -> io::Result<bool> {
    if bytes == 0 || bytes > snapshot.len() {
        return Ok(false);
    }
    let path = snapshot.path().to_owned();
    blocking::run(move || {
        let mut file = disk.open_read(&path).and_then(FileReader::new)?.take(bytes);
        let (mut chunk, mut found) = (vec![0; CHUNK], 0);
        loop {
            match file.read(&mut chunk)? {
                0 => return Ok(found == crc || is_out!(KeptCompared)),
                read => found = crc32c::crc32c_append(found, &chunk[..read]),
            }
        }
    })
    .await
}

/// Returns the body: the length of the head, the head, and the file from byte `from`. If the file
/// cannot be read to its end, the disk's error is stored in `unread`, because the transfer itself
/// only shows that it broke.
pub(crate) async fn open(
    head: Vec<u8>,
    disk: Arc<dyn Disk>,
    (snapshot, from): (&SnapshotHandle, u64),
    unread: Arc<OnceLock<String>>,
) -> io::Result<Payload> {
    let path = snapshot.path().to_owned();
    let open = move || {
        let mut file = disk.open_read(&path).and_then(FileReader::new)?;
        file.seek(SeekFrom::Start(from))?;
        Ok(file)
    };
    let file = blocking::run(open).await?;
    let mut start = u32::try_from(head.len())
        .map_err(io::Error::other)?
        .to_le_bytes()
        .to_vec();
    start.extend_from_slice(&head);
    let first = futures_util::stream::iter([Ok::<_, io::Error>(start)]);
    let rest = futures_util::stream::try_unfold((file, unread), |(file, unread)| async move {
        let read = blocking::run(|| next_chunk(file)).await.inspect_err(|e| {
            let _ = unread.set(e.to_string());
        })?;
        Ok(read.map(|(chunk, file)| (chunk, (file, unread))))
    });
    Ok(Payload::Stream(first.chain(rest).boxed()))
}

fn next_chunk(mut file: FileReader) -> io::Result<Option<(Vec<u8>, FileReader)>> {
    let mut chunk = vec![0; CHUNK];
    let read = file.read(&mut chunk)?;
    chunk.truncate(read);
    Ok((read > 0).then_some((chunk, file)))
}

#[cfg(test)]
mod tests {
    use seqd_disk::OsDisk;
    use seqd_store::snapshot_file::{SnapshotFile, SnapshotHeader};

    use super::*;

    #[tokio::test]
    async fn a_transfer_continues_only_after_bytes_of_the_same_snapshot() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("7-1.snap");
        let bytes = vec![7; 2 * CHUNK + 1];
        std::fs::write(&path, &bytes).unwrap();
        let snapshot = SnapshotHandle::Kept(SnapshotFile {
            path,
            header: SnapshotHeader::default(),
            rows: 0,
            digest: 0,
            len: bytes.len() as u64,
        });
        let begins = async |length: usize, crc: u32| {
            let kept = (length as u64, crc);
            begins_with(Arc::new(OsDisk), &snapshot, kept)
                .await
                .unwrap()
        };
        for length in [1, CHUNK, CHUNK + 1, bytes.len()] {
            let crc = crc32c::crc32c(&bytes[..length]);
            assert!(begins(length, crc).await, "{length}");
            assert!(
                !begins(length, crc ^ 1).await,
                "a transfer goes on behind {length} bytes of another snapshot"
            );
        }
        assert!(!begins(0, 0).await);
        assert!(!begins(bytes.len() + 1, crc32c::crc32c(&bytes)).await);
    }
}
