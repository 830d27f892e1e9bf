//! The limits of a connection, with clients that send and read too little or nothing.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::Request;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Instant, timeout};

use super::*;
use crate::connections::held::Held;
use crate::connections::limits::HttpLimits;

const LIMITS: HttpLimits = HttpLimits {
    head_bytes: 32 * 1024,
    headers: 64,
    hot: None,
    head_wait: Some(Duration::from_secs(100)),
};
const FIRST_BYTE: Duration = Duration::from_secs(5);
const BOUNDS: Bounds = Bounds {
    first_byte: Some(FIRST_BYTE),
    write_wait: Duration::from_secs(10),
    unsent_bytes: 1 << 20,
};
const SECOND: Duration = Duration::from_secs(1);

/// A body of one piece.
struct Once(Option<Bytes>);

impl Body for Once {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        let length = self.0.as_ref().map_or(0, Bytes::len);
        hyper::body::SizeHint::with_exact(length as u64)
    }
}

/// The client's side of a served connection with a buffer of `on_its_way` bytes, and the number
/// of answered requests. `/slow` takes a minute. Any other path has a response of `length`
/// bytes.
fn served(on_its_way: usize, length: usize) -> (DuplexStream, Arc<AtomicUsize>) {
    let (near, far) = duplex(on_its_way);
    let answered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&answered);
    let service = service_fn(move |request: Request<Incoming>| {
        let count = Arc::clone(&count);
        async move {
            if request.uri().path() == "/slow" {
                sleep(60 * SECOND).await;
            }
            count.fetch_add(1, Ordering::SeqCst);
            let body = Once(Some(Bytes::from(vec![b'x'; length])));
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    tokio::spawn(async move {
        let client = Held::new(2, BOUNDS.unsent_bytes).connection(None, false);
        let unreadable: Unreadable = Arc::new(|_| Response::new(Bytes::from_static(b"why")));
        let stream = TokioIo::new(Paced::new(near, &BOUNDS, client, Some(unreadable)));
        let _ = LIMITS.builder().serve_connection(stream, service).await;
    });
    (far, answered)
}

const ONE: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

async fn answer(client: &mut DuplexStream, length: usize) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = timeout(SECOND, client.read_u8()).await;
        head.push(byte.expect("an answer in time").unwrap());
    }
    let mut body = vec![0; length];
    client.read_exact(&mut body).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_neither_for_a_partial_request_nor_for_a_slow_one_after_it() {
    for behind in [
        &b"\r\n"[..],
        b"GE",
        b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n",
    ] {
        let (mut client, _) = served(1 << 20, 3);
        client.write_all(&[ONE, behind].concat()).await.unwrap();
        answer(&mut client, 3).await;
    }
}

#[tokio::test(start_paused = true)]
async fn pipelined_answers_leave_together_and_in_order() {
    let (mut client, answered) = served(1 << 20, 3);
    client.write_all(&ONE.repeat(100)).await.unwrap();
    for _ in 0..100 {
        answer(&mut client, 3).await;
    }
    assert_eq!(answered.load(Ordering::SeqCst), 100);
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_never_read_are_few_and_end_the_connection() {
    let (mut client, answered) = served(64 << 10, 100 << 10);
    client.write_all(&ONE.repeat(1000)).await.unwrap();
    sleep(BOUNDS.write_wait / 2).await;
    let few = answered.load(Ordering::SeqCst);
    assert!(few <= 3, "{few} answers of 100 KiB");
    sleep(BOUNDS.write_wait).await;
    let mut rest = Vec::new();
    let read = timeout(SECOND, client.read_to_end(&mut rest)).await;
    assert!(read.is_ok(), "the connection is open");
    assert_eq!(answered.load(Ordering::SeqCst), few);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_gets_everything() {
    let (mut client, _) = served(1 << 10, 10 << 10);
    client.write_all(&ONE.repeat(20)).await.unwrap();
    for _ in 0..20 {
        sleep(BOUNDS.write_wait / 2).await;
        answer(&mut client, 10 << 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_cannot_be_read_is_answered_with_a_body_after_those_before_it() {
    let many = format!(
        "GET / HTTP/1.1\r\n{}\r\n",
        "a: b\r\n".repeat(LIMITS.headers + 1)
    );
    let long = format!(
        "GET / HTTP/1.1\r\na: {}\r\n\r\n",
        "b".repeat(LIMITS.head_bytes)
    );
    for (head, status) in [
        (&b"GET / HTTP/1.1\r\nno colon\r\n\r\n"[..], 400),
        (b"GET /\r\n\r\n", 400),
        (b"no request\r\n\r\n", 400),
        (many.as_bytes(), 431),
        (long.as_bytes(), 431),
    ] {
        for before in [0, 1, 20] {
            let (mut client, _) = served(1 << 20, 3);
            let all = [&ONE.repeat(before), head].concat();
            client.write_all(&all).await.unwrap();
            for _ in 0..before {
                answer(&mut client, 3).await;
            }
            let mut last = String::new();
            client.read_to_string(&mut last).await.unwrap();
            let begin = format!("HTTP/1.1 {status} ");
            assert!(last.starts_with(&begin), "{status} {before}: {last:?}");
            assert!(last.contains("connection: close\r\n"), "{last:?}");
            assert!(
                last.ends_with("content-length: 3\r\n\r\nwhy") || last.ends_with("\r\n\r\nwhy"),
                "{last:?}"
            );
            assert!(last.contains("content-length: 3\r\n"), "{last:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn http_2_is_refused_with_an_answer() {
    let (mut client, _) = served(1 << 10, 3);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    client.write_all(preface).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 505 "), "{answer}");
    assert!(head.contains(&format!("content-length: {}", body.len())));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_sends_nothing_is_closed() {
    let (mut client, _) = served(1 << 10, 3);
    let began = Instant::now();
    let end = client.read_u8().await;
    assert!(end.is_err());
    assert!(began.elapsed() >= FIRST_BYTE && began.elapsed() < 2 * FIRST_BYTE);
    // After its first request, a connection may be idle for longer.
    let (mut client, _) = served(1 << 10, 3);
    client.write_all(ONE).await.unwrap();
    answer(&mut client, 3).await;
    sleep(2 * FIRST_BYTE).await;
    client.write_all(ONE).await.unwrap();
    answer(&mut client, 3).await;
}

/// A stream that accepts bytes before the client can receive them, as TLS does.
struct Accepting {
    to: DuplexStream,
    accepted: BytesMut,
}

impl Accepting {
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.accepted.is_empty() {
            let sent = ready!(Pin::new(&mut self.to).poll_write(cx, &self.accepted))?;
            self.accepted.advance(sent);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Accepting {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let _ = self.poll_send(cx)?;
        let length = bytes.len().min(WRITE_BUFFER - self.accepted.len());
        self.accepted.extend_from_slice(&bytes[..length]);
        let _ = self.poll_send(cx)?;
        match length {
            0 => Poll::Pending,
            length => Poll::Ready(Ok(length)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.to).poll_shutdown(cx)
    }
}

impl AsyncRead for Accepting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to).poll_read(cx, buffer)
    }
}

/// The client's side of a connection with TLS, and the node's side with a response of this length.
fn responding(held: &Held, length: usize) -> (DuplexStream, Paced<Accepting>) {
    let (to, client) = duplex(1 << 10);
    let accepted = BytesMut::new();
    let own = held.connection(None, false);
    let mut paced = Paced::new(Accepting { to, accepted }, &BOUNDS, own, None);
    paced.hold(&vec![b'x'; length]);
    (client, paced)
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_receive_what_tls_has_accepted_loses_its_connection() {
    let held = Held::new(2, BOUNDS.unsent_bytes);
    for is_last in [false, true] {
        let (_client, mut paced) = responding(&held, 10 << 10);
        let sent = async {
            if is_last {
                paced.shutdown().await
            } else {
                paced.flush_held().await
            }
        };
        let sent = timeout(2 * BOUNDS.write_wait, sent).await;
        let error = sent.expect("no time limit").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_receives_slowly_through_tls_gets_everything() {
    let held = Held::new(2, BOUNDS.unsent_bytes);
    let (mut client, mut paced) = responding(&held, 500 << 10);
    let receives = async {
        for _ in 0..10 {
            sleep(BOUNDS.write_wait / 3).await;
            client.read_exact(&mut vec![0; 50 << 10]).await.unwrap();
        }
    };
    let ((), sent) = tokio::join!(receives, paced.shutdown());
    sent.unwrap();
}

#[tokio::test(start_paused = true)]
async fn bytes_that_tls_has_accepted_are_unsent_until_the_client_can_receive_them() {
    for receives in [true, false] {
        let mut held = Held::new(2, 8 << 10);
        let (mut client, mut paced) = responding(&held, 10 << 10);
        let own = paced.client.clone();
        let task = tokio::spawn(async move {
            paced.flush_held().await.unwrap();
            std::future::pending::<()>().await;
        });
        held.add(task.abort_handle(), &own);
        sleep(SECOND).await;
        if receives {
            client.read_exact(&mut vec![0; 10 << 10]).await.unwrap();
        }
        sleep(SECOND).await;
        held.relieve();
        sleep(SECOND).await;
        assert_eq!(task.is_finished(), !receives);
    }
}
