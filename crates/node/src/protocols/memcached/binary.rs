//! The binary form: a header of 24 bytes per request, then extras, key and value.

use bytes::{Buf as _, Bytes, BytesMut};

use super::request::{Asked, Form, MAX_KEY_BYTES, Request, ids};

/// The first byte of a request.
pub(super) const REQUEST: u8 = 0x80;
const RESPONSE: u8 = 0x81;
const HEADER: usize = 24;

pub(super) const OK: u16 = 0;
pub(super) const UNKNOWN_COMMAND: u16 = 0x0081;
/// An error of the server, with its text.
pub(super) const INTERNAL_ERROR: u16 = 0x0084;

const GET: u8 = 0x00;
const QUIT: u8 = 0x07;
const GETQ: u8 = 0x09;
const NOOP: u8 = 0x0a;
const VERSION: u8 = 0x0b;
const GETK: u8 = 0x0c;
const GETKQ: u8 = 0x0d;
const STAT: u8 = 0x10;
const QUITQ: u8 = 0x17;

/// The flags of an item, the extras of a response to a get.
const FLAGS: [u8; 4] = [0; 4];

pub(super) const NO_REQUEST: Form = Form::Binary {
    opcode: GET,
    opaque: [0; 4],
};

/// Takes the next request. A body that the command does not use is discarded, like data.
pub(super) fn next(bytes: &mut BytesMut) -> Option<Request> {
    let &[magic, opcode, key_1, key_2, extras, ..] = bytes.first_chunk::<HEADER>()?;
    let opaque = [bytes[12], bytes[13], bytes[14], bytes[15]];
    let body = u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    let form = Form::Binary { opcode, opaque };
    if magic != REQUEST {
        let mut request = Request::new(Asked::Quit, form);
        request.is_silent = true;
        return Some(request);
    }
    let key_bytes = usize::from(u16::from_be_bytes([key_1, key_2]));
    if matches!(opcode, GET | GETQ | GETK | GETKQ) {
        let is_key = extras == 0 && body as usize == key_bytes;
        if is_key && (1..=MAX_KEY_BYTES).contains(&key_bytes) {
            if bytes.len() < HEADER + key_bytes {
                return None;
            }
            bytes.advance(HEADER);
            let key = bytes.split_to(key_bytes).freeze();
            return Some(Request::new(ids(vec![key]), form));
        }
    }
    bytes.advance(HEADER);
    let asked = match opcode {
        GET | GETQ | GETK | GETKQ => ids(vec![Bytes::new()]),
        NOOP => Asked::Nothing,
        VERSION => Asked::Version,
        STAT if body == 0 => Asked::Stats,
        QUIT | QUITQ => Asked::Quit,
        _ => Asked::Unknown,
    };
    let mut request = Request::new(asked, form);
    request.is_silent = opcode == QUITQ;
    Some(request.with_data(u64::from(body)))
}

/// A response of one packet, of which each part may be empty.
fn write(
    (opcode, opaque): (u8, [u8; 4]),
    (status, cas): (u16, u64),
    [extras, key, value]: [&[u8]; 3],
) -> Vec<u8> {
    let body = extras.len() + key.len() + value.len();
    let mut out = Vec::with_capacity(HEADER + body);
    out.extend_from_slice(&[RESPONSE, opcode]);
    // Keys have at most 250 bytes, and texts of refusals far less than 4 GiB.
    out.extend_from_slice(&(key.len() as u16).to_be_bytes());
    out.extend_from_slice(&[extras.len() as u8, 0]);
    out.extend_from_slice(&status.to_be_bytes());
    out.extend_from_slice(&(body as u32).to_be_bytes());
    out.extend_from_slice(&opaque);
    out.extend_from_slice(&cas.to_be_bytes());
    for part in [extras, key, value] {
        out.extend_from_slice(part);
    }
    out
}

/// A response with this status and text.
pub(super) fn write_text(to: (u8, [u8; 4]), status: u16, text: &str) -> Vec<u8> {
    write(to, (status, 0), [b"", b"", text.as_bytes()])
}

pub(super) fn write_id(to: (u8, [u8; 4]), key: &[u8], id: u64) -> Vec<u8> {
    let has_key = matches!(to.0, GETK | GETKQ);
    let key = if has_key { key } else { b"" };
    write(to, (OK, id), [&FLAGS, key, id.to_string().as_bytes()])
}

/// A packet for each value, then an empty one.
pub(super) fn write_stats(to: (u8, [u8; 4]), stats: &[(&str, String)]) -> Vec<u8> {
    let end = ("", String::new());
    let all = stats.iter().chain([&end]);
    all.flat_map(|(name, value)| write(to, (OK, 0), [b"", name.as_bytes(), value.as_bytes()]))
        .collect()
}
