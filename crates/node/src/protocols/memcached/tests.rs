//! Requests and responses, byte for byte, for every division into pieces.

use proptest::collection::vec;
use proptest::prelude::*;
use seqd_api::ErrorCode;

use super::request::{MAX_DATA_BYTES, MAX_KEYS};
use super::*;

fn split(pieces: &[&[u8]]) -> Vec<Request> {
    super::fuzz::split(pieces.iter().copied())
}

fn asked(bytes: &[u8]) -> Vec<Asked> {
    let requests = split(&[bytes]).into_iter();
    requests.map(|request| request.asked).collect()
}

fn binary(opcode: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = vec![binary::REQUEST, opcode];
    out.extend_from_slice(&(key.len() as u16).to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&((key.len() + value.len()) as u32).to_be_bytes());
    out.extend_from_slice(b"abcd\0\0\0\0\0\0\0\0");
    out.extend_from_slice(key);
    out.extend_from_slice(value);
    out
}

fn keys(keys: &[&'static str]) -> Asked {
    Asked::Ids(keys.iter().map(|key| Bytes::from(*key)).collect())
}

fn problem(bytes: &[u8]) -> String {
    match asked(bytes).remove(0) {
        Asked::Refused(problem) => text::refusal(&problem),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_text_request_is_one_line() {
    assert_eq!(asked(b"get a\r\n"), [keys(&["a"])]);
    assert_eq!(asked(b"gets  a b \n"), [keys(&["a", "b"])]);
    assert_eq!(
        asked(b"GETS a\r\nVersion\r\n"),
        [keys(&["a"]), Asked::Version]
    );
    assert_eq!(
        asked(b"version\r\nstats\r\nquit\r\nget a\r\n"),
        [Asked::Version, Asked::Stats, Asked::Quit]
    );
    for line in ["get", "", "delete a", "version 1", "stats items", "mn"] {
        let line = format!("{line}\r\n");
        assert_eq!(asked(line.as_bytes()), [Asked::Unknown], "{line:?}");
    }
    let silent = split(&[b"delete a noreply\r\nget noreply\r\n"]);
    assert!(silent[0].is_silent && !silent[1].is_silent);
}

#[test]
fn the_data_of_a_storage_command_is_discarded() {
    let stored = b"set a 0 0 7\r\nget b\r\n\r\nms c 3\r\nxyz\r\nget d\r\n";
    assert_eq!(
        asked(stored),
        [Asked::Unknown, Asked::Unknown, keys(&["d"])]
    );
    let silent = split(&[b"cas a 0 0 1 77 noreply\r\nx\r\nget a\r\n"]);
    assert!(silent[0].is_silent && silent.len() == 2);
    for length in ["x", "-1", "", &(MAX_DATA_BYTES - 1).to_string()] {
        let line = format!("add a 0 0 {length}\r\nget a\r\n");
        let requests = split(&[line.as_bytes()]);
        assert!(
            requests.len() == 1 && requests[0].is_last,
            "data of unknown length: {line:?}"
        );
    }
}

#[test]
fn a_get_has_a_bounded_number_of_bounded_keys() {
    let most = |count: usize, bytes: usize| {
        let mut line = "get".to_owned();
        for _ in 0..count {
            line.push(' ');
            line.push_str(&"k".repeat(bytes));
        }
        line.push_str("\r\n");
        line.into_bytes()
    };
    assert!(matches!(&asked(&most(MAX_KEYS, 250))[0], Asked::Ids(keys) if keys.len() == MAX_KEYS));
    assert_eq!(
        problem(&most(MAX_KEYS + 1, 1)),
        "count-too-large: a get takes at most 1000 keys"
    );
    let too_long = "invalid-argument: a key has 1 to 250 bytes";
    assert_eq!(problem(&most(2, 251)), too_long);
    for key in [&b""[..], &[b'k'; 251]] {
        assert_eq!(problem(&binary(0, key, b"")), too_long);
    }
    let endless = split(&[&vec![b'x'; 300 * 1024], b"\r\nget a\r\n"]);
    assert!(endless.len() == 1 && endless[0].is_last);
}

#[test]
fn a_binary_request_is_a_header_and_a_body() {
    for opcode in [0, 9, 12, 13] {
        let request = split(&[&binary(opcode, b"a", b"")]).remove(0);
        assert_eq!(request.asked, keys(&["a"]));
        let opaque = *b"abcd";
        assert_eq!(request.form, Form::Binary { opcode, opaque });
    }
    let all = [
        (10, Asked::Nothing),
        (11, Asked::Version),
        (16, Asked::Stats),
        (7, Asked::Quit),
        (23, Asked::Quit),
        (32, Asked::Unknown),
    ];
    for (opcode, expected) in all {
        assert_eq!(asked(&binary(opcode, b"", b"")), [expected], "{opcode}");
    }
    let set = [binary(1, b"a", b"value"), binary(0, b"b", b"")].concat();
    assert_eq!(asked(&set), [Asked::Unknown, keys(&["b"])]);
    let long = split(&[&binary(1, b"a", &vec![0; MAX_DATA_BYTES as usize])]);
    assert!(long[0].is_last, "a body that is too long to discard");
    let other = [binary(10, b"", b""), vec![b'x'; 24]].concat();
    assert_eq!(asked(&other), [Asked::Nothing, Asked::Quit]);
}

#[test]
fn a_response_has_the_bytes_of_memcached() {
    let two = [Bytes::from("a"), Bytes::from("b")];
    let ids = || [117_450_583_018_840_064, 7].into_iter();
    let plain = text::write_ids(&two, ids(), false);
    let expected = "VALUE a 0 18\r\n117450583018840064\r\nVALUE b 0 1\r\n7\r\nEND\r\n";
    assert_eq!(String::from_utf8(plain).unwrap(), expected);
    let with_cas = text::write_ids(&two[1..], ids().skip(1), true);
    assert_eq!(with_cas, b"VALUE b 0 1 7\r\n7\r\nEND\r\n");
    let opaque = *b"abcd";
    let get = binary::write_id((0, opaque), b"a", 77);
    let head = b"\x81\0\0\0\x04\0\0\0\0\0\0\x06abcd\0\0\0\0\0\0\0\x4d";
    assert_eq!(get, [&head[..], b"\0\0\0\x0077"].concat());
    let getk = binary::write_id((12, opaque), b"a", 77);
    assert_eq!(getk[2..6], [0, 1, 4, 0]);
    assert_eq!(getk[24..], *b"\0\0\0\0a77");
    let refused = Problem::new(ErrorCode::NoQuorum, "two\r\nlines");
    let form = Form::Text { with_cas: false };
    let line = write(form, Err(refused.clone()));
    assert_eq!(line, b"SERVER_ERROR no-quorum: two  lines\r\n");
    let packet = write(Form::Binary { opcode: 0, opaque }, Err(refused));
    assert_eq!(packet[6..8], [0, 0x84]);
    assert_eq!(packet[24..], *b"no-quorum: two  lines");
}

fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let lines = prop_oneof![
        Just(b"get a bb ccc\r\n".to_vec()),
        Just(b"set a 0 0 9 noreply\r\nget x\r\nzz\r\n".to_vec()),
        Just(b"add a 0 0 x\r\n".to_vec()),
        Just(b"\r\nstats\nversion\r\n".to_vec()),
        Just(binary(13, b"key", b"")),
        Just(binary(1, b"key", b"a value")),
        Just(binary(10, b"", b"")),
    ];
    prop_oneof![8 => lines, 1 => vec(any::<u8>(), 0..40)]
}

proptest! {
    #[test]
    fn bytes_in_pieces_are_the_same_requests(
        fragments in vec(fragment(), 1..12),
        sizes in vec(1_usize..30, 1..40),
    ) {
        let whole = fragments.concat();
        let (mut pieces, mut rest) = (Vec::new(), &whole[..]);
        for size in sizes.iter().cycle() {
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            pieces.push(piece);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(split(&pieces), split(&[&whole]));
    }
}
