//! A snapshot is taken from the first endpoint that has one, and believed only when it is whole:
//! against a stub that answers each connection with fixed bytes.

#![expect(clippy::unwrap_used, reason = "a test fails where it is wrong")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use seqd_client::api::{SnapshotQuery, exit};
use seqd_client::{Client, Error, Options, parse_endpoints};

const BODY: &[u8] = b"the bytes of a snapshot";
const HEAD: &str = "seqd-cluster: 01J9\r\nseqd-snapshot-index: 42\r\nseqd-snapshot-term: 3\r\n\
                    seqd-snapshot-rows: 7\r\nseqd-snapshot-digest: ab\r\nseqd-node: n2\r\n";
const BUSY: &str = r#"{"status":503,"code":"overloaded","detail":"full","retryable":true}"#;
const INTERNAL: &str = r#"{"status":500,"code":"internal","detail":"disk","retryable":false}"#;

/// Serves this in a thread that ends with the test process; gives back where.
fn stub(answer: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0_u8; 4096];
            let _ = stream.read(&mut bytes);
            stream.write_all(&answer).unwrap();
        }
    });
    address
}

fn answer(status: u16, head: &str, announced: usize, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} X\r\n{head}content-length: {announced}\r\nconnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn problem(status: u16, body: &str) -> Vec<u8> {
    answer(status, "", body.len(), body.as_bytes())
}

fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// What is written, what was told on the way, and the node; or the error.
async fn download(addresses: &[SocketAddr]) -> Result<(Vec<u8>, Vec<u64>, String), Error> {
    let list: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let client = Client::new(Options {
        endpoints: parse_endpoints(&list.join(",")).unwrap(),
        timeout: None,
    })
    .unwrap();
    let download = client.snapshot(&SnapshotQuery::default()).await?;
    let head = download.head();
    assert_eq!((head.index, head.term, head.rows), (42, 3, 7));
    assert_eq!(head.bytes, BODY.len() as u64);
    let node = download.node().to_owned();
    let (mut out, mut told) = (Vec::new(), Vec::new());
    download
        .save(&mut out, |written| told.push(written))
        .await?;
    Ok((out, told, node))
}

#[tokio::test]
async fn all_bytes_come_from_the_first_endpoint_that_has_them() {
    let whole = stub(answer(200, HEAD, BODY.len(), BODY));
    let busy = stub(problem(503, BUSY));
    let (bytes, told, node) = download(&[nobody(), busy, whole]).await.unwrap();
    assert_eq!(bytes, BODY);
    assert_eq!(told.last(), Some(&(BODY.len() as u64)));
    assert_eq!(node, "n2");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_and_not_taken_up_elsewhere() {
    let broken = stub(answer(200, HEAD, BODY.len(), &BODY[..5]));
    let whole = stub(answer(200, HEAD, BODY.len(), BODY));
    let error = download(&[broken, whole]).await.unwrap_err();
    assert_eq!(error.exit(), exit::UNAVAILABLE);
    let text = error.to_string();
    assert!(text.contains("after 5 of 23 bytes"), "{text}");
}

#[tokio::test]
async fn what_is_no_snapshot_is_refused() {
    let internal = stub(problem(500, INTERNAL));
    let whole = stub(answer(200, HEAD, BODY.len(), BODY));
    let error = download(&[internal, whole]).await.unwrap_err();
    assert_eq!(error.exit(), exit::FAILURE);
    let bare = stub(answer(200, "seqd-cluster: 01J9\r\n", BODY.len(), BODY));
    let error = download(&[bare]).await.unwrap_err();
    assert!(error.to_string().contains("seqd-snapshot-index"), "{error}");
}
