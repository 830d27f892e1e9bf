//! Requests of the Redis protocol: arrays of bulk strings, and inline commands.
//!
//! The available libraries decode replies, which may be nested without a limit, and no inline
//! commands. A request is one flat array.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

/// The most bytes of one request.
pub(super) const MOST_BYTES: usize = 64 * 1024;

/// The most arguments of one request, the command included.
const MOST_ARGUMENTS: usize = 1024;

/// The most digits of a length, its sign included.
const MOST_DIGITS: usize = 8;

/// The beginning of the received bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A request: the command and its arguments. Empty for an empty line or array.
    Request(Vec<Bytes>),
    /// A part of a request.
    Incomplete,
    /// Not a request. The text follows `Protocol error: `; the connection must end.
    Invalid(String),
}

/// Takes the first request from the received bytes.
pub(super) fn parse(bytes: &mut BytesMut) -> Parsed {
    let parsed = match bytes.first() {
        None => return Parsed::Incomplete,
        Some(b'*') => array(bytes),
        Some(_) => inline(bytes),
    };
    match parsed {
        Parsed::Incomplete if bytes.len() >= MOST_BYTES => {
            Parsed::Invalid(format!("too big request: at most {MOST_BYTES} bytes"))
        }
        parsed => parsed,
    }
}

/// The place of an argument.
type Place = std::ops::Range<usize>;

fn array(bytes: &mut BytesMut) -> Parsed {
    let (places, end) = match places(bytes) {
        Ok(Some(found)) => found,
        Ok(None) => return Parsed::Incomplete,
        Err(error) => return Parsed::Invalid(error),
    };
    let request = bytes.split_to(end).freeze();
    let arguments = places.into_iter().map(|place| request.slice(place));
    Parsed::Request(arguments.collect())
}

/// The places of the arguments, and the end of the request; `None` if it is incomplete.
fn places(bytes: &[u8]) -> Result<Option<(Vec<Place>, usize)>, String> {
    let Some((count, mut at)) = length(bytes, 1, "invalid multibulk length")? else {
        return Ok(None);
    };
    let count = usize::try_from(count).unwrap_or(0);
    if count > MOST_ARGUMENTS {
        return Err(format!("too many arguments: at most {MOST_ARGUMENTS}"));
    }
    let mut places = Vec::new();
    for _ in 0..count {
        match bytes.get(at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(other) => {
                let found = other.escape_ascii();
                return Err(format!("expected '$', got '{found}'"));
            }
        }
        let Some((length, begin)) = length(bytes, at + 1, "invalid bulk length")? else {
            return Ok(None);
        };
        let length = usize::try_from(length).ok();
        let Some(length) = length.filter(|length| *length <= MOST_BYTES) else {
            return Err("invalid bulk length".to_owned());
        };
        let end = begin + length;
        match bytes.get(end..end + 2) {
            None => return Ok(None),
            Some(b"\r\n") => {}
            Some(_) => return Err("a bulk string does not end with CRLF".to_owned()),
        }
        places.push(begin..end);
        at = end + 2;
    }
    Ok(Some((places, at)))
}

/// The number from `at` to the end of the line, and the place after the line; `None` if the line is
/// incomplete.
fn length(bytes: &[u8], at: usize, invalid: &str) -> Result<Option<(i64, usize)>, String> {
    let rest = bytes.get(at..).unwrap_or_default();
    let Some(end) = memchr(b'\n', rest) else {
        let is_long = rest.len() > MOST_DIGITS + 1;
        return if is_long {
            Err(invalid.to_owned())
        } else {
            Ok(None)
        };
    };
    let digits = rest[..end].strip_suffix(b"\r");
    let digits = digits.filter(|digits| digits.len() <= MOST_DIGITS);
    let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
    // `parse` accepts a plus sign, which Redis rejects. A minus sign is valid: -1 is the length of
    // a null array.
    let number = digits.filter(|digits| !digits.starts_with('+'));
    let number = number.and_then(|digits| digits.parse().ok());
    number
        .map(|number| Some((number, at + end + 1)))
        .ok_or_else(|| invalid.to_owned())
}

/// A line of words, which may be quoted as in a shell.
fn inline(bytes: &mut BytesMut) -> Parsed {
    let Some(end) = memchr(b'\n', bytes) else {
        return Parsed::Incomplete;
    };
    if end > MOST_BYTES {
        return Parsed::Invalid("too big inline request".to_owned());
    }
    let line = bytes.split_to(end + 1);
    let line = &line[..end];
    match words(line.strip_suffix(b"\r").unwrap_or(line)) {
        Some(words) if words.len() > MOST_ARGUMENTS => {
            Parsed::Invalid(format!("too many arguments: at most {MOST_ARGUMENTS}"))
        }
        Some(words) => Parsed::Request(words),
        None => Parsed::Invalid("unbalanced quotes in request".to_owned()),
    }
}

/// The words of a line; `None` if its quotes are unbalanced.
fn words(mut line: &[u8]) -> Option<Vec<Bytes>> {
    let mut words = Vec::new();
    loop {
        line = line.trim_ascii_start();
        if line.is_empty() {
            return Some(words);
        }
        let mut word = Vec::new();
        while let Some(first) = line.first().copied().filter(|it| !it.is_ascii_whitespace()) {
            line.advance(1);
            match first {
                b'"' | b'\'' => {
                    quoted(&mut line, first, &mut word)?;
                    // A word ends with its quote.
                    if line.first().is_some_and(|next| !next.is_ascii_whitespace()) {
                        return None;
                    }
                }
                plain => word.push(plain),
            }
        }
        words.push(word.into());
    }
}

/// Reads up to the closing quote.
fn quoted(line: &mut &[u8], quote: u8, word: &mut Vec<u8>) -> Option<()> {
    loop {
        let byte = next(line)?;
        match byte {
            byte if byte == quote => return Some(()),
            b'\\' if quote == b'"' => word.push(escaped(line)?),
            b'\\' if line.first() == Some(&b'\'') => word.push(next(line)?),
            byte => word.push(byte),
        }
    }
}

fn escaped(line: &mut &[u8]) -> Option<u8> {
    Some(match next(line)? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        b'x' if line.len() >= 2 && line[..2].iter().all(u8::is_ascii_hexdigit) => {
            let digits = std::str::from_utf8(&line[..2]).ok()?;
            let byte = u8::from_str_radix(digits, 16).ok()?;
            line.advance(2);
            byte
        }
        other => other,
    })
}

fn next(line: &mut &[u8]) -> Option<u8> {
    let first = line.first().copied()?;
    line.advance(1);
    Some(first)
}

/// The text of an argument. Bytes that are not UTF-8 cannot be a name, and its rule refuses the
/// replacement.
pub(super) fn text(argument: &Bytes) -> String {
    String::from_utf8_lossy(argument).into_owned()
}

/// A number without spaces, plus signs or leading zeros, as Redis reads it.
pub(super) fn number(argument: &Bytes) -> Option<i64> {
    let text = std::str::from_utf8(argument).ok()?;
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(bytes: &[u8]) -> (Vec<Vec<Bytes>>, Parsed) {
        let mut bytes = BytesMut::from(bytes);
        let mut requests = Vec::new();
        loop {
            match parse(&mut bytes) {
                Parsed::Request(request) => requests.push(request),
                last => return (requests, last),
            }
        }
    }

    fn one(bytes: &[u8]) -> Parsed {
        parse(&mut BytesMut::from(bytes))
    }

    fn request(words: &[&str]) -> Parsed {
        let words = words
            .iter()
            .map(|word| Bytes::copy_from_slice(word.as_bytes()));
        Parsed::Request(words.collect())
    }

    #[test]
    fn requests_are_arrays_or_lines() {
        assert_eq!(
            one(b"*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n"),
            request(&["INCR", "k"])
        );
        assert_eq!(one(b"PING\r\n"), request(&["PING"]));
        assert_eq!(
            one(b"  SET k \"a\\x41\\n\" 'it\\'s'\n"),
            request(&["SET", "k", "aA\n", "it's"])
        );
        for empty in ["*0\r\n", "*-1\r\n", "\r\n", "\n"] {
            assert_eq!(one(empty.as_bytes()), request(&[]), "{empty:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_request_are_named() {
        for (bytes, why) in [
            ("*a\r\n", "invalid multibulk length"),
            ("*1234567890", "invalid multibulk length"),
            ("*1\n", "invalid multibulk length"),
            ("*2000\r\n", "too many arguments: at most 1024"),
            ("*1\r\n:1\r\n", "expected '$', got ':'"),
            ("*1\r\n$-1\r\n", "invalid bulk length"),
            ("*1\r\n$99999999\r\n", "invalid bulk length"),
            ("*1\r\n$1\r\nab\r\n", "a bulk string does not end with CRLF"),
            ("SET \"k\r\n", "unbalanced quotes in request"),
            ("SET \"k\"v\r\n", "unbalanced quotes in request"),
        ] {
            assert_eq!(
                one(bytes.as_bytes()),
                Parsed::Invalid(why.to_owned()),
                "{bytes:?}"
            );
        }
        let long = [&b"*1\r\n$65536\r\n"[..], &[b'x'; MOST_BYTES]].concat();
        let refused = one(&long);
        assert!(matches!(&refused, Parsed::Invalid(why) if why.starts_with("too big")));
    }

    proptest! {
        #[test]
        fn a_request_is_the_same_wherever_its_bytes_are_cut(
            words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..5),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
            for word in &words {
                bytes.extend(format!("${}\r\n", word.len()).into_bytes());
                bytes.extend(word);
                bytes.extend(b"\r\n");
            }
            let mut part = BytesMut::from(&bytes[..cut.index(bytes.len())]);
            prop_assert_eq!(parse(&mut part), Parsed::Incomplete);
            let words: Vec<Bytes> = words.into_iter().map(Bytes::from).collect();
            prop_assert_eq!(one(&bytes), Parsed::Request(words));
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            all(&bytes);
        }
    }
}
