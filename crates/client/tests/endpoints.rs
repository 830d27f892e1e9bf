//! Which endpoint is asked, and what is told when none gives a good answer: against a stub that
//! answers each connection with fixed bytes.

#![expect(clippy::unwrap_used, reason = "a test fails where it is wrong")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use seqd_client::api::{IdQuery, NextRequest, exit};
use seqd_client::{Client, Error, Options, parse_endpoints};

/// What the stub does with a connection once it has read the request.
#[derive(Clone, Copy)]
enum Stub {
    Answer(u16, &'static str),
    Hang,
    Close,
}

const ID: &str = r#"{"id":"7","layout":"default","worker":1,"node":"n1","news":true}"#;
const BUSY: &str = r#"{"status":503,"code":"overloaded","detail":"full","retryable":true}"#;
const MISSING: &str = r#"{"status":404,"code":"not-found","detail":"none","retryable":false}"#;

/// Serves in a thread that ends with the test process; gives back where.
fn stub(what: Stub) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0_u8; 4096];
            let _ = stream.read(&mut bytes);
            match what {
                Stub::Answer(status, body) => {
                    let head = format!(
                        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    stream.write_all(head.as_bytes()).unwrap();
                    stream.write_all(body.as_bytes()).unwrap();
                }
                Stub::Hang => thread::sleep(Duration::from_secs(60)),
                Stub::Close => {}
            }
        }
    });
    address
}

/// An address at which nothing listens.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

fn client(addresses: &[SocketAddr]) -> Client {
    let list: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let endpoints = parse_endpoints(&list.join(",")).unwrap();
    Client::new(Options {
        endpoints,
        timeout: Some(Duration::from_millis(400)),
    })
    .unwrap()
}

async fn id(addresses: &[SocketAddr]) -> Result<String, Error> {
    client(addresses)
        .id(&IdQuery::default())
        .await
        .map(|answer| answer.id)
}

async fn next(addresses: &[SocketAddr]) -> Result<u64, Error> {
    client(addresses)
        .next("a", &NextRequest::default())
        .await
        .map(|answer| answer.count)
}

#[tokio::test]
async fn a_refused_connection_leads_to_the_next_endpoint() {
    assert_eq!(
        id(&[nobody(), stub(Stub::Answer(200, ID))]).await.unwrap(),
        "7"
    );
}

#[tokio::test]
async fn a_retryable_answer_leads_to_the_next_endpoint() {
    let busy = stub(Stub::Answer(503, BUSY));
    assert_eq!(id(&[busy, stub(Stub::Answer(200, ID))]).await.unwrap(), "7");
}

#[tokio::test]
async fn an_answer_that_is_not_retryable_ends_the_round() {
    let missing = stub(Stub::Answer(404, MISSING));
    let error = id(&[missing, stub(Stub::Answer(200, ID))])
        .await
        .unwrap_err();
    assert_eq!(error.exit(), exit::NOT_FOUND);
}

#[tokio::test]
async fn refused_everywhere_is_unavailable() {
    let error = next(&[nobody(), nobody()]).await.unwrap_err();
    assert_eq!(error.exit(), exit::UNAVAILABLE);
    assert!(error.to_string().contains("connection refused"), "{error}");
}

#[tokio::test]
async fn a_problem_says_more_than_a_refused_connection() {
    let error = next(&[stub(Stub::Answer(503, BUSY)), nobody()])
        .await
        .unwrap_err();
    assert_eq!(
        error.problem().map(|problem| &*problem.code),
        Some("overloaded")
    );
}

#[tokio::test]
async fn a_change_without_an_answer_is_unknown_and_not_sent_again() {
    for silence in [Stub::Hang, Stub::Close] {
        let started = Instant::now();
        let error = next(&[stub(silence), stub(Stub::Answer(200, "{}"))])
            .await
            .unwrap_err();
        assert!(matches!(error, Error::OutcomeUnknown(_)), "{error}");
        assert_eq!(error.exit(), exit::OUTCOME_UNKNOWN);
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

#[tokio::test]
async fn an_id_without_an_answer_may_be_asked_for_again() {
    let error = id(&[stub(Stub::Close), stub(Stub::Answer(200, ID))])
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NoAnswer(_)), "{error}");
    assert_eq!(error.exit(), exit::UNAVAILABLE);
}

#[tokio::test]
async fn what_is_not_seqd_is_told() {
    let error = id(&[stub(Stub::Answer(200, "<html>"))]).await.unwrap_err();
    assert_eq!(error.exit(), exit::FAILURE);
    assert!(error.to_string().contains("<html>"), "{error}");
    let gateway = next(&[stub(Stub::Answer(502, "bad gateway"))])
        .await
        .unwrap_err();
    assert_eq!(gateway.exit(), exit::OUTCOME_UNKNOWN);
}
