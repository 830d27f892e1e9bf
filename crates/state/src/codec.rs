//! The codec: the only place where values are converted to bytes and back.
//!
//! Everything written to a disk or sent to a peer has the form `[kind][version][body]`: one byte
//! for the type, one byte for its version, and the value in bincode with fixed-width integers. A
//! reader refuses an unknown kind or version.
//!
//! bincode is named in this file alone. Its fixed-width form is byte-equal to that of another codec
//! (wincode), so stored bytes do not depend on this library.
//!
//! Kinds 1 to 63 belong to this crate, and kinds 64 to 127 to the crate above it.

mod bytes;
pub mod frame;

pub use bytes::Bytes;

use bincode::Options;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::level::Level;

/// The maximum size of an encoded value, unless its type sets its own.
///
/// At sixteen mebibytes, the largest entry that `entry` allows is far below it, and a length read
/// from a damaged file cannot make the reader allocate more.
pub const LIMIT_BYTES: usize = 16 << 20;

/// The size of kind and version.
pub const HEADER_BYTES: usize = 2;

/// The size of the seal after a value: the CRC-32C of the value's bytes, little-endian.
pub const SEAL_BYTES: usize = 4;

/// A value with a kind in the table of kinds.
///
/// A change of the encoded form increments `VERSION`. The type then has the newest form. Each older
/// form is a frozen mirror struct, which [`Versioned::decode_body`] reads and converts and which
/// [`Versioned::encode_body`] writes as long as a cluster may be at a level that requires it.
/// Golden bytes in the tests of each implementing crate cover every version.
pub trait Versioned: Serialize + DeserializeOwned {
    /// Never reused for another type.
    const KIND: u8;
    const VERSION: u8;
    /// The maximum size of the encoded value, header included.
    const MAX_BYTES: usize = LIMIT_BYTES;

    /// The version that a cluster at this level writes. Override it whenever `VERSION` changes: a
    /// cluster below the level that introduces the new version cannot read that version.
    #[must_use]
    fn version_at(_: Level) -> u8 {
        Self::VERSION
    }

    /// Reads a body of any version up to `VERSION`.
    fn decode_body(version: u8, body: &[u8]) -> Result<Self, CodecError> {
        if version == Self::VERSION {
            return from_body(Self::KIND.into(), body, Self::MAX_BYTES);
        }
        Err(never_written(Self::KIND.into(), version))
    }

    /// Appends the body in a version up to `VERSION`.
    fn encode_body(&self, version: u8, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
        if version == Self::VERSION {
            return to_body(Self::KIND.into(), self, bytes);
        }
        Err(CodecError::NotInVersion {
            kind: Self::KIND.into(),
            version,
        })
    }
}

/// The reason why bytes cannot be decoded or a value cannot be encoded. Kinds above 255 are frames.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    #[error("no bytes to decode: a value has at least {HEADER_BYTES}")]
    Empty,
    #[error("kind {found} where kind {expected} was expected")]
    WrongKind { found: u8, expected: u8 },
    #[error("kind {kind} in version {found}: this program supports versions up to {known}")]
    NewerVersion { kind: u16, found: u8, known: u8 },
    #[error("this program does not support kind {kind} in version {version}")]
    UnknownKind { kind: u16, version: u8 },
    #[error("level {found}: this program supports levels up to {known}")]
    NewerLevel { found: Level, known: Level },
    #[error("kind {kind}: this value cannot be written in version {version}")]
    NotInVersion { kind: u16, version: u8 },
    #[error("kind {kind} is malformed: {reason}")]
    Malformed { kind: u16, reason: String },
    #[error("its checksum does not match")]
    Checksum,
    #[error("kind {kind} would have more than {limit} bytes")]
    TooLarge { kind: u16, limit: usize },
}

impl CodecError {
    /// Returns whether a newer program wrote the bytes. Nothing is damaged then; the remedy is to
    /// start the newer program again.
    #[must_use]
    pub fn is_newer(&self) -> bool {
        matches!(
            self,
            Self::NewerVersion { .. } | Self::UnknownKind { .. } | Self::NewerLevel { .. }
        )
    }
}

/// Encodes header and body in the newest version.
pub fn encode<T: Versioned>(value: &T) -> Result<Vec<u8>, CodecError> {
    encode_version(value, T::VERSION)
}

pub fn encode_version<T: Versioned>(value: &T, version: u8) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::with_capacity(64);
    bytes.extend_from_slice(&[T::KIND, version]);
    value.encode_body(version, &mut bytes)?;
    if bytes.len() > T::MAX_BYTES {
        return Err(CodecError::TooLarge {
            kind: T::KIND.into(),
            limit: T::MAX_BYTES,
        });
    }
    Ok(bytes)
}

/// Decodes a value of any version. Bytes after the value are an error.
pub fn decode<T: Versioned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (version, body) = header::<T>(bytes)?;
    T::decode_body(version, body)
}

/// Returns the version in which a value of this type was written, and its body.
pub(crate) fn header<T: Versioned>(bytes: &[u8]) -> Result<(u8, &[u8]), CodecError> {
    let [kind, version, body @ ..] = bytes else {
        return Err(CodecError::Empty);
    };
    if *kind != T::KIND {
        return Err(CodecError::WrongKind {
            found: *kind,
            expected: T::KIND,
        });
    }
    if *version > T::VERSION {
        return Err(CodecError::NewerVersion {
            kind: T::KIND.into(),
            found: *version,
            known: T::VERSION,
        });
    }
    Ok((*version, body))
}

#[must_use]
pub fn never_written(kind: u16, version: u8) -> CodecError {
    CodecError::Malformed {
        kind,
        reason: format!("version {version} was never written"),
    }
}

/// Encodes the value and appends its checksum, for a file or a row of its own.
pub fn seal<T: Versioned>(value: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = encode(value)?;
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    Ok(bytes)
}

/// Decodes the output of [`seal`]. Damaged bytes are reported as [`CodecError::Checksum`], so any
/// other error concerns intact bytes.
pub fn unseal<T: Versioned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (value, crc) = bytes
        .split_last_chunk::<SEAL_BYTES>()
        .ok_or(CodecError::Empty)?;
    if crc32c::crc32c(value) != u32::from_le_bytes(*crc) {
        return Err(CodecError::Checksum);
    }
    decode(value)
}

/// Appends a body; `value` may be a mirror struct of an older version.
pub fn to_body(kind: u16, value: &impl Serialize, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
    // No limit is set: bincode would traverse the value once more to add up its size.
    bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .serialize_into(bytes, value)
        .map_err(|error| CodecError::Malformed {
            kind,
            reason: error.to_string(),
        })
}

/// Returns the size of a body without encoding it.
pub(crate) fn body_bytes(kind: u16, value: &impl Serialize) -> Result<usize, CodecError> {
    let malformed = |reason: String| CodecError::Malformed { kind, reason };
    let bytes = bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .serialized_size(value);
    let bytes = bytes.map_err(|error| malformed(error.to_string()))?;
    usize::try_from(bytes).map_err(|error| malformed(error.to_string()))
}

/// Decodes a body; `T` may be a mirror struct of an older version.
pub fn from_body<T: DeserializeOwned>(
    kind: u16,
    body: &[u8],
    max_bytes: usize,
) -> Result<T, CodecError> {
    bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .with_limit(max_bytes.saturating_sub(HEADER_BYTES) as u64)
        .reject_trailing_bytes()
        .deserialize(body)
        .map_err(|error| CodecError::Malformed {
            kind,
            reason: error.to_string(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Note {
        number: u32,
        text: String,
    }

    impl Versioned for Note {
        const KIND: u8 = 63;
        const VERSION: u8 = 3;
        const MAX_BYTES: usize = 64;
    }

    fn note() -> Note {
        Note {
            number: 7,
            text: "ab".to_owned(),
        }
    }

    /// The encoded note with one byte changed.
    fn altered(at: usize, byte: u8) -> Vec<u8> {
        let mut bytes = encode(&note()).unwrap();
        bytes[at] = byte;
        bytes
    }

    #[track_caller]
    fn assert_malformed(bytes: &[u8]) {
        let found = decode::<Note>(bytes);
        assert!(
            matches!(found, Err(CodecError::Malformed { .. })),
            "{found:?}"
        );
    }

    #[test]
    fn the_bytes_are_kind_version_and_fixed_width_little_endian() {
        let bytes = encode(&note()).unwrap();
        assert_eq!(
            bytes,
            [63, 3, 7, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, b'a', b'b']
        );
        assert_eq!(decode::<Note>(&bytes).unwrap(), note());
    }

    #[test]
    fn each_flipped_bit_of_a_sealed_value_is_found() {
        let sealed = seal(&note()).unwrap();
        assert_eq!(unseal::<Note>(&sealed).unwrap(), note());
        for bit in 0..8 * sealed.len() {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let found = unseal::<Note>(&damaged);
            assert_eq!(found, Err(CodecError::Checksum), "bit {bit}");
        }
        for end in 0..sealed.len() {
            assert!(unseal::<Note>(&sealed[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_newer_sealed_value_is_distinguished_from_a_damaged_one() {
        let mut bytes = altered(1, 4);
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        let found = unseal::<Note>(&bytes);
        assert!(matches!(found, Err(CodecError::NewerVersion { .. })));
    }

    #[test]
    fn an_empty_input_is_no_value() {
        assert_eq!(unseal::<Note>(&[1, 2, 3]), Err(CodecError::Empty));
        assert_eq!(decode::<Note>(&[]), Err(CodecError::Empty));
        assert_eq!(decode::<Note>(&[63]), Err(CodecError::Empty));
    }

    #[test]
    fn another_kind_is_refused() {
        let other = CodecError::WrongKind {
            found: 62,
            expected: 63,
        };
        assert_eq!(decode::<Note>(&altered(0, 62)), Err(other));
    }

    #[test]
    fn a_newer_version_is_named() {
        let newer = CodecError::NewerVersion {
            kind: 63,
            found: 4,
            known: 3,
        };
        assert_eq!(decode::<Note>(&altered(1, 4)), Err(newer));
    }

    #[test]
    fn an_unwritten_version_cut_and_trailing_bytes_and_a_huge_length_are_malformed() {
        assert_malformed(&altered(1, 0));
        let mut bytes = encode(&note()).unwrap();
        for end in HEADER_BYTES..bytes.len() {
            assert_malformed(&bytes[..end]);
        }
        bytes.push(0);
        assert_malformed(&bytes);
        // Nothing is allocated for a length above the limit.
        assert_malformed(&[63, 3, 7, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 127]);
    }

    #[test]
    fn a_value_over_its_limit_is_neither_written_nor_read() {
        let large = Note {
            number: 7,
            text: "x".repeat(64),
        };
        let too_large = CodecError::TooLarge {
            kind: 63,
            limit: 64,
        };
        assert_eq!(encode(&large), Err(too_large));
        let fits = Note {
            number: 7,
            text: "x".repeat(50),
        };
        assert_eq!(encode(&fits).unwrap().len(), 64);
    }
}
