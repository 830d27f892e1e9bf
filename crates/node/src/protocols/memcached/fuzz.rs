//! The fuzz target of requests.

use bytes::BytesMut;

use super::request::{Asked, MAX_DATA_BYTES, MAX_KEY_BYTES, MAX_KEYS, Request};
use super::splitter::Splitter;

/// Tests the bytes of a client. The first byte is the length of the pieces in which they arrive.
///
/// The requests must be the same as if all bytes had arrived together, and within the limits.
pub fn node_memcached(input: &[u8]) {
    let Some((first, bytes)) = input.split_first() else {
        return;
    };
    let whole = split(bytes.chunks(bytes.len().max(1)));
    let piece = usize::from(*first).max(1);
    assert_eq!(split(bytes.chunks(piece)), whole, "the requests differ");
    for request in &whole {
        assert!(request.data_bytes <= MAX_DATA_BYTES);
        if let Asked::Ids(keys) = &request.asked {
            assert!((1..=MAX_KEYS).contains(&keys.len()));
            let mut lengths = keys.iter().map(|key| key.len());
            assert!(lengths.all(|length| (1..=MAX_KEY_BYTES).contains(&length)));
        }
    }
}

/// The requests in these pieces, up to the last one.
pub(super) fn split<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Request> {
    let (mut splitter, mut bytes) = (Splitter::default(), BytesMut::new());
    let mut requests = Vec::new();
    for piece in pieces {
        bytes.extend_from_slice(piece);
        while let Some(request) = splitter.next(&mut bytes) {
            let is_last = request.is_last;
            requests.push(request);
            if is_last {
                return requests;
            }
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::{replay, seeds};

    #[test]
    fn kept_requests_are_the_same_in_any_pieces() {
        let binary = |opcode: u8, key: &str, value: &str| {
            let mut out = vec![0x80, opcode, 0, key.len() as u8, 0, 0, 0, 0, 0, 0, 0];
            out.push((key.len() + value.len()) as u8);
            out.extend_from_slice(&[0; 12]);
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(value.as_bytes());
            out
        };
        let inputs = [
            b"\x01get a bb\r\ngets c\nversion\r\nquit\r\nget d\r\n".to_vec(),
            b"\x05set a 0 0 9 noreply\r\nget x\r\nzz\r\nms k 2\r\nxx\r\nstats\r\n".to_vec(),
            b"\x07cas a 0 0 99999999 1\r\n".to_vec(),
            [
                vec![3],
                binary(13, "a", ""),
                binary(1, "a", "value"),
                binary(10, "", ""),
            ]
            .concat(),
            [
                vec![9],
                binary(0, "", ""),
                binary(16, "", ""),
                binary(7, "", ""),
            ]
            .concat(),
            [vec![2], binary(11, "", ""), b"get a\r\n".repeat(4)].concat(),
        ];
        replay("node_memcached", &seeds(inputs), node_memcached);
    }
}
