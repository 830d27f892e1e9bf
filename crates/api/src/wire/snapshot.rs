//! The replicated state as a file: the request, and the headers of the response.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::Flag;

/// The content type of the response.
pub const SNAPSHOT_CONTENT_TYPE: &str = "application/octet-stream";

/// Header: the cluster of the snapshot.
pub const CLUSTER_HEADER: &str = "seqd-cluster";
/// Header: the index of the last entry in the snapshot.
pub const INDEX_HEADER: &str = "seqd-snapshot-index";
/// Header: the term of that entry.
pub const TERM_HEADER: &str = "seqd-snapshot-term";
/// Header: the number of rows in the snapshot.
pub const ROWS_HEADER: &str = "seqd-snapshot-rows";
/// Header: the digest of the rows, as in the response of `GET /v1/cluster`.
pub const DIGEST_HEADER: &str = "seqd-snapshot-digest";

requests! {
    /// Options of a snapshot.
    #[derive(Copy)]
    SnapshotQuery {
        /// If true, the node returns its own state without the leader. Only such a request is
        /// served without a quorum.
        stale: bool as "Flag",
    }
}

/// The description of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotHead {
    /// The index of the last entry in the snapshot.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
    /// The cluster.
    pub cluster_id: String,
    /// The number of rows.
    pub rows: u64,
    /// The digest of its rows.
    pub digest: String,
    /// The size in bytes.
    pub bytes: u64,
}

impl SnapshotHead {
    /// Returns the headers of the response, without its length.
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

    /// Reads the headers of a response with a body of `bytes` bytes.
    ///
    /// # Errors
    /// Returns the name of a header that is missing or cannot be parsed.
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

    /// Returns the name under which the file is offered.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("seqd-{}-{}-{}.snap", self.cluster_id, self.index, self.term)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_parsed_to_their_values() {
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
