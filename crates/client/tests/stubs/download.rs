//! A snapshot is downloaded from the first endpoint that has one, and kept only if it is complete.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use seqd_client::Error;
use seqd_client::api::{SnapshotQuery, exit};

use super::{
    BUSY, Stub, answer, answers, assert_was_cut, client, closed, endless, hung, response, stub,
};

const BODY: &[u8] = b"the bytes of a snapshot";
const HEAD: &str = "seqd-cluster: 01J9\r\nseqd-snapshot-index: 42\r\nseqd-snapshot-term: 3\r\n\
                    seqd-snapshot-rows: 7\r\nseqd-snapshot-digest: ab\r\nseqd-node: n2\r\n";
const INTERNAL: &str = r#"{"status":500,"code":"internal","detail":"disk","retryable":false}"#;

/// A stub that announces the snapshot and sends this body.
fn sends(head: &str, body: &[u8]) -> SocketAddr {
    stub(answer(200, head, BODY.len(), body))
}

/// A node with the snapshot that responds to every request after `wait`, also to `/livez`.
fn sends_after(wait: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            thread::sleep(wait);
            let _ = stream.write_all(&response(200, HEAD, BODY.len(), BODY));
        }
    });
    address
}

/// Returns the bytes, the reported progress and the node, or the error.
async fn download(addresses: &[SocketAddr]) -> Result<(Vec<u8>, Vec<u64>, String), Error> {
    download_within(Duration::from_secs(20), addresses).await
}

async fn download_within(
    limit: Duration,
    addresses: &[SocketAddr],
) -> Result<(Vec<u8>, Vec<u64>, String), Error> {
    let client = client(addresses, Some(limit));
    let download = client.snapshot(&SnapshotQuery::default()).await?;
    let head = download.head();
    assert_eq!((head.index, head.term, head.rows), (42, 3, 7));
    assert_eq!(head.bytes, BODY.len() as u64);
    let node = download.node().to_owned();
    let (mut out, mut progress) = (Vec::new(), Vec::new());
    download
        .save(&mut out, |written| progress.push(written))
        .await?;
    Ok((out, progress, node))
}

#[tokio::test]
async fn all_bytes_come_from_the_first_endpoint_that_has_them() {
    let whole = sends(HEAD, BODY);
    let busy = answers(503, BUSY);
    let (silent, _listener) = hung();
    let (bytes, progress, node) = download(&[closed(), silent, busy, whole]).await.unwrap();
    assert_eq!(bytes, BODY);
    assert_eq!(progress.last(), Some(&(BODY.len() as u64)));
    assert_eq!(node, "n2");
}

#[tokio::test]
async fn the_last_endpoint_gets_all_of_the_remaining_time() {
    // An equal share of the limit, with half a second for the response of the server, is 2 s.
    let limit = Duration::from_millis(7500);
    let slow = sends_after(Duration::from_secs(3));
    let downloaded = download_within(limit, &[closed(), closed(), closed(), slow]).await;
    assert_eq!(downloaded.unwrap().0, BODY);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_and_not_taken_up_elsewhere() {
    let broken = sends(HEAD, &BODY[..5]);
    let whole = sends(HEAD, BODY);
    let error = download(&[broken, whole]).await.unwrap_err();
    assert_eq!(error.exit(), exit::UNAVAILABLE);
    let text = error.to_string();
    assert!(text.contains("after 5 of 23 bytes"), "{text}");
}

#[tokio::test]
async fn a_response_that_is_not_a_snapshot_is_refused() {
    let internal = answers(500, INTERNAL);
    let whole = sends(HEAD, BODY);
    let error = download(&[internal, whole]).await.unwrap_err();
    assert_eq!(error.exit(), exit::FAILURE);
    let bare = sends("seqd-cluster: 01J9\r\n", BODY);
    let error = download(&[bare]).await.unwrap_err();
    assert!(error.to_string().contains("seqd-snapshot-index"), "{error}");
}

#[tokio::test]
async fn a_refusal_without_end_is_not_read_to_its_end() {
    let (address, sent) = endless(404);
    let limit = Duration::from_secs(60);
    let error = download_within(limit, &[address]).await.unwrap_err();
    assert!(matches!(error, Error::NoAnswer(_)), "{error}");
    // The first response is that to `/livez`.
    assert_was_cut(&sent, 2);
}

#[tokio::test]
async fn a_refusal_whose_body_never_arrives_leads_to_the_next_endpoint() {
    let head = response(500, "", INTERNAL.len(), b"");
    let refuses = stub(Stub::SendAndHang(head));
    let started = Instant::now();
    let (bytes, ..) = download(&[refuses, sends(HEAD, BODY)]).await.unwrap();
    assert_eq!(bytes, BODY);
    // The stub ends the connection after a minute.
    assert!(started.elapsed() < Duration::from_secs(30));
}
