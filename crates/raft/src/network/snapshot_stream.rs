//! The body of a snapshot's transfer, read from the disk as it is sent.

use std::io;
use std::sync::{Arc, OnceLock};

use futures_util::StreamExt;
use seqd_disk::{Disk, FileReader};

use crate::blocking;
use crate::storage::applied::SnapshotHandle;
use crate::wire::transport::Payload;

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// Length of the head, head, file. The disk's error if the file
/// cannot be read to its end is in `unread` then: of the transfer no more is seen than that it broke.
pub(crate) async fn open(
    head: Vec<u8>,
    disk: Arc<dyn Disk>,
    snapshot: &SnapshotHandle,
    unread: Arc<OnceLock<String>>,
) -> io::Result<Payload> {
    let path = snapshot.path().to_owned();
    let file = blocking::run(move || disk.open_read(&path).and_then(FileReader::new)).await?;
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
    let read = io::Read::read(&mut file, &mut chunk)?;
    chunk.truncate(read);
    Ok((read > 0).then_some((chunk, file)))
}
