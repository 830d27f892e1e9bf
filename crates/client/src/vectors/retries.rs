//! The decisions of a client after each kind of response: the next endpoint, or an error.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use seqd_api::{ErrorCode, IdQuery, NextRequest, Problem, TLS_REQUIRED};
use serde_json::{Value, json};

use crate::client::{Client, Options};
use crate::endpoint::parse_endpoints;
use crate::error::Error;

/// The deadline of a request. Two endpoints share it, so a silent one takes a part of it.
const TIMEOUT: Duration = Duration::from_millis(1500);

const GOOD: &str = r#"{"id":"7","layout":"default","worker":1,"node":"n1","ranges":[],"first":"7","last":"7","count":1,"increment":"1","mode":"strict"}"#;

/// Every error code, and every other failure of a node or an intermediary. Each case is combined
/// with a request that may be retried after its response was lost, and with a request that may not.
pub(super) async fn cases() -> Vec<Value> {
    let mut cases: Vec<Value> = ErrorCode::ALL.iter().map(|code| problem(*code)).collect();
    cases.extend([
        without_tls(),
        json!({ "does": "refuse" }),
        json!({ "does": "close" }),
        json!({ "does": "hang" }),
        json!({ "does": "hang-livez" }),
        json!({ "does": "fail-livez" }),
        json!({ "does": "answer", "status": 502, "headers": {}, "body": "bad gateway" }),
        json!({ "does": "answer", "status": 404, "headers": {}, "body": "not here" }),
        json!({ "does": "answer", "status": 200, "headers": {}, "body": "<html>" }),
        json!({ "does": "answer", "status": 302, "headers": {"location": "/"}, "body": "" }),
    ]);
    let mut rows = Vec::new();
    for case in cases {
        for repeatable in [true, false] {
            rows.push(row(&case, repeatable).await);
        }
    }
    rows
}

fn problem(code: ErrorCode) -> Value {
    let row = code.row();
    let mut problem = Problem::new(code, "in a test");
    let mut headers = json!({ "content-type": "application/problem+json" });
    if matches!(row.status, 429 | 503) {
        problem = problem.with_retry_after_ms(1500);
        headers["retry-after"] = json!("2");
    }
    let body = serde_json::to_string(&problem).unwrap();
    json!({ "does": "answer", "status": row.status, "headers": headers, "body": body })
}

/// The response of a port that requires TLS to a request without it.
fn without_tls() -> Value {
    let problem = Problem::new(ErrorCode::InvalidArgument, "in a test");
    let body = serde_json::to_string(&problem.with_extra(TLS_REQUIRED, true)).unwrap();
    let headers = json!({ "content-type": "application/problem+json" });
    json!({ "does": "answer", "status": 400, "headers": headers, "body": body })
}

async fn row(case: &Value, repeatable: bool) -> Value {
    let (first, _) = stub(case);
    let (second, asked) = stub(&json!({
        "does": "answer", "status": 200, "headers": {}, "body": GOOD,
    }));
    let both = send(&[first, second], repeatable).await;
    let is_next = asked.load(Ordering::SeqCst) == 1;
    assert_eq!(is_next, both.is_ok(), "{case}: {both:?}");
    let (alone, _) = stub(case);
    let error = send(&[alone], repeatable).await.unwrap_err();
    let (code, retryable) = match &error {
        Error::Problem(problem) => (&*problem.code, problem.retryable),
        Error::Unreachable(_) => ("unreachable", true),
        Error::NoAnswer(_) => ("no-answer", true),
        Error::OutcomeUnknown(_) => ("outcome-unknown", false),
        Error::BadAnswer { .. } => ("bad-answer", false),
        other => panic!("{other}"),
    };
    let retry_after_ms = error.problem().and_then(|problem| problem.retry_after_ms);
    json!({
        "node": case,
        "repeatable": repeatable,
        "then": if is_next { "next" } else { "fail" },
        "error": {
            "code": code,
            "retryable": retryable,
            "retry_after_ms": retry_after_ms,
        },
    })
}

async fn send(addresses: &[SocketAddr], repeatable: bool) -> Result<(), Error> {
    let list: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let client = Client::new(Options {
        endpoints: parse_endpoints(&list.join(","), false).unwrap(),
        timeout: Some(TIMEOUT),
        ..Options::default()
    })
    .unwrap();
    if repeatable {
        client.id(&IdQuery::default()).await.map(drop)
    } else {
        let request = NextRequest::default();
        client.next("a", &request).await.map(drop)
    }
}

/// Serves on a thread that ends with the test process. Returns the address, and the number of
/// requests other than `/livez`.
fn stub(case: &Value) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let does = case["does"].as_str().unwrap().to_owned();
    if does == "refuse" {
        return (address, asked);
    }
    let (count, answer) = (Arc::clone(&asked), answer(case));
    thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0_u8; 4096];
            let _ = stream.read(&mut bytes);
            let is_livez = bytes.starts_with(b"GET /livez ");
            if !is_livez {
                count.fetch_add(1, Ordering::SeqCst);
            }
            let sent = match (does.as_str(), is_livez) {
                ("hang-livez", true) | ("hang" | "hang-livez", false) => {
                    open.push(stream);
                    continue;
                }
                ("fail-livez", true) => http(503, "", "no node"),
                (_, true) => http(200, "", "{}"),
                ("answer", false) => answer.clone(),
                _ => continue,
            };
            let _ = stream.write_all(sent.as_bytes());
        }
    });
    (address, asked)
}

fn answer(case: &Value) -> String {
    let headers = case["headers"].as_object().into_iter().flatten();
    let head: String = headers
        .map(|(name, value)| format!("{name}: {}\r\n", value.as_str().unwrap()))
        .collect();
    let status = case["status"].as_u64().unwrap_or(500);
    http(status, &head, case["body"].as_str().unwrap_or_default())
}

fn http(status: u64, head: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\n{head}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}
