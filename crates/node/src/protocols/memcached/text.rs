//! The text form: a line per request.

use bytes::{Bytes, BytesMut};
use seqd_api::Problem;

use super::request::{Asked, Form, MAX_KEY_BYTES, MAX_KEYS, Request, ids};

/// The longest line: a get of the most and longest keys.
const MAX_LINE: usize = 256 * 1024;

const _: () = assert!("gets".len() + MAX_KEYS * (1 + MAX_KEY_BYTES) + 2 <= MAX_LINE);

/// The commands with data after their line, and the position of its length in the line.
const WITH_DATA: [(&[u8], usize); 7] = [
    (b"set", 4),
    (b"add", 4),
    (b"replace", 4),
    (b"append", 4),
    (b"prepend", 4),
    (b"cas", 4),
    (b"ms", 2),
];

/// Takes a complete line. `searched` bytes contain no line end.
pub(super) fn next(bytes: &mut BytesMut, searched: &mut usize) -> Option<Request> {
    let end = memchr::memchr(b'\n', &bytes[*searched..]).map(|at| *searched + at + 1);
    if end.unwrap_or(bytes.len()) > MAX_LINE {
        let unknown = Request::new(Asked::Unknown, Form::Text { with_cas: false });
        return Some(Request {
            is_last: true,
            ..unknown
        });
    }
    *searched = if end.is_some() { 0 } else { bytes.len() };
    let line = bytes.split_to(end?).freeze();
    let text = line.strip_suffix(b"\n").unwrap_or(&line);
    Some(read(
        &line.slice_ref(text.strip_suffix(b"\r").unwrap_or(text)),
    ))
}

fn read(line: &Bytes) -> Request {
    let words = line.split(|byte| *byte == b' ');
    let mut words = words.filter(|word| !word.is_empty());
    let command = words.next().unwrap_or_default();
    // katsubushi's client sends `GETS` and does not read the fifth word of the response.
    let form = Form::Text {
        with_cas: command == b"gets",
    };
    let command = &command.to_ascii_lowercase()[..];
    if matches!(command, b"get" | b"gets") {
        let keys = words.map(|key| line.slice_ref(key));
        let keys: Vec<Bytes> = keys.take(MAX_KEYS + 1).collect();
        let asked = if keys.is_empty() {
            Asked::Unknown
        } else {
            ids(keys)
        };
        return Request::new(asked, form);
    }
    let asked = match (command, words.clone().next()) {
        (b"version", None) => Asked::Version,
        (b"stats", None) => Asked::Stats,
        (b"quit", None) => Asked::Quit,
        _ => Asked::Unknown,
    };
    let mut request = Request::new(asked, form);
    request.is_silent = words.clone().next_back() == Some(b"noreply");
    let with_data = WITH_DATA.iter().find(|(name, _)| *name == command);
    let Some((_, place)) = with_data else {
        return request;
    };
    let length = words.nth(place - 1).and_then(number);
    request.with_data(length.map_or(u64::MAX, |length| length.saturating_add(2)))
}

fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

pub(super) fn write_ids(keys: &[Bytes], ids: impl Iterator<Item = u64>, cas: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(keys.len() * 48 + 8);
    for (key, id) in keys.iter().zip(ids) {
        let text = id.to_string();
        out.extend_from_slice(b"VALUE ");
        out.extend_from_slice(key);
        out.extend_from_slice(format!(" 0 {}", text.len()).as_bytes());
        if cas {
            out.extend_from_slice(format!(" {text}").as_bytes());
        }
        out.extend_from_slice(format!("\r\n{text}\r\n").as_bytes());
    }
    out.extend_from_slice(b"END\r\n");
    out
}

pub(super) fn write_stats(stats: &[(&str, String)]) -> Vec<u8> {
    let lines = stats
        .iter()
        .map(|(name, value)| format!("STAT {name} {value}\r\n"));
    lines
        .chain(["END\r\n".to_owned()])
        .collect::<String>()
        .into()
}

/// The text of a refusal, on one line.
pub(super) fn refusal(problem: &Problem) -> String {
    let text = format!("{}: {}", problem.code, problem.detail);
    text.replace(|character: char| character.is_control(), " ")
}
