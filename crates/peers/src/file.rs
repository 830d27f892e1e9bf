//! The file `peers`: the table, at most a second old. It preserves the records of a cluster after
//! all of its nodes stopped.
//!
//! The table only serves to refuse starts, so a lost or damaged file is harmless apart from the
//! lost records. A file of a newer program is an error and stays unchanged.

use seqd_store::disk_errors::is_newer;
use seqd_store::folder::Folder;
use seqd_store::stop::Stop;

use crate::table::Table;

/// Returns the table stored for this cluster. It is empty if the file is missing or damaged.
pub fn load(folder: &Folder, cluster_id: Option<&str>) -> Result<Table, Stop> {
    let path = folder.root().join("peers");
    Ok(match folder.peers() {
        Ok(Some(record)) if Some(record.cluster_id.as_str()) == cluster_id => {
            Table::from_rows(record.rows)
        }
        Ok(_) => Table::default(),
        Err(error) if is_newer(&error) => return Err(Stop::unusable(&path, &error)),
        Err(error) => {
            tracing::warn!(
                path = %path.display(),
                %error,
                "the positions that the other nodes have acknowledged are lost; this node \
                 receives them again, and until then it may not detect an old copy of another \
                 node's folder"
            );
            Table::default()
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seqd_store::records::{self, Ballot, LogIdRecord, PeersRecord, Start, SyncedPosition};
    use seqd_store::testing::small_file_of_a_newer_program;

    use super::*;

    fn table() -> Table {
        let mut table = Table::default();
        let synced = SyncedPosition {
            vote: Some(Ballot {
                term: 5,
                committed: true,
                node: 2,
            }),
            last: Some(LogIdRecord {
                term: 5,
                index: 100,
            }),
        };
        table.record(1, Start { boot: 3, nonce: 7 }, synced);
        table
    }

    fn stored(folder: &Folder) {
        let record = PeersRecord {
            cluster_id: "C".to_owned(),
            rows: table().rows(),
        };
        folder.write_peers(&record).unwrap();
    }

    #[test]
    fn a_table_comes_back_to_its_own_cluster_only() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(Arc::new(seqd_disk::OsDisk), dir.path()).unwrap();
        assert_eq!(load(&folder, Some("C")).unwrap().rows(), []);
        stored(&folder);
        assert_eq!(load(&folder, Some("C")).unwrap().rows(), table().rows());
        assert_eq!(load(&folder, Some("D")).unwrap().rows(), []);
        assert_eq!(load(&folder, None).unwrap().rows(), []);
    }

    #[test]
    fn a_damaged_table_is_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(Arc::new(seqd_disk::OsDisk), dir.path()).unwrap();
        stored(&folder);
        let path = dir.path().join("peers");
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            std::fs::write(&path, bad).unwrap();
            assert_eq!(load(&folder, Some("C")).unwrap().rows(), [], "byte {at}");
        }
    }

    #[test]
    fn a_table_of_a_newer_program_stops_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(Arc::new(seqd_disk::OsDisk), dir.path()).unwrap();
        stored(&folder);
        let path = dir.path().join("peers");
        let bytes = small_file_of_a_newer_program(&std::fs::read(&path).unwrap());
        std::fs::write(&path, &bytes).unwrap();
        let stop = load(&folder, Some("C")).unwrap_err();
        assert_eq!((stop.code(), stop.exit()), ("newer-format", 9), "{stop}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }

    #[test]
    fn the_bytes_of_a_table_are_fixed() {
        let record = PeersRecord {
            cluster_id: "C".to_owned(),
            rows: table().rows(),
        };
        let bytes = records::encode(&record).unwrap();
        let hex = data_encoding::HEXLOWER.encode(&bytes);
        assert_eq!(
            hex,
            "6701010000000000000043010000000000000001000000000000000300000000000000070000000000000001050000000000000001020000000000000001050000000000000064000000000000000000"
        );
    }
}
