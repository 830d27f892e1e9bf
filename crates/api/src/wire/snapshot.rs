//! The state as a file: the request, and the headers of the answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::Flag;

/// The form of the answer.
pub const SNAPSHOT_CONTENT_TYPE: &str = "application/octet-stream";

/// Header: the cluster that the snapshot is of.
pub const CLUSTER_HEADER: &str = "seqd-cluster";
/// Header: the index of the last entry that is in the snapshot.
pub const INDEX_HEADER: &str = "seqd-snapshot-index";
/// Header: the term of that entry.
pub const TERM_HEADER: &str = "seqd-snapshot-term";
/// Header: how many rows the snapshot has.
pub const ROWS_HEADER: &str = "seqd-snapshot-rows";
/// Header: the digest of the rows, as `GET /v1/cluster` shows it.
pub const DIGEST_HEADER: &str = "seqd-snapshot-digest";

requests! {
    /// Options of a snapshot.
    #[derive(Copy)]
    SnapshotQuery {
        /// Whether to return the state of this node without the leader. Without a quorum, this is the only
        /// way.
        stale: bool as "Flag",
    }
}

/// The description of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotHead {
    /// Index of the last entry that is in it.
    pub index: u64,
    /// Term of that entry.
    pub term: u64,
    /// The cluster.
    pub cluster_id: String,
    /// How many rows it has.
    pub rows: u64,
    /// The digest of its rows.
    pub digest: String,
    /// Its size.
    pub bytes: u64,
}

impl SnapshotHead {
    /// The headers of the answer, without its length.
    #[must_use]
    pub fn headers(&self) -> [(&'static str, String); 5] {
        [
            (CLUSTER_HEADER, self.cluster_id.clone()),
            (INDEX_HEADER, self.index.to_string()),
            (TERM_HEADER, self.term.to_string()),
            (ROWS_HEADER, self.rows.to_string()),
            (DIGEST_HEADER, self.digest.clone()),
        ]
    }

    /// Reads the headers of an answer of `bytes` bytes; the error is the name of one that is
    /// missing or cannot be read.
    ///
    /// # Errors
    /// The name of the header.
    pub fn from_headers<'a>(
        header: impl Fn(&'static str) -> Option<&'a str>,
        bytes: u64,
    ) -> Result<Self, &'static str> {
        let text = |name| header(name).ok_or(name);
        let number = |name| text(name)?.parse::<u64>().map_err(|_| name);
        Ok(Self {
            index: number(INDEX_HEADER)?,
            term: number(TERM_HEADER)?,
            cluster_id: text(CLUSTER_HEADER)?.to_owned(),
            rows: number(ROWS_HEADER)?,
            digest: text(DIGEST_HEADER)?.to_owned(),
            bytes,
        })
    }

    /// The name that the file is offered under.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("seqd-{}-{}-{}.snap", self.cluster_id, self.index, self.term)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_headers_say_is_read_back() {
        let head = SnapshotHead {
            index: 42,
            term: 3,
            cluster_id: "01J9".to_owned(),
            rows: 7,
            digest: "ab".to_owned(),
            bytes: 1000,
        };
        let headers = head.headers();
        let find = |name: &'static str| {
            let found = headers.iter().find(|(key, _)| *key == name)?;
            Some(found.1.as_str())
        };
        assert_eq!(SnapshotHead::from_headers(find, 1000), Ok(head.clone()));
        let without = |name: &'static str| find(name).filter(|_| name != ROWS_HEADER);
        assert_eq!(SnapshotHead::from_headers(without, 1), Err(ROWS_HEADER));
        assert_eq!(head.file_name(), "seqd-01J9-42-3.snap");
    }
}
