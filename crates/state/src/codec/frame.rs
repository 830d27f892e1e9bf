//! Frames: values with their own kind, version and length. A reader can identify an unknown frame
//! in a list, and each kind of frame can change independently.
//!
//! Commands, outcomes and refusals are variants of enums, and each variant is one kind in one
//! version. The meaning of a (kind, version) never changes: a new version of a command is a new
//! variant with the old kind. The variants have the order of the rows of [`FrameTable::FRAMES`];
//! this order is not part of the bytes.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::bytes::Bytes;
use super::{CodecError, LIMIT_BYTES, body_bytes, from_body, never_written, to_body};
use crate::level::Level;

/// The size of the variant's index, which bincode writes first.
const PLACE_BYTES: usize = 4;

/// The size of kind, version and length.
const HEAD_BYTES: usize = 2 + 1 + 8;

/// A value with its kind, version and length: `kind u16, version u8, length u64, body`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub kind: u16,
    pub version: u8,
    pub body: Bytes,
}

/// A row of the table of frames: a variant's kind and version, and the level that introduced it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameRow {
    /// Never reused.
    pub kind: u16,
    /// Counted from 1.
    pub version: u8,
    pub since: Level,
}

#[must_use]
pub const fn row(kind: u16) -> FrameRow {
    FrameRow {
        kind,
        version: 1,
        since: Level::FIRST,
    }
}

impl FrameRow {
    #[must_use]
    pub const fn version(self, version: u8) -> Self {
        Self { version, ..self }
    }

    #[must_use]
    pub const fn since(self, since: Level) -> Self {
        Self { since, ..self }
    }
}

/// An enum whose variants are frames.
pub trait FrameTable: Serialize + DeserializeOwned {
    /// One row for each variant, in the order of the variants.
    const FRAMES: &'static [FrameRow];
}

/// A value that is a frame: a variant of one [`FrameTable`], or of one of several.
pub trait Framed: Sized {
    /// Fails only if the table has no row for the variant, which a test rules out.
    fn frame_row(&self) -> Result<FrameRow, CodecError>;

    fn to_frame(&self) -> Result<Frame, CodecError>;

    /// Returns the size of the value's frame, head included.
    fn frame_bytes(&self) -> Result<usize, CodecError>;

    /// Returns `None` if the frame's kind does not belong to this type.
    fn from_frame(frame: &Frame) -> Option<Result<Self, CodecError>>;

    fn frame_rows() -> Vec<FrameRow>;
}

pub fn read<T: Framed>(frame: &Frame) -> Result<T, CodecError> {
    T::from_frame(frame).unwrap_or(Err(CodecError::UnknownKind {
        kind: frame.kind,
        version: frame.version,
    }))
}

pub fn write_all<'a, T: Framed + 'a>(
    values: impl IntoIterator<Item = &'a T>,
) -> Result<Vec<Frame>, CodecError> {
    values.into_iter().map(Framed::to_frame).collect()
}

pub fn read_all<T: Framed>(frames: &[Frame]) -> Result<Vec<T>, CodecError> {
    frames.iter().map(read).collect()
}

impl<T: FrameTable> Framed for T {
    fn frame_row(&self) -> Result<FrameRow, CodecError> {
        split(self).map(|(row, _)| row)
    }

    fn to_frame(&self) -> Result<Frame, CodecError> {
        let (row, mut bytes) = split(self)?;
        bytes.drain(..PLACE_BYTES);
        Ok(Frame {
            kind: row.kind,
            version: row.version,
            body: bytes.into(),
        })
    }

    fn frame_bytes(&self) -> Result<usize, CodecError> {
        Ok(body_bytes(0, self)? - PLACE_BYTES + HEAD_BYTES)
    }

    fn from_frame(frame: &Frame) -> Option<Result<Self, CodecError>> {
        let known = T::FRAMES.iter().filter(|row| row.kind == frame.kind);
        let newest = known.map(|row| row.version).max()?;
        Some(join(frame, newest))
    }

    fn frame_rows() -> Vec<FrameRow> {
        T::FRAMES.to_vec()
    }
}

/// Returns a variant's row and its encoded bytes, which begin with the variant's index.
fn split<T: FrameTable>(value: &T) -> Result<(FrameRow, Vec<u8>), CodecError> {
    let mut bytes = Vec::with_capacity(64);
    to_body(0, value, &mut bytes)?;
    let place = bytes.first_chunk::<PLACE_BYTES>().copied();
    let place = place
        .map(u32::from_le_bytes)
        .and_then(|place| usize::try_from(place).ok());
    let row = place.and_then(|place| T::FRAMES.get(place)).copied();
    let row = row.ok_or_else(|| CodecError::Malformed {
        kind: 0,
        reason: "the table of frames has no row for it".to_owned(),
    })?;
    Ok((row, bytes))
}

fn join<T: FrameTable>(frame: &Frame, newest: u8) -> Result<T, CodecError> {
    let Frame {
        kind,
        version,
        body,
    } = frame;
    if *version > newest {
        return Err(CodecError::NewerVersion {
            kind: *kind,
            found: *version,
            known: newest,
        });
    }
    let place = T::FRAMES
        .iter()
        .position(|row| (row.kind, row.version) == (*kind, *version))
        .and_then(|place| u32::try_from(place).ok())
        .ok_or_else(|| never_written(*kind, *version))?;
    let mut bytes = Vec::with_capacity(PLACE_BYTES + body.0.len());
    bytes.extend_from_slice(&place.to_le_bytes());
    bytes.extend_from_slice(&body.0);
    from_body(*kind, &bytes, LIMIT_BYTES)
}

/// Defines an enum of enums with the frames of all of them. `#[cfg]` may precede a variant.
macro_rules! framed_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $(
                $(#[doc = $about:literal])*
                $(#[cfg($($when:tt)*)])?
                $domain:ident($inner:ty),
            )*
        }
    ) => {
        $(#[$meta])*
        pub enum $name {
            $($(#[doc = $about])* $(#[cfg($($when)*)])? $domain($inner),)*
        }

        $($(#[cfg($($when)*)])? impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self::$domain(value)
            }
        })*

        impl $crate::codec::frame::Framed for $name {
            fn frame_row(
                &self,
            ) -> Result<$crate::codec::frame::FrameRow, $crate::codec::CodecError> {
                match self {
                    $($(#[cfg($($when)*)])? Self::$domain(value) => value.frame_row(),)*
                }
            }

            fn to_frame(
                &self,
            ) -> Result<$crate::codec::frame::Frame, $crate::codec::CodecError> {
                match self {
                    $($(#[cfg($($when)*)])? Self::$domain(value) => value.to_frame(),)*
                }
            }

            fn frame_bytes(&self) -> Result<usize, $crate::codec::CodecError> {
                match self {
                    $($(#[cfg($($when)*)])? Self::$domain(value) => value.frame_bytes(),)*
                }
            }

            fn from_frame(
                frame: &$crate::codec::frame::Frame,
            ) -> Option<Result<Self, $crate::codec::CodecError>> {
                $($(#[cfg($($when)*)])?
                if let Some(value) = <$inner>::from_frame(frame) {
                    return Some(value.map(Self::$domain));
                })*
                None
            }

            fn frame_rows() -> Vec<$crate::codec::frame::FrameRow> {
                [$($(#[cfg($($when)*)])? <$inner>::frame_rows(),)*].concat()
            }
        }

        // Encoded as its frame. A caller that must recognise newer kinds decodes a `Frame` first.
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let frame = $crate::codec::frame::Framed::to_frame(self);
                let frame = frame.map_err(serde::ser::Error::custom)?;
                serde::Serialize::serialize(&frame, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                let frame: $crate::codec::frame::Frame = serde::Deserialize::deserialize(deserializer)?;
                $crate::codec::frame::read(&frame).map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use framed_enum;

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps, one of which has two versions: a new version is a new variant with the old kind.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    enum Step {
        Walk,
        Rest { ms: u32 },
        RestV2 { ms: u32, reason: String },
    }

    impl FrameTable for Step {
        const FRAMES: &'static [FrameRow] = &[
            row(0x7e01),                                       // Walk
            row(0x7e02),                                       // Rest
            row(0x7e02).version(2).since(Level::FIRST.next()), // RestV2
        ];
    }

    #[test]
    fn each_version_of_a_variant_is_read_and_a_newer_one_is_named() {
        let reason = "tired".to_owned();
        let steps = [
            Step::Walk,
            Step::Rest { ms: 5 },
            Step::RestV2 { ms: 6, reason },
        ];
        let frames = write_all(&steps).unwrap();
        let known: Vec<_> = frames.iter().map(|it| (it.kind, it.version)).collect();
        assert_eq!(known, [(0x7e01, 1), (0x7e02, 1), (0x7e02, 2)]);
        assert_eq!(read_all::<Step>(&frames).unwrap(), steps);
        let since = steps.each_ref().map(|it| it.frame_row().unwrap().since);
        let (first, next) = (Level::FIRST, Level::FIRST.next());
        assert_eq!(since, [first, first, next]);

        let mut newer = frames[2].clone();
        newer.version = 3;
        let error = read::<Step>(&newer).unwrap_err();
        let (kind, found, known) = (0x7e02, 3, 2);
        assert_eq!(error, CodecError::NewerVersion { kind, found, known });
    }
}
