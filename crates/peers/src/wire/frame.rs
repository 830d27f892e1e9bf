//! The frames of a connection between nodes. `docs/internals/PEERS.md` describes the protocol on
//! one page.
//!
//! ```text
//! frame    [length of the rest, u32][CRC-32C of what follows it, u32][kind, u8][call, u64][body]
//! ```
//!
//! Numbers are little-endian. Any bytes are a frame or an error, and no frame makes its reader
//! reserve more than `FRAME_BYTES`.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder, LengthDelimitedCodec};

/// The version of the protocol. A higher one belongs to a newer program.
pub const VERSION: u16 = 1;

const MAGIC: [u8; 8] = *b"seqdpeer";

/// The bytes of a call or a response that are sent in one frame: at 1 Mbit/s the credit for each
/// frame returns within a fifth of a second.
pub(super) const PART_BYTES: usize = 16 << 10;

/// The most bytes in one frame that a receiver accepts.
const MOST_PART_BYTES: usize = 64 << 10;

/// Checksum, kind, call, and the fields before a part: route, limit, flag.
const HEAD_BYTES: usize = 4 + 1 + 8 + 1 + 4 + 1;

/// The longest frame without its length.
const FRAME_BYTES: usize = HEAD_BYTES + MOST_PART_BYTES;

/// The longest text of a rejection. The rest is truncated.
const TEXT_BYTES: usize = 4 << 10;

/// The cost of a part in a window in addition to its bytes, so that empty parts are bounded too.
const PART_COST: u32 = 32;

/// The most that a part costs.
pub(super) const MOST_COST: usize = MOST_PART_BYTES + PART_COST as usize;

/// The kinds. A kind is never reused for another frame.
const OPENING: u8 = 1;
const CALL: u8 = 2;
const PART: u8 = 3;
const ANSWER: u8 = 4;
const REJECTION: u8 = 5;
const CREDIT: u8 = 6;
const CANCEL: u8 = 7;

/// Bytes of a call or of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// `true` for the last part.
    pub is_last: bool,
    pub bytes: Bytes,
}

impl Part {
    pub(super) fn cost(&self) -> u32 {
        u32::try_from(self.bytes.len()).map_or(u32::MAX, |bytes| bytes.saturating_add(PART_COST))
    }
}

/// The side that opened a connection numbers its calls from 1; 0 is the connection itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The first frame of either side. The link is the purpose of the connection.
    Opening {
        version: u16,
        link: u8,
    },
    /// The first part of a call.
    Call {
        call: u64,
        route: u8,
        /// The time after which the caller no longer waits for a response. 0 if there is none.
        limit_ms: u32,
        part: Part,
    },
    Part {
        call: u64,
        part: Part,
    },
    Answer {
        call: u64,
        part: Part,
    },
    /// The end of a call without a response, or of the connection.
    Rejection {
        call: u64,
        text: String,
    },
    /// The receiver has processed this many bytes of a call with several parts, or of all responses
    /// (0). The end of a call returns the rest of its bytes.
    Credit {
        call: u64,
        bytes: u32,
    },
    /// The caller no longer waits for the response. The receiver ends the call.
    Cancel {
        call: u64,
    },
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl Frame {
    fn write(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(HEAD_BYTES + self.body_bytes());
        bytes.put_u32_le(0);
        let (kind, call) = match self {
            Self::Opening { .. } => (OPENING, 0),
            Self::Call { call, .. } => (CALL, *call),
            Self::Part { call, .. } => (PART, *call),
            Self::Answer { call, .. } => (ANSWER, *call),
            Self::Rejection { call, .. } => (REJECTION, *call),
            Self::Credit { call, .. } => (CREDIT, *call),
            Self::Cancel { call } => (CANCEL, *call),
        };
        bytes.put_u8(kind);
        bytes.put_u64_le(call);
        match self {
            Self::Opening { version, link } => {
                bytes.put_slice(&MAGIC);
                bytes.put_u16_le(*version);
                bytes.put_u8(*link);
            }
            Self::Call {
                route,
                limit_ms,
                part,
                ..
            } => {
                bytes.put_u8(*route);
                bytes.put_u32_le(*limit_ms);
                write_part(part, &mut bytes);
            }
            Self::Part { part, .. } | Self::Answer { part, .. } => write_part(part, &mut bytes),
            Self::Rejection { text, .. } => {
                bytes.put_slice(&text.as_bytes()[..text.len().min(TEXT_BYTES)]);
            }
            Self::Credit { bytes: taken, .. } => bytes.put_u32_le(*taken),
            Self::Cancel { .. } => {}
        }
        let checksum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes.freeze()
    }

    fn body_bytes(&self) -> usize {
        match self {
            Self::Call { part, .. } | Self::Part { part, .. } | Self::Answer { part, .. } => {
                part.bytes.len()
            }
            Self::Rejection { text, .. } => text.len().min(TEXT_BYTES),
            Self::Opening { .. } | Self::Credit { .. } | Self::Cancel { .. } => MAGIC.len(),
        }
    }

    fn read(mut bytes: Bytes) -> io::Result<Self> {
        let checksum = bytes.try_get_u32_le()?;
        if checksum != crc32c::crc32c(&bytes) {
            return Err(invalid("a frame whose checksum does not match"));
        }
        let kind = bytes.try_get_u8()?;
        let call = bytes.try_get_u64_le()?;
        let frame = match kind {
            OPENING => {
                if !bytes.starts_with(&MAGIC) {
                    return Err(invalid("an opening of another protocol"));
                }
                bytes.advance(MAGIC.len());
                let version = bytes.try_get_u16_le()?;
                let link = bytes.try_get_u8()?;
                // A later version may have more fields after these.
                return Ok(Self::Opening { version, link });
            }
            CALL => Self::Call {
                call,
                route: bytes.try_get_u8()?,
                limit_ms: bytes.try_get_u32_le()?,
                part: read_part(&mut bytes)?,
            },
            PART => {
                let part = read_part(&mut bytes)?;
                Self::Part { call, part }
            }
            ANSWER => {
                let part = read_part(&mut bytes)?;
                Self::Answer { call, part }
            }
            REJECTION => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                bytes.clear();
                Self::Rejection { call, text }
            }
            CREDIT => {
                let bytes = bytes.try_get_u32_le()?;
                Self::Credit { call, bytes }
            }
            CANCEL => Self::Cancel { call },
            _ => return Err(invalid("a frame of an unknown kind")),
        };
        if bytes.is_empty() {
            Ok(frame)
        } else {
            Err(invalid("a frame with bytes after its end"))
        }
    }
}

fn write_part(part: &Part, bytes: &mut BytesMut) {
    bytes.put_u8(u8::from(part.is_last));
    bytes.put_slice(&part.bytes);
}

/// Reads the rest of the bytes.
fn read_part(bytes: &mut Bytes) -> io::Result<Part> {
    let is_last = match bytes.try_get_u8()? {
        0 => false,
        1 => true,
        _ => return Err(invalid("a part with invalid flags")),
    };
    let bytes = std::mem::take(bytes);
    Ok(Part { is_last, bytes })
}

/// Encodes and decodes frames.
#[derive(Debug)]
pub struct FrameCodec(LengthDelimitedCodec);

impl Default for FrameCodec {
    fn default() -> Self {
        let mut lengths = LengthDelimitedCodec::builder();
        lengths.little_endian().max_frame_length(FRAME_BYTES);
        Self(lengths.new_codec())
    }
}

impl Decoder for FrameCodec {
    type Item = Frame;
    type Error = io::Error;

    fn decode(&mut self, from: &mut BytesMut) -> io::Result<Option<Frame>> {
        let bytes = self.0.decode(from)?;
        bytes.map(|bytes| Frame::read(bytes.freeze())).transpose()
    }
}

impl Encoder<&Frame> for FrameCodec {
    type Error = io::Error;

    fn encode(&mut self, frame: &Frame, to: &mut BytesMut) -> io::Result<()> {
        self.0.encode(frame.write(), to)
    }
}
