//! Fuzz targets that accept any bytes: requests and small texts. `docs/internals/FUZZING.md` lists
//! the targets.
//!
//! A target panics when a guarantee is violated. The tests below run the stored inputs of
//! `tests/fuzz/corpus`, so that these are checked without a fuzzer too.

use std::fmt::Debug;

use serde::Serialize;

use crate::format::{IdFormat, IdText};
use crate::scope::Permission;
use crate::{
    AddMember, AdvanceRequest, CreateAccess, ErrorCode, GetSequenceQuery, GrantRequest,
    IdPartsQuery, IdQuery, LeaderMove, ListQuery, NextRequest, NoFields, Problem, ReadyQuery,
    Request, ReturnRequest, SequenceSpec, SnapshotQuery, Token, UpdateMember, UuidQuery,
    WorkersQuery, address, nearest, number_text, paths, request, validate_name,
};

/// The longest detail of a refusal, in bytes, for any input: about two pages of a terminal. It
/// allows four bytes for each of 360 characters, and a hint.
const MOST_DETAIL: usize = 3 * 1024;

type Pairs = Vec<(String, String)>;
type Decode = fn(&[(String, String)], &[u8]);

/// A request of any type. The first byte selects the type, the rest of the first line is a query of
/// `key=value` pairs separated by `&`, and the remaining bytes are a body.
///
/// A decoded request is written as JSON, read again, and compared. A rejected request has a code of
/// the table and a message of bounded length.
pub fn api_request(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else {
        return;
    };
    let end = rest.iter().position(|byte| *byte == b'\n');
    let (line, body) = rest.split_at(end.unwrap_or(rest.len()));
    let body = body.get(1..).unwrap_or_default();
    let query: Pairs = String::from_utf8_lossy(line)
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let decode = DECODERS[usize::from(*kind) % DECODERS.len()];
    decode(&query, body);
}

const DECODERS: [Decode; 18] = [
    one::<NextRequest>,
    one::<SequenceSpec>,
    one::<IdQuery>,
    one::<IdPartsQuery>,
    one::<UuidQuery>,
    one::<ListQuery>,
    one::<GrantRequest>,
    one::<ReturnRequest>,
    one::<AdvanceRequest>,
    one::<GetSequenceQuery>,
    one::<AddMember>,
    one::<LeaderMove>,
    one::<ReadyQuery>,
    one::<SnapshotQuery>,
    one::<WorkersQuery>,
    one::<NoFields>,
    one::<CreateAccess>,
    one::<UpdateMember>,
];

fn one<T: Request + Serialize + PartialEq + Debug>(query: &[(String, String)], body: &[u8]) {
    match request::decode::<T>(query, body) {
        Ok(read) => {
            let Ok(written) = serde_json::to_vec(&read) else {
                panic!("{read:?} cannot be written");
            };
            let again = request::decode::<T>(&[], &written);
            assert_eq!(again.as_ref(), Ok(&read), "{read:?} changed");
        }
        Err(problem) => refused(&problem),
    }
}

fn refused(problem: &Problem) {
    let code = problem.error_code();
    let expected = [ErrorCode::InvalidArgument, ErrorCode::UnknownField];
    assert!(
        code.is_some_and(|code| expected.contains(&code)),
        "{problem:?}"
    );
    assert!(!problem.detail.is_empty(), "{problem:?}");
    let length = problem.detail.len() + problem.hint.as_deref().map_or(0, str::len);
    assert!(length <= MOST_DETAIL, "{length} bytes for a refusal");
    let Ok(written) = serde_json::to_string(problem) else {
        panic!("{problem:?} cannot be written");
    };
    let read = serde_json::from_str::<Problem>(&written);
    assert_eq!(read.ok().as_ref(), Some(problem));
}

/// A small text. The first byte selects the parser.
pub fn api_text(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(rest) else {
        return;
    };
    match kind % 9 {
        0 => id(text),
        1 => name(text),
        2 => host(text),
        3 => token(text),
        4 => number(text),
        5 => path(text),
        6 => problem(text),
        7 => near(text),
        _ => scope(text),
    }
}

/// An ID survives a round trip through each text form, also with padding and a prefix.
fn id(text: &str) {
    for format in IdFormat::ALL {
        match format.parse(text) {
            Ok(id) => {
                let shown = format.encode(id);
                assert_eq!(format.parse(&shown), Ok(id));
                let Ok(padded) = IdText::new(format, Some(64), None) else {
                    panic!("64 is a width");
                };
                let padded = padded.render(id);
                assert!(
                    padded.as_ref().is_ok_and(|text| text.len() == 64),
                    "{padded:?}"
                );
                if let Ok(padded) = padded {
                    assert_eq!(format.parse(&padded), Ok(id));
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    if let Ok(prefixed) = IdText::new(IdFormat::Dec, None, Some(text)) {
        let prefixed = prefixed.render(7).unwrap_or_default();
        assert_eq!(prefixed.strip_prefix(text), Some("7"));
    }
}

/// A valid name needs no escape in a path.
fn name(text: &str) {
    match validate_name(text) {
        Ok(()) => assert_eq!(paths::fill("/{name}", text), format!("/{text}")),
        Err(error) => {
            let words = error.to_string();
            assert!(words.contains("a name") && words.len() < 128, "{words}");
        }
    }
}

/// A valid `HOST:PORT` consists of a valid host and a port, and forms valid URLs.
fn host(text: &str) {
    if address::is_host_port(text) {
        let (host, port) = text.rsplit_once(':').unwrap_or_default();
        assert!(address::is_host(host), "{host}");
        assert!(port.parse::<u16>().is_ok_and(|port| port > 0), "{port}");
        assert!(address::is_node_url(&address::base_url(text)));
        assert!(address::is_node_url(&address::tls_url(text)));
    }
    if address::is_node_url(text) {
        let authority = address::authority(text).unwrap_or_default();
        assert!(address::is_host(authority) || address::is_host_port(authority));
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
    }
}

/// A token is valid in a header, and only `secret` returns its text.
fn token(text: &str) {
    match Token::parse(text) {
        Ok(token) => {
            assert_eq!(token.secret(), text);
            assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
            assert!(!format!("{token:?}").contains(text));
        }
        Err(error) => {
            // The message is the same for every text, so it does not contain the token.
            let words = Token::parse("").map_err(|error| error.to_string());
            assert_eq!(words.err(), Some(error.to_string()));
        }
    }
}

/// An integer has the same value as a JSON string, as a JSON number and as parsed by Rust.
fn number(text: &str) {
    let read = |json: &str| {
        let mut from = serde_json::Deserializer::from_str(json);
        let read = number_text::Decimal::deserialize::<i64, _>(&mut from).ok();
        read.filter(|_| from.end().is_ok())
    };
    let Ok(quoted) = serde_json::to_string(text) else {
        panic!("a text can be written");
    };
    let read_quoted = read(&quoted);
    let plain = text.strip_prefix('-').unwrap_or(text);
    let is_plain = !plain.is_empty() && plain.bytes().all(|byte| byte.is_ascii_digit());
    assert_eq!(read_quoted, text.parse().ok().filter(|_: &i64| is_plain));
    let bare = read(text).filter(|_| is_plain);
    assert!(bare.is_none() || bare == read_quoted, "{text}");
}

/// A path parameter survives a round trip, and cannot end the path or begin a query.
fn path(text: &str) {
    let filled = paths::fill("/v1/sequences/{name}/next", text);
    let middle = filled.strip_prefix("/v1/sequences/");
    let middle = middle.and_then(|rest| rest.strip_suffix("/next"));
    let Some(middle) = middle else {
        panic!("{filled}");
    };
    assert!(
        !middle.contains(['/', '?', '#', ' ', '\r', '\n']),
        "{middle}"
    );
    let read = percent_encoding::percent_decode_str(middle).decode_utf8();
    assert_eq!(read.ok().as_deref(), Some(text));
}

/// A problem as a newer or malicious server may send it to a client.
fn problem(text: &str) {
    let Ok(problem) = serde_json::from_str::<Problem>(text) else {
        return;
    };
    let Ok(written) = serde_json::to_string(&problem) else {
        panic!("{problem:?} cannot be written");
    };
    // The last digit of a fraction in an unknown member may change.
    let known = |problem: Problem| Problem {
        extra: problem
            .extra
            .into_iter()
            .map(|(key, _)| (key, ().into()))
            .collect(),
        ..problem
    };
    let again = serde_json::from_str::<Problem>(&written).ok().map(known);
    assert_eq!(again, Some(known(problem)));
}

/// A permission is written as the text from which it was parsed.
fn scope(text: &str) {
    match text.parse::<Permission>() {
        Ok(permission) => assert_eq!(permission.to_string(), text),
        Err(error) => assert!((1..MOST_DETAIL).contains(&error.to_string().len())),
    }
}

fn near(text: &str) {
    const KNOWN: [&str; 4] = ["count", "contiguous", "expand", "timeout_ms"];
    if let Some(near) = nearest(text, &KNOWN) {
        assert!(KNOWN.contains(&near));
    }
    for known in KNOWN {
        assert_eq!(nearest(known, &KNOWN), Some(known));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::{replay, seeds};

    /// At least one request of each type, as a query and as a body, some of them invalid.
    const REQUESTS: [(u8, &str, &str); 25] = [
        (0, "count=5&contiguous=1&expand=true", ""),
        (0, "", r#"{"count":"100","contiguous":false}"#),
        (0, "count=1", r#"{"count":1}"#),
        (0, "cuont=1&count=1&count=2", ""),
        (
            1,
            "",
            r#"{"mode":"strict","start":"1","increment":-2,"min":"-9223372036854775808","max":null,"cycle":true}"#,
        ),
        (
            1,
            "",
            r#"{"segment":{"target":"1m","min":"10","max":1000},"description":"ü"}"#,
        ),
        (1, "", r#"{"segment":{"min":"1","min":"2"}}"#),
        (1, "", r#"{"segment":[]}"#),
        (
            2,
            "layout=default&format=hex&pad=20&id_prefix=a-&numeric=1&count=7",
            "",
        ),
        (3, "layout=js53&format=b62", ""),
        (4, "version=7&count=10000", ""),
        (5, "prefix=a&limit=1000&cursor=b3JkZXI", ""),
        (
            6,
            "",
            r#"{"size":10000,"after":"170141183460469231731687303715884105727"}"#,
        ),
        (7, "unused=998", ""),
        (8, "", r#"{"to":"500000"}"#),
        (9, "stale=1", ""),
        (
            10,
            "",
            r#"{"name":"n4","peer":"n4.example:7401","http":"http://n4.example:7400"}"#,
        ),
        (11, "", r#"{"node":"n2"}"#),
        (12, "for=ids&verbose", ""),
        (13, "full=1", " "),
        (14, "layout=default&prefix=n", ""),
        (15, "", "[]"),
        (15, "x", "{}"),
        (
            16,
            "",
            r#"{"scopes":["read","allocate:order."],"description":"shop","ttl_ms":5000,"per_second":500}"#,
        ),
        (0, "", "\"an unfinished te"),
    ];

    #[test]
    fn kept_requests_are_read_or_refused_with_words() {
        let inputs = REQUESTS.map(|(kind, query, body)| {
            let line = [query.as_bytes(), b"\n", body.as_bytes()].concat();
            [&[kind][..], &line].concat()
        });
        replay("api_request", &seeds(inputs), api_request);
    }

    #[test]
    fn kept_texts_are_read_or_refused_with_words() {
        let texts = [
            (0, "117450583018840065"),
            (0, "08fvLNRpKVt"),
            (0, "038A4NVBR0801"),
            (0, "0xffffffffffffffff"),
            (1, "eu.order:2026_11-x"),
            (2, "n1.example:7401"),
            (2, "[fe80::1%eth0]:1"),
            (2, "https://[2001:db8::1]:7400"),
            (3, "0123456789abcdef-._~+/0123456789=="),
            (4, "-9223372036854775808"),
            (4, "007"),
            (5, "a/b ü%2f?#"),
            (
                6,
                r#"{"status":409,"code":"brand-new","retryable":true,"retry_after_ms":1,"hint":"x","holder":{"owner":"a"}}"#,
            ),
            (7, "Contigous"),
            (8, "allocate:order."),
            (8, "admin"),
        ];
        let inputs = texts.map(|(kind, text)| [&[kind][..], text.as_bytes()].concat());
        replay("api_text", &seeds(inputs), api_text);
    }
}
