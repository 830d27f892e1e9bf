//! Fuzz targets that accept any bytes: snapshot files and the records of a data folder.
//! `docs/internals/FUZZING.md` lists the targets.
//!
//! A target panics when a guarantee is violated. The tests below run the stored inputs of
//! `tests/fuzz/corpus`, so that these are checked without a fuzzer too.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqd_disk::Disk;
use seqd_disk::simulated::SimulatedDisk;
use seqd_state::codec::{self, Versioned};

use crate::checkpoint::{Checkpoint, Row, Tally, batch};
use crate::cluster_id::time_of_id;
use crate::folder::{BootRecord, Identity, RefusedRecord};
use crate::records::{
    self, LogEntry, LogIdRecord, PeersRecord, StoredMembershipRecord, VoteRecord,
};
use crate::snapshot_file::{Receiver, SnapshotHeader, SnapshotReader, SnapshotWriter, summary};

const DIR: &str = "/data/snap";
const CLUSTER: &str = "cluster-a";

/// The longest error message about unreadable bytes.
const MOST_WORDS: usize = 1024;

/// Expands a short form into a snapshot: adds the checksums and the digest, which a fuzzer cannot
/// guess. Each frame is a byte for its kind, a little-endian length of two bytes, and its content.
fn snapshot(mut short: &[u8]) -> Vec<u8> {
    let mut bytes = b"seqdsnap".to_vec();
    let mut crc = crc32c::crc32c(&bytes);
    let mut tally = Tally::default();
    while let [what, low, high, rest @ ..] = short {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (content, rest) = rest.split_at(length);
        short = rest;
        let (kind, payload) = match what % 6 {
            0 => (1, header(content)),
            1 => (2, block(content, &mut tally)),
            2 => (3, footer(&tally)),
            other => (other - 2, content.to_vec()),
        };
        let frame = [&[kind][..], &(payload.len() as u32).to_le_bytes(), &payload].concat();
        crc = crc32c::crc32c_append(crc, &frame);
        bytes.extend_from_slice(&frame);
        bytes.extend_from_slice(&crc.to_le_bytes());
    }
    bytes
}

fn header(content: &[u8]) -> Vec<u8> {
    let header = SnapshotHeader {
        cluster_id: CLUSTER.to_owned(),
        index: content.len() as u64,
        term: 3,
        log_id: content.to_vec(),
        membership: Vec::new(),
    };
    match codec::encode(&header) {
        Ok(bytes) => bytes,
        Err(error) => panic!("a header is not written: {error}"),
    }
}

/// Encodes rows with one-byte lengths as a block.
fn block(mut content: &[u8], tally: &mut Tally) -> Vec<u8> {
    let mut block = Vec::new();
    while let [key, value, rest @ ..] = content {
        let (key, rest) = rest.split_at(usize::from(*key).min(rest.len()));
        let (value, rest) = rest.split_at(usize::from(*value).min(rest.len()));
        content = rest;
        block.extend_from_slice(&(key.len() as u32).to_le_bytes());
        block.extend_from_slice(&(value.len() as u32).to_le_bytes());
        block.extend_from_slice(key);
        block.extend_from_slice(value);
        tally.add(key, value);
    }
    block
}

fn footer(tally: &Tally) -> Vec<u8> {
    // Kind, version, rows and digest.
    [
        &[67, 1][..],
        &tally.rows.to_le_bytes(),
        &tally.digest.to_le_bytes(),
    ]
    .concat()
}

/// A snapshot file, read from the disk and received from a peer. The first byte selects whether the
/// rest is used unchanged or expanded (see `snapshot`), and the sizes of the pieces from the peer.
///
/// An accepted file has the counted rows in order, and writing it again yields the same rows. A
/// rejected file has a bounded error message in both cases.
pub fn store_snapshot(input: &[u8]) {
    let Some((how, rest)) = input.split_first() else {
        return;
    };
    let bytes = if how & 1 == 0 {
        snapshot(rest)
    } else {
        rest.to_vec()
    };
    let simulated = SimulatedDisk::holding(DIR);
    let path = PathBuf::from(DIR).join("7-3.snap");
    simulated.put(&path, &bytes);
    let disk: Arc<dyn Disk> = Arc::new(simulated);
    let read = read(&*disk, &path);
    let received = received(&disk, &bytes, 8 * usize::from(*how) + 16);
    let (header, rows) = match read {
        Ok(read) => read,
        Err(error) => {
            worded(&error);
            assert!(error.to_string().starts_with(DIR), "{error}");
            assert!(
                received.is_err(),
                "refused from the disk, and taken from a peer: {error}"
            );
            return;
        }
    };
    if let Err(error) = received {
        worded(&error);
        assert!(header.cluster_id != CLUSTER, "{error}");
    }
    let mut tally = Tally::default();
    for (key, value) in &rows {
        tally.add(key, value);
    }
    match summary(&*disk, &path) {
        Ok(file) => assert_eq!((file.rows, file.digest), (tally.rows, tally.digest)),
        Err(error) => panic!("a snapshot that is read has no summary: {error}"),
    }
    assert_eq!(written(&disk, &header, &rows).ok(), Some((header, rows)));
}

fn read(disk: &dyn Disk, path: &Path) -> io::Result<(SnapshotHeader, Vec<Row>)> {
    let reader = SnapshotReader::open(disk, path)?;
    let header = reader.header().clone();
    let rows: Vec<Row> = reader.rows().collect::<io::Result<_>>()?;
    Ok((header, rows))
}

fn received(disk: &Arc<dyn Disk>, bytes: &[u8], piece: usize) -> io::Result<(u64, u64)> {
    let mut receiver = Receiver::create(disk, DIR.as_ref())?;
    for piece in bytes.chunks(piece) {
        receiver.write(piece)?;
    }
    Ok(receiver.finish(CLUSTER)?.position())
}

fn written(
    disk: &Arc<dyn Disk>,
    header: &SnapshotHeader,
    rows: &[Row],
) -> io::Result<(SnapshotHeader, Vec<Row>)> {
    let again = Path::new("/data/again");
    disk.create_dir_all(again)?;
    let mut writer = SnapshotWriter::create(disk, again, header.clone())?;
    for (key, value) in rows {
        writer.row(key, value)?;
    }
    read(&**disk, &writer.finish()?.path)
}

/// A record of a data folder. The first byte selects the type, and the checksum is added.
///
/// An accepted record is encoded to the same bytes.
pub fn store_record(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else {
        return;
    };
    match kind % 12 {
        0 | 1 => entry(rest),
        2 => position(rest),
        3 => one::<Identity>(rest),
        4 => one::<BootRecord>(rest),
        5 => one::<RefusedRecord>(rest),
        6 => one::<PeersRecord>(rest),
        7 => one::<Checkpoint>(rest),
        8 => one::<VoteRecord>(rest),
        9 => one::<LogIdRecord>(rest),
        10 => changes(rest),
        _ => {
            let text = String::from_utf8_lossy(rest);
            assert!(time_of_id(&text).is_none_or(|ms| ms < 1 << 48), "{text}");
        }
    }
}

/// An entry of the log. The first version of its record may contain the same data as the second
/// version, so the re-encoded entry is decoded again and compared.
fn entry(bytes: &[u8]) {
    let entry = match records::decode_entry(bytes) {
        Ok(entry) => entry,
        Err(error) => return worded(&error),
    };
    let encoded = |entry: &LogEntry| match entry.encode() {
        Ok(bytes) => bytes,
        Err(error) => panic!("an entry that was read cannot be written: {error}"),
    };
    let written = encoded(&entry);
    // The second byte is the version, which is the lowest version that supports such a payload.
    assert_eq!(written.len(), bytes.len());
    match records::decode_entry(&written) {
        Ok(again) => assert_eq!(encoded(&again), written),
        Err(error) => panic!("an entry that was written cannot be read: {error}"),
    }
}

/// The position that a checkpoint and a snapshot contain in addition to the rows: first a log ID,
/// then a membership.
fn position(bytes: &[u8]) {
    let (log_id, membership) = match bytes {
        [0, membership @ ..] => (&[][..], membership),
        [_, both @ ..] => both.split_at(both.len().min(18)),
        [] => return,
    };
    match records::restore_position(log_id, membership) {
        Ok((id, stored)) => {
            assert_eq!(id.is_none(), log_id.is_empty());
            for voter in stored.membership.voters() {
                assert!(stored.membership.nodes.contains_key(&voter));
            }
            one::<StoredMembershipRecord>(membership);
        }
        Err(error) => worded(&error),
    }
}

fn one<T: Versioned>(bytes: &[u8]) {
    let sealed = [bytes, &crc32c::crc32c(bytes).to_le_bytes()].concat();
    match codec::unseal::<T>(&sealed) {
        Ok(record) => {
            let again = codec::seal(&record);
            // Sets and maps may have another order and duplicate keys in the input.
            let length = again.as_ref().map_or(0, Vec::len);
            assert!(length > 0 && length <= sealed.len());
            let same = again.and_then(|bytes| codec::unseal::<T>(&bytes));
            assert!(same.is_ok(), "{:?}", same.err());
        }
        Err(error) => {
            let words = error.to_string();
            assert!(!words.is_empty() && words.len() <= MOST_WORDS, "{words}");
        }
    }
    assert!(codec::unseal::<T>(bytes).is_err() || bytes.len() > 4);
}

/// A checkpoint in the format of the file store.
fn changes(bytes: &[u8]) {
    let mut found = Vec::new();
    match batch::decode(bytes, &mut |key, value| found.push((key, value))) {
        Ok(applied) => {
            let mut again = Vec::new();
            let written = batch::encode(&found, &applied);
            let Ok(written) = written else {
                panic!("what was read cannot be written");
            };
            let same = batch::decode(&written, &mut |key, value| again.push((key, value)));
            assert_eq!(same.ok(), Some(applied));
            assert_eq!(again, found);
        }
        Err(error) => worded(&error),
    }
}

fn worded(error: &io::Error) {
    let words = error.to_string();
    assert!(!words.is_empty() && words.len() <= MOST_WORDS, "{words}");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use seqd_state::SequenceMode;

    use super::*;
    use crate::kept::{replay, seeds};
    use crate::records::{
        Ballot, EntryPayload, Member, MembershipRecord, PeerRecord, Start, SyncedPosition,
    };
    use crate::testing::{FolderBuilder, create_sequence, found_cluster};

    const NODE: FolderBuilder = FolderBuilder {
        cluster_id: CLUSTER,
        host: "127.0.0.1",
        term_entries: 40,
        began_ms: 1_767_225_600_000,
    };

    fn frame(what: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap();
        [&[what][..], &length.to_le_bytes(), content].concat()
    }

    #[test]
    fn kept_snapshots_are_read_or_refused_with_words() {
        let rows: &[u8] = b"\x02\x03abcde\x01\x00f";
        let (header, rows, end) = (frame(0, b"id"), frame(1, rows), frame(2, b""));
        let whole = [&[0][..], &header, &rows, &rows, &end].concat();
        let raw_footer = frame(5, &footer(&Tally::default()));
        let golden = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../raft/tests/golden/data-v1/snap/30-1.snap"
        );
        let golden = std::fs::read(golden).unwrap();
        let inputs = [
            [&[0][..], &header, &end].concat(),
            whole.clone(),
            [&whole[..], b"behind"].concat(),
            [&[0][..], &header, &rows].concat(),
            [&[2][..], &header, &rows, &raw_footer].concat(),
            [&[0][..], &rows, &header, &end].concat(),
            [
                &[0][..],
                &header,
                &frame(4, b"\xff\xff\0\0\x01\0\0\0"),
                &end,
            ]
            .concat(),
            [&[1][..], &snapshot(&whole[1..])].concat(),
            [&[65][..], &golden].concat(),
        ];
        replay("store_snapshot", &seeds(inputs), store_snapshot);
    }

    fn member() -> Member {
        Member {
            name: "n1".to_owned(),
            peer: "n1:7401".to_owned(),
            http: "http://n1:7400".to_owned(),
        }
    }

    fn records() -> Vec<(u8, Vec<u8>)> {
        let id = LogIdRecord { term: 3, index: 17 };
        let vote = VoteRecord {
            term: 4,
            node: 2,
            committed: true,
        };
        let stored = StoredMembershipRecord {
            log_id: Some(id),
            membership: MembershipRecord {
                configs: vec![[1].into(), [1, 2].into()],
                nodes: BTreeMap::from([(1, member()), (2, member())]),
            },
        };
        let synced = SyncedPosition {
            vote: Some(Ballot::from(vote)),
            last: Some(id),
        };
        let start = Start { boot: 5, nonce: 6 };
        let before = SyncedPosition::default();
        let peers = PeersRecord {
            cluster_id: CLUSTER.to_owned(),
            rows: vec![(
                2,
                PeerRecord {
                    start,
                    synced,
                    before,
                },
            )],
        };
        let identity = Identity {
            cluster_id: CLUSTER.to_owned(),
            node: 1,
            name: "n1".to_owned(),
            members: vec![(1, member())],
            founder: true,
            joined: false,
            ancestors: vec!["cluster-b".to_owned()],
        };
        let refused = RefusedRecord {
            code: "stale-folder".to_owned(),
            message: "why".to_owned(),
        };
        let applied = Checkpoint {
            index: 17,
            log_id: codec::encode(&id).unwrap(),
            membership: codec::encode(&stored).unwrap(),
            digest: 7,
        };
        let rows = [
            (b"sorder".to_vec(), Some(b"value".to_vec())),
            (b"sold".to_vec(), None),
        ];
        let both = [codec::encode(&id).unwrap(), codec::encode(&stored).unwrap()].concat();
        vec![
            (2, [&[1][..], &both].concat()),
            (2, [&[0][..], &codec::encode(&stored).unwrap()].concat()),
            (3, codec::encode(&identity).unwrap()),
            (4, codec::encode(&BootRecord { boot: 9 }).unwrap()),
            (5, codec::encode(&refused).unwrap()),
            (6, codec::encode(&peers).unwrap()),
            (7, codec::encode(&applied).unwrap()),
            (8, codec::encode(&vote).unwrap()),
            (9, codec::encode(&id).unwrap()),
            (10, batch::encode(&rows, &applied).unwrap()),
            (11, b"01KGOLDEN00000000000000001".to_vec()),
        ]
    }

    #[test]
    fn kept_records_are_written_as_they_were_read() {
        let commands = [
            None,
            Some(found_cluster(CLUSTER, 3)),
            Some(create_sequence("orders", SequenceMode::Strict, "text")),
        ];
        let mut entries: Vec<LogEntry> = commands
            .into_iter()
            .enumerate()
            .map(|(index, command)| NODE.entry(index as u64, command))
            .collect();
        entries.push(LogEntry {
            id: LogIdRecord { term: 1, index: 1 },
            payload: EntryPayload::Blank,
        });
        let entries = entries.iter().map(|entry| (0, entry.encode().unwrap()));
        let inputs = entries.chain(records());
        let inputs = inputs.map(|(kind, bytes)| [&[kind][..], &bytes].concat());
        replay("store_record", &seeds(inputs), store_record);
    }
}
