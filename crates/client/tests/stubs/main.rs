//! The client against stubs. Each stub responds to `/livez` and handles every other request in the
//! same way.

#![expect(clippy::unwrap_used, reason = "a test fails where it is wrong")]

mod download;
mod endpoints;
mod once;
mod routes;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use seqd_client::{Client, Options, parse_endpoints};

const BUSY: &str = r#"{"status":503,"code":"overloaded","detail":"full","retryable":true}"#;

/// The handling of a connection after its request was read.
enum Stub {
    Send(Vec<u8>),
    SendAfter(Duration, Vec<u8>),
    SendAndHang(Vec<u8>),
    Hang,
    Close,
}

/// Serves on a thread that ends with the test process. Returns the address.
fn stub(what: Stub) -> SocketAddr {
    counted(what).0
}

/// Like [`stub`], with the number of requests other than `/livez`.
fn counted(what: Stub) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0_u8; 4096];
            let _ = stream.read(&mut bytes);
            if bytes.starts_with(b"GET /livez ") {
                let alive = b"HTTP/1.1 200 X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                stream.write_all(alive).unwrap();
                continue;
            }
            count.fetch_add(1, Ordering::SeqCst);
            match &what {
                Stub::Send(answer) => stream.write_all(answer).unwrap(),
                Stub::SendAfter(wait, answer) => {
                    thread::sleep(*wait);
                    let _ = stream.write_all(answer);
                }
                Stub::SendAndHang(answer) => {
                    stream.write_all(answer).unwrap();
                    thread::sleep(Duration::from_secs(60));
                }
                Stub::Hang => thread::sleep(Duration::from_secs(60)),
                Stub::Close => {}
            }
        }
    });
    (address, requests)
}

/// A node that hangs: the system accepts its connections, but no request receives a response.
fn hung() -> (SocketAddr, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (listener.local_addr().unwrap(), listener)
}

/// The number of bytes that were sent in each response so far.
type Sent = Arc<Mutex<Vec<usize>>>;

/// A node that responds to every request, also to `/livez`, with this status and a body without
/// end.
fn endless(status: u16) -> (SocketAddr, Sent) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sent = Sent::default();
    let counts = Arc::clone(&sent);
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            counts.lock().unwrap().push(0);
            let counts = Arc::clone(&counts);
            thread::spawn(move || {
                let _ = stream.write_all(&response(status, "", 1 << 40, b"\""));
                let part = vec![b'x'; 1 << 20];
                while stream.write_all(&part).is_ok() {
                    counts.lock().unwrap()[number] += part.len();
                }
            });
        }
    });
    (address, sent)
}

/// Asserts the number of responses, and that the client stopped reading each of them soon after its
/// limit of 64 MiB.
fn assert_was_cut(sent: &Sent, responses: usize) {
    let sent = sent.lock().unwrap();
    assert_eq!(sent.len(), responses);
    assert!(sent.iter().all(|bytes| *bytes < 128 << 20), "{sent:?}");
}

/// A response that announces this many bytes and has this body.
fn answer(status: u16, head: &str, announced: usize, body: &[u8]) -> Stub {
    Stub::Send(response(status, head, announced, body))
}

fn response(status: u16, head: &str, announced: usize, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} X\r\n{head}content-length: {announced}\r\nconnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn answers(status: u16, body: &str) -> SocketAddr {
    stub(answer(status, "", body.len(), body.as_bytes()))
}

/// Returns an address on which nothing listens.
fn closed() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

fn client(addresses: &[SocketAddr], timeout: Option<Duration>) -> Client {
    let list: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let endpoints = parse_endpoints(&list.join(","), false).unwrap();
    let options = Options {
        endpoints,
        timeout,
        ..Options::default()
    };
    Client::new(options).unwrap()
}
