//! The one place where values become bytes and come back.
//!
//! Everything that is written to a disk or sent to a peer is `[kind][version][body]`: a byte that
//! says what it is, a byte that says in which shape, and the value in bincode with fixed-width
//! integers. A reader refuses what it does not know; it never skips and never guesses.
//!
//! bincode is named in this file and nowhere else. Its fixed-width form is byte-equal to that of
//! another codec (wincode), so the bytes outlive the library.
//!
//! Kinds 1 to 63 belong to this crate, 64 to 127 to the crate above it.

use bincode::Options;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most bytes that one encoded value may have, unless its type says otherwise.
///
/// Sixteen mebibytes: the largest entry that the bounds in `command` allow stays far below it, and
/// a length read from a damaged file cannot make the reader allocate more.
pub const LIMIT_BYTES: usize = 16 << 20;

/// The bytes in front of every body: kind and version.
pub const HEADER_BYTES: usize = 2;

/// The bytes behind a value that is sealed: the CRC-32C of the value's bytes, little-endian.
pub const SEAL_BYTES: usize = 4;

/// A value with a place in the table of kinds.
///
/// Fields and variants are only ever appended, and every change of shape raises `VERSION`. Golden
/// bytes in the tests of each implementing crate hold that.
pub trait Versioned: Serialize + DeserializeOwned {
    /// What the value is. Never given to another type.
    const KIND: u8;
    /// The shape of the body.
    const VERSION: u8;
    /// The most bytes that the encoded value may have, header included.
    const MAX_BYTES: usize = LIMIT_BYTES;
}

/// Why bytes are not a value, or a value does not become bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// There is not even a header.
    #[error("no bytes to decode: a value has at least {HEADER_BYTES}")]
    Empty,
    /// The bytes are another kind of value.
    #[error("kind {found} where kind {expected} was expected")]
    WrongKind {
        /// The kind in the bytes.
        found: u8,
        /// The kind of the type that was asked for.
        expected: u8,
    },
    /// A newer program wrote the bytes.
    #[error("kind {kind} in version {found}: this program knows versions up to {known}")]
    NewerVersion {
        /// The kind in the bytes.
        kind: u8,
        /// The version in the bytes.
        found: u8,
        /// The newest version that this program knows.
        known: u8,
    },
    /// The body is damaged, cut short, too long, or breaks a rule of its type.
    #[error("kind {kind} is malformed: {reason}")]
    Malformed {
        /// The kind in the bytes.
        kind: u8,
        /// What the decoder says.
        reason: String,
    },
    /// The bytes of a sealed value are not those that were sealed.
    #[error("its checksum does not match")]
    Checksum,
    /// The value has more bytes than its type allows.
    #[error("kind {kind} would have more than {limit} bytes")]
    TooLarge {
        /// The kind of the value.
        kind: u8,
        /// The most bytes that it may have.
        limit: usize,
    },
}

/// The bytes of `value`, header included.
///
/// # Errors
/// [`CodecError::TooLarge`] if they are more than [`Versioned::MAX_BYTES`].
pub fn encode<T: Versioned>(value: &T) -> Result<Vec<u8>, CodecError> {
    let too_large = || CodecError::TooLarge {
        kind: T::KIND,
        limit: T::MAX_BYTES,
    };
    let size = options::<T>()
        .serialized_size(value)
        .map_err(|_| too_large())?;
    let size = usize::try_from(size).map_err(|_| too_large())?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + size);
    bytes.extend_from_slice(&[T::KIND, T::VERSION]);
    options::<T>()
        .serialize_into(&mut bytes, value)
        .map_err(|_| too_large())?;
    Ok(bytes)
}

/// The value that `bytes` hold.
///
/// # Errors
/// See [`CodecError`]; bytes after the value are an error too.
pub fn decode<T: Versioned>(bytes: &[u8]) -> Result<T, CodecError> {
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
            kind: *kind,
            found: *version,
            known: T::VERSION,
        });
    }
    let malformed = |reason: String| CodecError::Malformed {
        kind: T::KIND,
        reason,
    };
    if *version != T::VERSION {
        return Err(malformed(format!("version {version} was never written")));
    }
    options::<T>()
        .deserialize(body)
        .map_err(|error| malformed(error.to_string()))
}

/// The bytes of `value` and their checksum: of what stands alone in a file or a row.
///
/// # Errors
/// As [`encode`].
pub fn seal<T: Versioned>(value: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = encode(value)?;
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    Ok(bytes)
}

/// The value that `bytes`, made by [`seal`], hold.
///
/// # Errors
/// [`CodecError::Checksum`] if they are damaged; as [`decode`] if they are not: a
/// [`CodecError::NewerVersion`] is what a newer program wrote.
pub fn unseal<T: Versioned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (value, crc) = bytes
        .split_last_chunk::<SEAL_BYTES>()
        .ok_or(CodecError::Empty)?;
    if crc32c::crc32c(value) != u32::from_le_bytes(*crc) {
        return Err(CodecError::Checksum);
    }
    decode(value)
}

fn options<T: Versioned>() -> impl Options {
    let body_limit = T::MAX_BYTES.saturating_sub(HEADER_BYTES) as u64;
    bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .with_limit(body_limit)
        .reject_trailing_bytes()
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
    fn a_newer_sealed_value_is_told_from_a_damaged_one() {
        let mut bytes = encode(&note()).unwrap();
        bytes[1] = 4;
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        let found = unseal::<Note>(&bytes);
        assert!(matches!(found, Err(CodecError::NewerVersion { .. })));
    }

    #[test]
    fn nothing_is_not_a_value() {
        assert_eq!(unseal::<Note>(&[1, 2, 3]), Err(CodecError::Empty));
        assert_eq!(decode::<Note>(&[]), Err(CodecError::Empty));
        assert_eq!(decode::<Note>(&[63]), Err(CodecError::Empty));
    }

    #[test]
    fn another_kind_is_refused() {
        let mut bytes = encode(&note()).unwrap();
        bytes[0] = 62;
        assert_eq!(
            decode::<Note>(&bytes),
            Err(CodecError::WrongKind {
                found: 62,
                expected: 63
            })
        );
    }

    #[test]
    fn a_newer_version_is_named() {
        let mut bytes = encode(&note()).unwrap();
        bytes[1] = 4;
        let newer = CodecError::NewerVersion {
            kind: 63,
            found: 4,
            known: 3,
        };
        assert_eq!(decode::<Note>(&bytes), Err(newer));
    }

    #[test]
    fn a_version_that_was_never_written_is_malformed() {
        let mut bytes = encode(&note()).unwrap();
        bytes[1] = 0;
        assert!(matches!(
            decode::<Note>(&bytes),
            Err(CodecError::Malformed { .. })
        ));
    }

    #[test]
    fn cut_and_trailing_bytes_are_malformed() {
        let bytes = encode(&note()).unwrap();
        for end in HEADER_BYTES..bytes.len() {
            assert!(matches!(
                decode::<Note>(&bytes[..end]),
                Err(CodecError::Malformed { .. })
            ));
        }
        let mut longer = bytes;
        longer.push(0);
        assert!(matches!(
            decode::<Note>(&longer),
            Err(CodecError::Malformed { .. })
        ));
    }

    #[test]
    fn a_huge_declared_length_is_malformed_and_allocates_nothing() {
        let bytes = [63, 3, 7, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 127];
        assert!(matches!(
            decode::<Note>(&bytes),
            Err(CodecError::Malformed { .. })
        ));
    }

    #[test]
    fn a_value_over_its_limit_is_neither_written_nor_read() {
        let large = Note {
            number: 7,
            text: "x".repeat(64),
        };
        assert_eq!(
            encode(&large),
            Err(CodecError::TooLarge {
                kind: 63,
                limit: 64
            })
        );
        let fits = Note {
            number: 7,
            text: "x".repeat(50),
        };
        assert_eq!(encode(&fits).unwrap().len(), 64);
    }
}
