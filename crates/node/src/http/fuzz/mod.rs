//! Fuzz targets for the connections of clients and for headers, which take any bytes.
//! `docs/internals/FUZZING.md` lists them.
//!
//! The server is that of a node, from the stream up to the router. Its handlers only read the
//! request and respond with its fields.

mod header;

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http;
use bytes::Bytes;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use seqd_api::{Media, Problem, Typed, op};
use seqd_net::{Accepted, Accepting, Listen};
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;

use super::context::Context;
use super::etag::{ETag, if_match, only_new};
use super::gate::RequestIds;
use super::request::Request;
use super::response::Response;
use super::router::{Route, build};
use super::server::{LIMITS, body_of};
use crate::connections::{self, Answered, HttpLimits, IsHot, Received, Unreadable};
use crate::metrics::Metrics;

pub use header::node_header;

/// The buffer of a connection, larger than the responses to any input.
const BUFFER: usize = 8 << 20;

/// The time limit of one connection, which is that of a node's stop.
const MOST_WAIT: Duration = Duration::from_secs(10);

/// The time within which all complete requests of an input are answered.
const ANSWERED: Duration = Duration::from_secs(4);

/// The greatest length of the detail of a refusal, which quotes the request.
const MOST_WORDS: usize = 16 << 10;

async fn read<T>(_: Arc<()>, request: Request) -> Result<Response, Problem>
where
    T: seqd_api::Request + Serialize + 'static,
{
    let tag = ETag {
        revision: if_match(&request.headers)?.unwrap_or(1),
        state: 7,
    };
    only_new(&request.headers)?;
    let response = match request.media {
        Media::Text => Response::text(request.path.join("\n")),
        _ => Response::json(&request.decode::<T>()?)?,
    };
    Ok(response.with_etag(tag))
}

/// The operations of the API whose requests have a type of their own, each with the same handler.
fn table() -> Vec<Route<()>> {
    fn route<O>(operation: O) -> Route<()>
    where
        O: Typed<Request: Serialize + Send + 'static>,
    {
        Route::raw(operation, read::<O::Request>)
    }
    vec![
        route(op::GetId),
        route(op::ListSequences),
        route(op::GetSequence),
        route(op::PutSequence),
        route(op::PatchSequence),
        route(op::DeleteSequence),
        route(op::NextValues),
        route(op::AdvanceSequence),
        route(op::GrantSegment),
        route(op::ReturnSegment),
        route(op::AddMemberOp),
        route(op::ListMembers),
        route(op::MoveLeader),
        route(op::GetReady),
    ]
}

fn router() -> axum::Router {
    let metrics = Metrics::new();
    let limit = Duration::from_secs(3);
    let cluster = Box::new(|| Some("01J9".to_owned()));
    match Context::new("n1", RequestIds::new(1), limit, &metrics.http, cluster) {
        Some(context) => build(table(), &Arc::new(context), &Arc::new(())),
        None => panic!("n1 is fit for a header"),
    }
}

thread_local! {
    static ROUTER: axum::Router = router();
}

/// A listener with exactly one stream.
struct One(Option<DuplexStream>);

impl Listen for One {
    fn open(&mut self) -> io::Result<SocketAddr> {
        Ok((Ipv4Addr::LOCALHOST, 7400).into())
    }

    fn accept(&mut self) -> Accepting<'_> {
        Box::pin(async {
            match self.0.take() {
                Some(stream) => Ok(Accepted {
                    stream: Box::new(stream),
                    from: None,
                    certified: None,
                }),
                None => std::future::pending().await,
            }
        })
    }
}

/// Tests a connection of a client. The first byte is the size of the pieces in which the client
/// sends the rest.
///
/// The responses must be the same whether hyper reads all requests or hot requests are read without
/// it. After the last complete response, the connection must contain no further bytes. The
/// responses must be HTTP/1.1 with statuses of the contract, none of them an internal error. A
/// handler's refusal must be a problem with the same status.
pub fn node_http(input: &[u8]) {
    let Some((piece, bytes)) = input.split_first() else {
        return;
    };
    let piece = if *piece == 0 {
        bytes.len().max(1)
    } else {
        usize::from(*piece)
    };
    let [answers, hot] = [None, Some(is_hot as IsHot)].map(|hot| {
        in_a_runtime(async {
            let began = Instant::now();
            let answers = exchange(bytes, piece, hot).await;
            assert!(began.elapsed() <= MOST_WAIT, "{:?}", began.elapsed());
            answers
        })
    });
    assert_eq!(comparable(&hot), comparable(&answers), "the paths differ");
    // A response to HEAD announces the length of a body but has none.
    let has_head = bytes.windows(4).any(|word| word == b"HEAD");
    let mut rest = &answers[..];
    while let Some(answer) = first_answer(rest) {
        answer.check(has_head);
        if has_head {
            return;
        }
        rest = &rest[answer.length..];
    }
    assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(rest));
}

/// Treats requests for every path as hot.
fn is_hot(_: &http::Method, _: &str) -> bool {
    true
}

/// The responses without the headers that always differ, and without the response to an unreadable
/// head: whether hyper sends that one depends on how the head was split into reads.
fn comparable(answers: &[u8]) -> String {
    let text = String::from_utf8_lossy(answers);
    let readable = match text.rfind("HTTP/1.1 ") {
        Some(last) if text.ends_with("\r\n\r\nwhy") => &text[..last],
        _ => &text,
    };
    let lines = readable.split_inclusive('\n');
    lines
        .filter(|line| !line.starts_with("x-request-id: ") && !line.starts_with("date: "))
        .collect()
}

async fn exchange(bytes: &[u8], piece: usize, hot: Option<IsHot>) -> Vec<u8> {
    let (near, far) = duplex(BUFFER);
    let router = ROUTER.with(Clone::clone);
    let answer = move |request: http::Request<Received>, _| -> Answered<Body> {
        let router = router.clone();
        Box::pin(async move {
            let Ok(response) = TowerToHyperService::new(router)
                .call(request.map(body_of))
                .await;
            response
        })
    };
    let unreadable: Unreadable = Arc::new(|_| http::Response::new(Bytes::from_static(b"why")));
    let (listener, limits) = (Box::new(One(Some(far))), HttpLimits { hot, ..LIMITS });
    let port = match connections::serve_http(listener, limits, answer, unreadable) {
        Ok(port) => port,
        Err(error) => panic!("{error}"),
    };
    let answers = client(near, bytes, piece).await;
    port.stop(Duration::from_secs(1)).await;
    answers
}

async fn client(stream: DuplexStream, bytes: &[u8], piece: usize) -> Vec<u8> {
    let (mut read, mut write) = tokio::io::split(stream);
    for piece in bytes.chunks(piece) {
        // The server may have closed the connection already.
        if write.write_all(piece).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    // Waits before it disconnects: a delayed refusal is lost if its client disconnects first, and
    // the delay depends on the bytes that were read with the request.
    tokio::time::sleep(ANSWERED).await;
    let _ = write.shutdown().await;
    let mut answers = Vec::new();
    let _ = read.read_to_end(&mut answers).await;
    answers
}

struct Answer<'a> {
    status: u16,
    head: &'a str,
    body: &'a [u8],
    length: usize,
}

/// The first response in these bytes.
fn first_answer(bytes: &[u8]) -> Option<Answer<'_>> {
    let end = bytes.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..end]).unwrap_or_default();
    let status = head
        .strip_prefix("HTTP/1.1 ")
        .or_else(|| head.strip_prefix("HTTP/1.0 "))?;
    let status = status.get(..3)?.parse().ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>())
    });
    let length = length
        .and_then(Result::ok)
        .unwrap_or(0)
        .min(bytes.len() - end);
    Some(Answer {
        status,
        head,
        body: &bytes[end..end + length],
        length: end + length,
    })
}

impl Answer<'_> {
    fn check(&self, may_lack_body: bool) {
        let known = [
            100, 200, 304, 400, 404, 405, 406, 408, 412, 413, 414, 415, 421, 422, 403, 431, 505,
        ];
        assert!(known.contains(&self.status), "{}", self.head);
        let head = self.head.to_ascii_lowercase();
        if head.contains("x-request-id") {
            assert!(
                head.contains("seqd-node: n1") && head.contains("no-store"),
                "{}",
                self.head
            );
            if self.status >= 400 && !may_lack_body {
                assert!(head.contains("application/problem+json"), "{}", self.head);
                let problem = serde_json::from_slice::<Problem>(self.body);
                let problem = problem.map(|problem| (problem.status, problem.detail.len()));
                assert!(
                    matches!(problem, Ok((status, 1..=MOST_WORDS)) if status == self.status),
                    "{} {problem:?}",
                    self.head
                );
            }
        }
    }
}

/// Runs on a paused clock, which advances at once when there is nothing else to do.
fn in_a_runtime<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: io::Result<tokio::runtime::Runtime> =
            tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build();
    }
    RUNTIME.with(|runtime| match runtime {
        Ok(runtime) => runtime.block_on(future),
        Err(error) => panic!("no runtime: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::*;
    use crate::kept::{replay, seeds};

    const REQUESTS: [&str; 15] = [
        "GET /v1/id HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /v1/id?format=hex&pad=20&timeout_ms=5 HTTP/1.1\r\nhost: localhost\r\naccept: text/plain;q=0.5, */*\r\n\r\n",
        "POST /v1/sequences/order/next HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{\"count\":5}",
        "POST /v1/sequences/order/next?count=5&count=5&dry_run=1 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "PUT /v1/sequences/a%2Fb HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n11\r\n{\"mode\":\"strict\"}\r\n0\r\n\r\n",
        "HEAD /readyz?for=ids&verbose HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "DELETE /v1/sequences/order/segments/7?unused=998 HTTP/1.1\r\nhost: localhost\r\nif-match: \"3-57\"\r\n\r\n",
        "GET /v1/id HTTP/1.1\r\nhost: localhost\r\n\r\nGET /readyz HTTP/1.1\r\nhost: evil.example\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        "POST /v1/cluster/leader HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example\r\ncontent-length: 0\r\n\r\n\r\n\r\nGET /v1/id HTTP/1.1\r\nhost: [::1]:7400\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "POST /v1/cluster/members HTTP/1.1\r\nhost: localhost\r\ncontent-length: 70000\r\ncontent-type: application/json\r\nexpect: 100-continue\r\n\r\n{",
        "PATCH /v1/sequences/order?dry_run HTTP/1.1\r\nhost: localhost\r\nif-match: \"3\"\r\ncontent-type: application/json\r\ncontent-length: 12\r\n\r\n{\"max\":\"99\"}",
        "OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET  bad\r\n\r\n",
        "POST /v1/sequences/order/advance HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nidempotency-key: a\r\n\r\n",
    ];

    /// Bytes that are requests, or nearly.
    fn nearly_requests() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            8 => select(&REQUESTS[..]).prop_map(|request| request.as_bytes().to_vec()),
            2 => (select(&REQUESTS[..]), any::<Index>(), select(&b"\r\n :/%,0aA\0\xff"[..]))
                .prop_map(|(request, at, byte)| {
                    let mut bytes = request.as_bytes().to_vec();
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                    bytes
                }),
            2 => (select(&REQUESTS[..]), select(&HEADERS[..])).prop_map(|(request, header)| {
                request.replacen("\r\n", &format!("\r\n{header}\r\n"), 1).into_bytes()
            }),
            1 => (select(&REQUESTS[..]), any::<Index>()).prop_map(|(request, at)| {
                request.as_bytes()[..at.index(request.len())].to_vec()
            }),
        ];
        (any::<u8>(), vec(part, 1..6))
            .prop_map(|(piece, parts)| [vec![piece], parts.concat()].concat())
    }

    /// Headers that change where a request ends, or what follows it.
    const HEADERS: [&str; 12] = [
        "transfer-encoding: chunked",
        "Transfer-Encoding: identity",
        "content-length: 5",
        "content-length: +0",
        "content-length: 00",
        "expect: 100-continue",
        "upgrade: websocket",
        "connection: close",
        "connection: Keep-Alive",
        "connection: keep-alive, close",
        "x-empty:",
        " folded: 1",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn any_bytes_have_the_same_answers_on_both_paths(input in nearly_requests()) {
            node_http(&input);
        }
    }

    #[test]
    fn requests_cut_anywhere_have_the_same_answers_on_both_paths() {
        for request in REQUESTS {
            let three = [REQUESTS[0], request, REQUESTS[0], "junk\r\n\r\n"].concat();
            for piece in 1..=u8::try_from(three.len().min(255)).unwrap() {
                node_http(&[&[piece], three.as_bytes()].concat());
            }
        }
    }

    #[test]
    fn kept_connections_are_answered_according_to_the_contract() {
        let whole = REQUESTS.map(|request| [b"\0", request.as_bytes()].concat());
        let in_pieces = REQUESTS.map(|request| [b"\x07", request.as_bytes()].concat());
        let inputs = whole.into_iter().chain(in_pieces);
        replay("node_http", &seeds(inputs), node_http);
    }
}
