//! The two records that a checkpoint stores in addition to the rows of the state, and their
//! encoding.
//!
//! Each has its own CRC, because the digest covers only the rows of the state.

use std::io;

use seqd_state::codec::{self, Versioned};
use serde::{Deserialize, Serialize};

use super::Checkpoint;
use crate::disk_errors::newer;

/// The owner of the rows. Written when the folder is created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    pub(super) cluster_id: String,
    /// The number in the name of the folder, so that a manually renamed folder is not used.
    pub(super) generation: u64,
}

impl Versioned for Format {
    const KIND: u8 = 64;
    const VERSION: u8 = 1;
    const MAX_BYTES: usize = 4 << 10;
}

impl Versioned for Checkpoint {
    const KIND: u8 = 65;
    const VERSION: u8 = 1;
    const MAX_BYTES: usize = 256 << 10;
}

/// Encodes a record: the value, then the CRC of its bytes.
pub(super) fn seal<T: Versioned>(record: &T) -> io::Result<Vec<u8>> {
    codec::seal(record).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// Decodes a record. Fails with [`io::ErrorKind::Unsupported`] if a newer program wrote it.
pub(super) fn unseal<T: Versioned>(bytes: &[u8]) -> io::Result<T> {
    codec::unseal(bytes).map_err(|error| {
        if error.is_newer() {
            return newer(error.to_string());
        }
        let why = format!("a record of {} bytes: {error}", bytes.len());
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied() -> Checkpoint {
        Checkpoint {
            index: 258,
            log_id: vec![1, 2],
            membership: vec![3],
            digest: 4,
        }
    }

    #[test]
    fn golden_bytes_of_the_format_record() {
        let record = Format {
            cluster_id: "c1".to_owned(),
            generation: 7,
        };
        let bytes = seal(&record).unwrap();
        let body = [
            64, 1, 2, 0, 0, 0, 0, 0, 0, 0, b'c', b'1', 7, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(bytes[..body.len()], body);
        assert_eq!(bytes.len(), body.len() + codec::SEAL_BYTES);
        assert_eq!(unseal::<Format>(&bytes).unwrap(), record);
    }

    #[test]
    fn golden_bytes_of_the_applied_record() {
        let bytes = seal(&applied()).unwrap();
        let mut body = vec![65, 1, 2, 1, 0, 0, 0, 0, 0, 0];
        body.extend([2, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        body.extend([1, 0, 0, 0, 0, 0, 0, 0, 3]);
        body.extend(4_u128.to_le_bytes());
        assert_eq!(bytes[..body.len()], body);
        assert_eq!(unseal::<Checkpoint>(&bytes).unwrap(), applied());
    }

    #[test]
    fn a_newer_record_is_distinguished_from_a_damaged_one() {
        let mut body = codec::encode(&applied()).unwrap();
        body[1] = 2;
        let crc = crc32c::crc32c(&body);
        body.extend(crc.to_le_bytes());
        let error = unseal::<Checkpoint>(&body).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert_eq!(
            unseal::<Format>(&[]).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}
