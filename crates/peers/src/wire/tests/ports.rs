//! The peers' port: the limits for strangers, and the responses during a stop.

use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use super::support::{Far, Network, TestHandler, ThisRuntime, call, post, until};
use crate::watched::Watched;
use crate::wire::dialer::{Dialer, peer_transport};
use crate::wire::frame::{Frame, FrameCodec, Part, VERSION};
use crate::wire::places::Places;
use crate::wire::route::Route;
use crate::wire::transport::{CallError, Link, Payload};
use crate::wire::{server, serving};

const SECOND: Duration = Duration::from_secs(1);

/// Returns a manually driven connection to a port with these places.
fn far_of(handler: &Arc<TestHandler>, places: &Arc<Places>) -> (Far, Arc<Watched<bool>>) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let stopping = Arc::new(Watched::new(false));
    let served = serving::serve(
        near,
        places.enter(None, None),
        handler.clone(),
        Arc::clone(&stopping),
    );
    tokio::spawn(served);
    let far = tokio_util::codec::Decoder::framed(FrameCodec::default(), far);
    (Far(far), stopping)
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_an_opening_is_closed_at_once() {
    let handler = TestHandler::new();
    let began = Instant::now();
    for bytes in [
        &[0; 64][..],
        &[13, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13],
    ] {
        let (mut far, _stop) = far_of(&handler, &Places::new());
        far.write_bytes(bytes).await;
        assert!(far.is_closed().await);
    }
    let (mut far, _stop) = far_of(&handler, &Places::new());
    far.write(&call(1, Route::Ping, true, Bytes::new())).await;
    assert!(far.is_closed().await);
    assert!(began.elapsed() < SECOND);
    assert_eq!(handler.working(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_of_http_gets_a_response_that_names_the_port_for_clients() {
    let handler = TestHandler::new();
    let (mut far, _stop) = far_of(&handler, &Places::new());
    far.write_bytes(b"GET /v1/id HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    let mut answer = String::new();
    let read = far.0.get_mut().read_to_string(&mut answer).await;
    assert!(read.is_ok(), "{read:?}");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains(&format!("content-length: {}\r\n", body.len())),
        "{head}"
    );
    assert!(body.contains("port of http.listen"), "{body}");
    assert_eq!(handler.working(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_newer_version_or_link_is_refused_as_such() {
    let handler = TestHandler::new();
    let newer = VERSION + 1;
    for (version, link) in [(newer, Link::Log.byte()), (VERSION, 99)] {
        let (mut far, _stop) = far_of(&handler, &Places::new());
        far.write(&Frame::Opening { version, link }).await;
        let Some(Frame::Rejection { call: 0, text }) = far.read().await else {
            panic!("it is refused");
        };
        assert!(text.starts_with("newer-format: "), "{text}");
        assert!(far.is_closed().await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_route_of_a_newer_program_is_refused_and_the_connection_stays_open() {
    let (mut far, _stop) = far_of(&TestHandler::new(), &Places::new());
    far.open(Link::Control).await;
    assert!(matches!(far.read().await, Some(Frame::Opening { .. })));
    let part = Part {
        is_last: true,
        bytes: Bytes::new(),
    };
    far.write(&Frame::Call {
        call: 1,
        route: 200,
        limit_ms: 0,
        part,
    })
    .await;
    let Some(Frame::Rejection { call: 1, text }) = far.read().await else {
        panic!("it is refused");
    };
    assert!(text.starts_with("newer-format: "), "{text}");
    far.write(&call(2, Route::Ping, true, "x".into())).await;
    assert!(matches!(
        far.read().await,
        Some(Frame::Answer { call: 2, .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn a_stranger_is_closed_when_it_is_silent_and_a_member_is_not() {
    let places = Places::new();
    let handler = TestHandler::new();
    let began = Instant::now();
    let (mut silent, _stop) = far_of(&handler, &places);
    assert!(silent.is_closed().await);
    assert_eq!(began.elapsed(), 3 * SECOND);

    let began = Instant::now();
    let (mut stranger, _stop) = far_of(&handler, &places);
    stranger.open(Link::Control).await;
    assert!(stranger.read().await.is_some());
    stranger
        .write(&call(1, Route::Hello, true, "x".into()))
        .await;
    assert!(stranger.read().await.is_some());
    assert!(stranger.is_closed().await);
    assert!(began.elapsed() >= 10 * SECOND && began.elapsed() < 21 * SECOND);

    let (mut member, _stop) = far_of(&handler, &places);
    member.open(Link::Control).await;
    assert!(member.read().await.is_some());
    member.write(&call(1, Route::Ping, true, "x".into())).await;
    assert!(member.read().await.is_some());
    assert!(timeout(100 * SECOND, member.read()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn more_bytes_than_the_window_has_close_the_connection() {
    let handler = TestHandler::new();
    let (mut far, _stop) = far_of(&handler, &Places::new());
    far.open(Link::Control).await;
    assert!(far.read().await.is_some());
    far.write(&call(9, Route::Ping, true, Bytes::new())).await;
    assert!(matches!(far.read().await, Some(Frame::Answer { .. })));
    // The handler takes nothing of this call.
    let bytes = Bytes::from(vec![0; 32 << 10]);
    far.write(&call(1, Route::Forward, false, bytes.clone()))
        .await;
    let part = Part {
        is_last: false,
        bytes,
    };
    let window = u64::from(Link::Control.window());
    let fitting = window / u64::from(part.cost());
    let more = Frame::Part { call: 1, part };
    for _ in 1..fitting {
        far.write(&more).await;
    }
    assert!(timeout(SECOND, far.read()).await.is_err());
    assert_eq!(handler.working(), 1);
    far.write(&more).await;
    assert!(far.is_closed().await);
    until(|| handler.working() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn of_a_stranger_little_is_held_and_the_rest_is_not_read() {
    let handler = TestHandler::new();
    let (mut far, _stop) = far_of(&handler, &Places::new());
    far.open(Link::Log).await;
    assert!(far.read().await.is_some());
    let bytes = Bytes::from(vec![0; 32 << 10]);
    far.write(&call(1, Route::Forward, false, bytes.clone()))
        .await;
    let more = Frame::Part {
        call: 1,
        part: Part {
            is_last: false,
            bytes,
        },
    };
    let mut written = 0;
    while timeout(SECOND, far.write(&more)).await.is_ok() {
        written += 1;
    }
    // The held bytes and those in the connection: far less than the window.
    assert!((2..8).contains(&written), "{written}");
    assert_eq!(handler.working(), 1);
}

/// Endless messages without an envelope are held only up to the limit of a stranger, on every link.
#[tokio::test(start_paused = true)]
async fn the_bytes_accepted_from_a_stranger_are_bounded() {
    for link in Link::ALL {
        let (handler, places) = (TestHandler::new(), Places::new());
        let (mut far, _stop) = far_of(&handler, &places);
        far.open(link).await;
        assert!(far.read().await.is_some());
        let bytes = Bytes::from(vec![0; 16 << 10]);
        let (mut written, mut number) = (0, 0);
        let mut write = async || {
            number += 1;
            let hello = call(number, Route::Hello, false, bytes.clone());
            timeout(SECOND, far.write(&hello)).await.is_ok()
        };
        while write().await {
            written += 1;
        }
        // Four of them, and the bytes in the connection.
        assert!((4..10).contains(&written), "{link:?}: {written}");
        assert!(handler.working() <= 4, "{link:?}: {}", handler.working());
        assert_eq!(places.free(), Places::new().free(), "{link:?}");
    }
}

fn small_frames() -> impl Strategy<Value = Frame> {
    let part = (any::<bool>(), prop::collection::vec(any::<u8>(), 0..9));
    let part = part.prop_map(|(is_last, bytes)| Part {
        is_last,
        bytes: bytes.into(),
    });
    let calls = 0..4_u64;
    prop_oneof![
        4 => (calls.clone(), 0..16_u8, part.clone()).prop_map(|(call, route, part)| Frame::Call {
            call,
            route,
            limit_ms: 0,
            part,
        }),
        4 => (calls.clone(), part.clone()).prop_map(|(call, part)| Frame::Part { call, part }),
        2 => calls.clone().prop_map(|call| Frame::Cancel { call }),
        1 => (calls.clone(), 0..99_u32).prop_map(|(call, bytes)| Frame::Credit { call, bytes }),
        1 => (calls, part).prop_map(|(call, part)| Frame::Answer { call, part }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_frames_leave_a_call_or_reserved_memory(
        link in 1..=5_u8,
        frames in prop::collection::vec(small_frames(), 0..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (handler, places) = (TestHandler::new(), Places::with(4, ROOM));
            let (mut far, _stop) = far_of(&handler, &places);
            far.write(&Frame::Opening { version: VERSION, link }).await;
            for frame in &frames {
                far.write(frame).await;
            }
            sleep(SECOND).await;
            drop(far);
            until(|| handler.working() == 0 && places.free() == (4, ROOM)).await;
        });
    }
}

const ROOM: usize = 1 << 20;

#[tokio::test(start_paused = true)]
async fn bytes_that_are_held_for_all_connections_are_bounded() {
    let handler = TestHandler::new();
    let places = Places::with(8, 48 << 10);
    let (mut far, _stop) = far_of(&handler, &places);
    far.open(Link::Forward).await;
    assert!(far.read().await.is_some());
    far.write(&call(9, Route::Ping, true, Bytes::new())).await;
    assert!(matches!(far.read().await, Some(Frame::Answer { .. })));
    let bytes = Bytes::from(vec![0; 32 << 10]);
    far.write(&call(1, Route::Forward, false, bytes.clone()))
        .await;
    until(|| handler.working() == 1).await;
    far.write(&call(2, Route::Ping, false, bytes.clone())).await;
    let part = Part {
        is_last: true,
        bytes: Bytes::new(),
    };
    far.write(&Frame::Part { call: 2, part }).await;
    let Some(Frame::Rejection { call: 2, text }) = far.read().await else {
        panic!("there is no room for it");
    };
    assert!(text.starts_with("not-running: "), "{text}");
    far.write(&call(3, Route::Ping, true, "x".into())).await;
    assert!(matches!(
        far.read().await,
        Some(Frame::Answer { call: 3, .. })
    ));
    // The first call is cancelled, and its room is free again.
    far.write(&Frame::Cancel { call: 1 }).await;
    assert!(matches!(
        far.read().await,
        Some(Frame::Rejection { call: 1, .. })
    ));
    far.write(&call(4, Route::Ping, true, bytes)).await;
    // The handler of the first call returned the bytes that it did not take.
    assert!(matches!(
        far.read().await,
        Some(Frame::Credit { call: 1, .. })
    ));
    let fourth = far.read().await;
    assert!(
        matches!(fourth, Some(Frame::Answer { call: 4, .. })),
        "{fourth:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_answers_calls_in_progress_and_closes() {
    let handler = TestHandler::new();
    let (served, stop) = Network::new().serve(&handler);
    let dialer = &served.dialer;
    let asked = (0..50).map(|_| post(dialer, Link::Watch, Route::Watch, "w", 20 * SECOND));
    let asked = futures_util::future::join_all(asked);
    let stopped = async {
        until(|| handler.working() == 50).await;
        stop.set(true);
        sleep(SECOND / 100).await;
        handler.gate.add_permits(50);
    };
    let (answers, ()) = tokio::join!(asked, stopped);
    for answer in answers {
        assert_eq!(answer.unwrap(), "over");
    }
    // No call is in flight, so the connection is closed.
    let (mut far, stop) = far_of(&handler, &Places::new());
    far.open(Link::Log).await;
    assert!(far.read().await.is_some());
    stop.set(true);
    assert!(far.is_closed().await);
}

fn port(handler: &Arc<TestHandler>) -> String {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let handler = Arc::clone(handler);
    server::serve(
        listener.into(),
        handler,
        &ThisRuntime,
        std::future::pending(),
    )
    .unwrap();
    addr
}

#[tokio::test]
async fn idle_strangers_keep_no_member_out() {
    let handler = TestHandler::new();
    let addr = port(&handler);
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(TcpStream::connect(&addr).await.unwrap());
    }
    let ping = |transport: Arc<dyn crate::wire::transport::Transport>| {
        let addr = addr.clone();
        async move {
            let payload = Payload::Bytes("x".into());
            let limit = 30 * SECOND;
            let asked = transport.post(Link::Control, &addr, Route::Ping, payload, limit.into());
            asked.await.unwrap()
        }
    };
    let member = peer_transport(Handle::current());
    assert_eq!(ping(Arc::clone(&member)).await, "x");
    for _ in 0..300 {
        idle.push(TcpStream::connect(&addr).await.unwrap());
    }
    assert_eq!(ping(member).await, "x");
    assert_eq!(ping(peer_transport(Handle::current())).await, "x");
    // The first idle connection was closed.
    let mut byte = [0];
    let closed = timeout(30 * SECOND, idle[0].read(&mut byte)).await;
    assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");
}

#[tokio::test]
async fn a_closed_port_is_distinguished_from_a_silent_one() {
    let transport = Dialer::new(Arc::new(seqd_net::TcpDial), Arc::new(ThisRuntime));
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let ask = async || {
        let payload = Payload::Bytes("x".into());
        let limit = 2 * SECOND;
        let dialer: &dyn crate::wire::transport::Transport = &transport;
        dialer
            .post(Link::Control, &addr, Route::Ping, payload, limit.into())
            .await
            .unwrap_err()
    };
    let silent = ask().await;
    assert!(matches!(silent, CallError::NoAnswer), "{silent:?}");
    drop(listener);
    let closed = ask().await;
    assert!(matches!(closed, CallError::Refused), "{closed:?}");
}
