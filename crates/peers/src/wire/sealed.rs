//! The bytes of a message, with or without an envelope.
//!
//! ```text
//! sealed   [length of the envelope, u32 little-endian][envelope][message]
//! open     [message]
//! ```
//!
//! Envelope and message are values of the same codec, each with its kind and version.

use std::io;

use seqd_state::Level;
use seqd_state::codec::Versioned;
use seqd_store::records;

use super::envelope::Envelope;

pub struct Sealed<M> {
    pub envelope: Envelope,
    pub message: M,
}

/// Encodes a message after its envelope, in the version that a cluster at `level` reads.
pub fn seal<M: Versioned>(envelope: &Envelope, message: &M, level: Level) -> io::Result<Vec<u8>> {
    let envelope = records::encode(envelope)?;
    let length = u32::try_from(envelope.len()).map_err(io::Error::other)?;
    let mut bytes = [&length.to_le_bytes()[..], &envelope].concat();
    append(message, level, &mut bytes)?;
    Ok(bytes)
}

/// Encodes a message without an envelope. It is written in its first version, whatever the
/// cluster's level, because the receiver's version is not known yet.
pub fn encode<M: Versioned>(message: &M) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    append(message, Level::FIRST, &mut bytes)?;
    Ok(bytes)
}

fn append<M: Versioned>(message: &M, level: Level, bytes: &mut Vec<u8>) -> io::Result<()> {
    let start = bytes.len();
    let version = M::version_at(level);
    bytes.extend_from_slice(&[M::KIND, version]);
    message
        .encode_body(version, bytes)
        .map_err(io::Error::other)?;
    if bytes.len() - start > M::MAX_BYTES {
        return Err(io::Error::other(format!(
            "the message has more than {} bytes",
            M::MAX_BYTES
        )));
    }
    Ok(())
}

/// Returns the envelope, and the bytes of the message after it.
pub fn unseal(bytes: &[u8]) -> io::Result<(Envelope, &[u8])> {
    let cut = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the message ends in its envelope",
        )
    };
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(cut)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (envelope, message) = rest.split_at_checked(length).ok_or_else(cut)?;
    Ok((records::decode(envelope)?, message))
}

pub fn decode<M: Versioned>(bytes: &[u8]) -> io::Result<M> {
    records::decode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Start;

    /// A message for these tests.
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Question {
        timeout_ms: u64,
    }

    impl Versioned for Question {
        const KIND: u8 = 80;
        const VERSION: u8 = 1;
    }

    fn envelope() -> Envelope {
        Envelope {
            cluster_id: "C".to_owned(),
            from: 1,
            to: 2,
            start: Start { boot: 3, nonce: 4 },
        }
    }

    #[test]
    fn a_sealed_message_comes_back() {
        let bytes = seal(&envelope(), &Question { timeout_ms: 7 }, Level::FIRST).unwrap();
        let (found, message) = unseal(&bytes).unwrap();
        assert_eq!(found, envelope());
        assert_eq!(decode::<Question>(message).unwrap().timeout_ms, 7);
    }

    #[test]
    fn the_envelope_is_read_also_before_a_message_of_a_newer_version() {
        let mut bytes = seal(&envelope(), &Question { timeout_ms: 7 }, Level::FIRST).unwrap();
        let message = bytes.len() - encode(&Question { timeout_ms: 7 }).unwrap().len();
        bytes[message + 1] += 1;
        let (found, message) = unseal(&bytes).unwrap();
        assert_eq!(found, envelope());
        let error = decode::<Question>(message).err().unwrap();
        assert!(seqd_store::disk_errors::is_newer(&error), "{error}");
    }

    #[test]
    fn cut_messages_are_malformed() {
        let bytes = seal(&envelope(), &Question { timeout_ms: 7 }, Level::FIRST).unwrap();
        for end in 0..bytes.len() {
            let whole = unseal(&bytes[..end]).and_then(|(_, rest)| decode::<Question>(rest));
            assert!(whole.is_err(), "cut at {end}");
        }
    }
}
