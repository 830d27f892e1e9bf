//! The fuzz target of requests and scripts.

use bytes::{Bytes, BytesMut};

use super::request::{MOST_BYTES, Parsed, parse};
use super::scripts::{Remembered, recognise};

/// Tests the bytes of a client. The first byte is the length of the pieces in which they arrive.
///
/// The requests must be the same as if all bytes had arrived together, and no request may be longer
/// than the limit. Each argument is also taken as a script.
pub fn node_redis(input: &[u8]) {
    let Some((first, bytes)) = input.split_first() else {
        return;
    };
    let piece = usize::from(*first).max(1);
    let whole = served(bytes, bytes.len().max(1));
    assert_eq!(served(bytes, piece), whole, "the requests differ");
    let scripts = Remembered::default();
    for argument in whole.0.iter().flatten() {
        assert!(argument.len() <= MOST_BYTES);
        let script = String::from_utf8_lossy(argument);
        if let Some(form) = recognise(&script) {
            let sha1 = scripts.add(&script, form);
            assert_eq!(scripts.get(&sha1), Some(form));
        }
    }
}

/// The requests of bytes that arrive in pieces, and the error after them.
fn served(bytes: &[u8], piece: usize) -> (Vec<Vec<Bytes>>, Option<String>) {
    let mut held = BytesMut::new();
    let mut requests = Vec::new();
    for piece in bytes.chunks(piece) {
        held.extend_from_slice(piece);
        loop {
            match parse(&mut held) {
                Parsed::Request(request) => requests.push(request),
                Parsed::Incomplete => break,
                Parsed::Invalid(why) => return (requests, Some(why)),
            }
        }
    }
    (requests, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::{replay, seeds};

    #[test]
    fn kept_requests_are_the_same_in_any_pieces() {
        let inputs = [
            "\u{1}*2\r\n$4\r\nINCR\r\n$5\r\norder\r\n",
            "\u{7}PING\r\nSET k \"a\\x41\" NX\r\n*1\r\n$4\r\nQUIT\r\n",
            "\u{3}*3\r\n$4\r\nEVAL\r\n$34\r\nif redis.call('get', KEYS[1]) then \r\n$1\r\n0\r\n",
            "\u{2}*-1\r\n*0\r\n\r\n*1\r\n:1\r\n",
            "\u{5}*1\r\n$70000\r\n",
            "\u{9}GET 'it\\'s' \"unbalanced\r\n",
        ];
        let inputs = inputs.map(|text| text.as_bytes().to_vec());
        replay("node_redis", &seeds(inputs), node_redis);
    }
}
