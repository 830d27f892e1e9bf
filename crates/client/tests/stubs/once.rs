//! Work performed once, whose result is stored or not.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use seqd_client::{OnceError, OnceOptions};
use serde_json::{Value, json};

use super::{answer, client, counted};

const MARKER: &str = "seqd_result_not_kept";

/// A status and a body.
type Answer = (u16, String);

type Results = Arc<Mutex<Vec<Value>>>;

/// A node that responds to `begin` with this state and result, and to `complete` with what
/// `completes` returns for the result. Returns the address, and the results that it received.
fn node(
    state: &'static str,
    result: &'static str,
    completes: fn(&Value) -> Answer,
) -> (SocketAddr, Results) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let results = Results::default();
    let received = Arc::clone(&results);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (path, body) = read(&mut BufReader::new(&stream));
            let (status, sent) = if path.ends_with("/begin") {
                let sent = format!(
                    r#"{{"key":"k","state":"{state}","claim":"4","token":"3","attempt":1,
                    "expires_in_ms":60000,"result":{result}}}"#
                );
                (200, sent)
            } else if path.ends_with("/complete") {
                let result = serde_json::from_slice::<Value>(&body).unwrap()["result"].clone();
                let answer = completes(&result);
                received.lock().unwrap().push(result);
                answer
            } else {
                (200, "{}".to_owned())
            };
            let length = sent.len();
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n");
            let _ = write!(stream, "{head}connection: close\r\n\r\n{sent}");
        }
    });
    (address, results)
}

/// Reads a request. Returns its path and its body.
fn read(stream: &mut impl BufRead) -> (String, Vec<u8>) {
    let (mut path, mut length) = (String::new(), 0);
    for line in stream.by_ref().lines() {
        let line = line.unwrap().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if path.is_empty() {
            let target = line.split(' ').nth(1).unwrap_or_default();
            path = target.split('?').next().unwrap_or_default().to_owned();
        }
        if let Some(text) = line.strip_prefix("content-length: ") {
            length = text.parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (path, body)
}

fn stores(_: &Value) -> Answer {
    (200, r#"{"key":"k","state":"done"}"#.to_owned())
}

fn refusal(status: u16, code: &str) -> Answer {
    let problem =
        json!({"status": status, "code": code, "detail": "no", "retryable": status >= 500});
    (status, problem.to_string())
}

/// Begins the key of a node, and performs the work if it is the first.
async fn once<T>(address: SocketAddr, result: T) -> Result<T, OnceError<String>>
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let client = client(&[address], None);
    let work = |_| async { Ok(result) };
    let done = client.once("k", &OnceOptions::default(), work).await;
    done.map(|once| once.value)
}

fn assert_not_kept<T>(done: Result<T, OnceError<String>>, text: &str, open: bool) {
    let Err(error) = done else {
        panic!("the result was kept");
    };
    let is_open = match &error {
        OnceError::NotKept { is_open, .. } => *is_open,
        other => panic!("{other}"),
    };
    assert_eq!(is_open, open, "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

#[tokio::test]
async fn a_result_that_is_not_json_completes_the_key() {
    let (address, results) = node("first", "null", stores);
    let result = BTreeMap::from([(vec![1_u8], 1_u8)]);
    assert_not_kept(
        once(address, result).await,
        "its result is not JSON: ",
        false,
    );
    let stored = results.lock().unwrap();
    let reason = stored[0][MARKER].as_str().unwrap();
    assert!(reason.starts_with("is not JSON: "), "{reason}");
    assert_eq!(*stored, [json!({ MARKER: reason })]);
}

#[tokio::test]
async fn a_refused_result_completes_the_key() {
    let (address, results) = node("first", "null", |result| match result {
        Value::String(_) => refusal(400, "invalid-argument"),
        marker => stores(marker),
    });
    let done = once(address, "long".to_owned()).await;
    assert_not_kept(done, "its result was refused: no", false);
    let stored = results.lock().unwrap();
    assert_eq!(
        *stored,
        [json!("long"), json!({ MARKER: "was refused: no" })]
    );
}

#[tokio::test]
async fn a_key_that_cannot_be_completed_is_reported_as_open() {
    let (address, results) = node("first", "null", |_| refusal(403, "forbidden"));
    assert_not_kept(once(address, 1).await, "its key is still open", true);
    assert_eq!(results.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_lost_claim_is_not_completed() {
    let (address, results) = node("first", "null", |_| refusal(409, "lease-lost"));
    let done = once(address, 1).await;
    assert!(matches!(done, Err(OnceError::TookTooLong(_))), "{done:?}");
    assert_eq!(*results.lock().unwrap(), [json!(1)]);
}

#[tokio::test]
async fn a_retryable_refusal_is_retried_with_the_same_result() {
    let (address, results) = node("first", "null", |_| refusal(503, "overloaded"));
    let done = once(address, 1).await;
    assert!(
        matches!(done, Err(OnceError::OutcomeUnknown(_))),
        "{done:?}"
    );
    assert_eq!(*results.lock().unwrap(), vec![json!(1); 5]);
}

#[tokio::test]
async fn a_result_that_was_not_kept_is_an_error_for_later_callers() {
    let marker = r#"{"seqd_result_not_kept":"is not JSON: NaN"}"#;
    let (address, _) = node("done", marker, stores);
    assert_not_kept(once(address, json!(1)).await, "is not JSON: NaN", false);
    assert_not_kept(once(address, 1).await, "is not JSON: NaN", false);
}

#[tokio::test]
async fn a_result_that_resembles_a_marker_is_returned() {
    for result in [
        r#"["seqd_result_not_kept"]"#,
        r#"{"seqd_result":"kept"}"#,
        "null",
    ] {
        let (address, _) = node("done", result, stores);
        let value: Value = serde_json::from_str(result).unwrap();
        assert_eq!(once(address, json!(1)).await.unwrap(), value);
    }
}

#[tokio::test]
async fn a_retry_after_0_ms_has_a_pause() {
    let body = r#"{"status":503,"code":"overloaded","retryable":true,"retry_after_ms":0}"#;
    let (address, requests) = counted(answer(503, "", body.len(), body.as_bytes()));
    let options = OnceOptions {
        patience: Duration::from_millis(400),
        ..OnceOptions::default()
    };
    let client = client(&[address], None);
    let work = |_| async { Ok::<_, String>(1) };
    let done = client.once("k", &options, work).await;
    assert!(matches!(done, Err(OnceError::Request(_))), "{done:?}");
    // One request per 20 ms, and the first and the last one.
    let requests = requests.load(Ordering::SeqCst);
    assert!(requests <= 22, "{requests} requests");
}
