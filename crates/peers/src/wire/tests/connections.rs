//! A caller's connections: many concurrent calls, their order, their limits, and the result of a
//! call after a failure.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::join_all;
use seqd_net::{Dial, Dialing};
use tokio::runtime;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::support::{Network, TestHandler, post, until};
use crate::tasks::{RuntimeTasks, Task, Tasks};
use crate::wire::dialer::Dialer;
use crate::wire::frame::{Frame, Part, VERSION};
use crate::wire::route::Route;
use crate::wire::transport::{
    CallError, Limit, Link, MESSAGE_BYTES, Payload, RejectionCode, Transport as _,
};
use crate::wire::writer::URGENT;

const SECOND: Duration = Duration::from_secs(1);
const HEARTBEAT: Duration = Duration::from_millis(75);

fn bytes(length: usize) -> Bytes {
    (0..length)
        .map(|at| u8::try_from(at % 251).unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn calls_of_all_sizes_share_one_connection() {
    let (served, _stop) = Network::new().serve(&TestHandler::new());
    let sizes = [0, 1, 16 << 10, (16 << 10) + 1, 1 << 20, 5 << 20];
    let asked = (0..60).map(|n| {
        let (body, dialer) = (bytes(sizes[n % 6] + n / 6), Arc::clone(&served.dialer));
        async move {
            let answer = post(
                &dialer,
                Link::Control,
                Route::Ping,
                body.clone(),
                20 * SECOND,
            )
            .await;
            assert!(answer.unwrap() == body, "{n}");
        }
    });
    join_all(asked).await;
    assert_eq!(served.dialed(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_holds_no_other_up() {
    let handler = TestHandler::new();
    let (served, _stop) = Network::new().serve(&handler);
    let dialer = &served.dialer;
    let watch = post(dialer, Link::Control, Route::Watch, "w", 100 * SECOND);
    let others = async {
        for _ in 0..3 {
            let answer = post(dialer, Link::Control, Route::Ping, "x", HEARTBEAT).await;
            assert_eq!(answer.unwrap(), "x");
        }
        handler.gate.add_permits(1);
    };
    let (watched, ()) = tokio::join!(watch, others);
    assert_eq!(watched.unwrap(), "over");
    assert_eq!(served.dialed(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_log_is_handled_in_the_order_in_which_it_was_sent() {
    let handler = TestHandler::new();
    let (served, _stop) = Network::new().serve(&handler);
    let asked = [30, 20, 10].map(|length| {
        post(
            &served.dialer,
            Link::Log,
            Route::Append,
            bytes(length),
            SECOND,
        )
    });
    for answer in join_all(asked).await {
        answer.unwrap();
    }
    let events = handler.events.lock().unwrap().join(", ");
    assert_eq!(
        events,
        "begin 30, end 30, begin 20, end 20, begin 10, end 10"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_makes_progress_is_not_cut_and_a_stalled_call_is() {
    let (served, _stop) = Network::new().serve(&TestHandler::new());
    let dialer = &served.dialer;
    let limit = Limit::Progress {
        moving: SECOND / 2,
        answer: SECOND / 2,
    };
    let body = bytes(3 << 20);
    let began = Instant::now();
    let slow = post(
        dialer,
        Link::Snapshots,
        Route::Snapshot,
        body.clone(),
        limit,
    )
    .await;
    assert_eq!(slow.unwrap(), body.len().to_string());
    assert!(began.elapsed() > 15 * SECOND, "{:?}", began.elapsed());

    let began = Instant::now();
    let stuck = post(dialer, Link::Forward, Route::Forward, body.clone(), limit).await;
    assert!(matches!(stuck, Err(CallError::NoAnswer)), "{stuck:?}");
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());

    // A total limit applies in any case.
    let late = post(dialer, Link::Snapshots, Route::Snapshot, body, 2 * SECOND).await;
    assert!(matches!(late, Err(CallError::NoAnswer)), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn without_credit_no_more_than_the_window_is_sent() {
    let mut network = Network::new();
    let dialer = Arc::clone(&network.dialer);
    let limit = Limit::Progress {
        moving: 20 * SECOND,
        answer: SECOND,
    };
    let sent = tokio::spawn(async move {
        post(&dialer, Link::Log, Route::Append, bytes(5 << 20), limit).await
    });
    let mut far = network.accept().await;
    let mut cost = 0;
    let mut parts = 0;
    let wait = SECOND;
    while let Ok(frame) = timeout(wait, far.read()).await {
        match frame.unwrap() {
            Frame::Opening { .. } => far.open(Link::Log).await,
            Frame::Call { part, .. } | Frame::Part { part, .. } => {
                cost += part.cost();
                parts += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(cost <= Link::Log.window() && cost > Link::Log.window() / 2);
    // Each byte of returned credit permits another byte.
    let bytes = 40 << 10;
    far.write(&Frame::Credit { call: 1, bytes }).await;
    let mut more = 0;
    while let Ok(Some(Frame::Part { part, .. })) = timeout(wait, far.read()).await {
        more += part.cost();
    }
    assert!(more > 0 && cost + more <= Link::Log.window() + bytes);
    assert!(parts > 10 && !sent.is_finished());
    // A peer that returns more credit than it received is rejected.
    far.write(&Frame::Credit {
        call: 1,
        bytes: 1 << 30,
    })
    .await;
    let broken = sent.await.unwrap();
    assert!(matches!(broken, Err(CallError::Broken(_))), "{broken:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unsent_message_is_distinguished_from_one_that_may_have_been_read() {
    let mut network = Network::new();
    let dialer = Arc::clone(&network.dialer);
    let one = |body: Bytes| {
        let dialer = Arc::clone(&dialer);
        tokio::spawn(
            async move { post(&dialer, Link::Control, Route::Ping, body, 2 * SECOND).await },
        )
    };
    // The first call is larger than the window. The second one waits until its time limit.
    let first = one(bytes(1 << 20));
    let mut far = network.accept().await;
    assert!(matches!(far.read().await, Some(Frame::Opening { .. })));
    assert!(matches!(far.read().await, Some(Frame::Call { .. })));
    let second = post(&dialer, Link::Control, Route::Ping, "x", HEARTBEAT).await;
    assert!(matches!(second, Err(CallError::Unsent(_))), "{second:?}");
    let third = one("y".into());
    sleep(HEARTBEAT).await;
    network.wires.refuses.store(true, Ordering::SeqCst);
    drop(far);
    let first = first.await.unwrap();
    assert!(matches!(first, Err(CallError::Broken(_))), "{first:?}");
    // Nothing of the third call was sent: it goes to a new connection, and the port is closed.
    let third = third.await.unwrap();
    assert!(matches!(third, Err(CallError::Refused)), "{third:?}");
    network.wires.refuses.store(false, Ordering::SeqCst);

    // A peer that closes before the connection has accepted anything.
    network.wires.is_closed.store(true, Ordering::SeqCst);
    let lost = one("z".into()).await.unwrap();
    assert!(matches!(lost, Err(CallError::Unsent(_))), "{lost:?}");
    network.wires.is_closed.store(false, Ordering::SeqCst);
    // A peer that closes after the connection has accepted it.
    let lost = one("z".into());
    drop(network.accept().await);
    let lost = lost.await.unwrap();
    assert!(matches!(lost, Err(CallError::Broken(_))), "{lost:?}");
    // A silent peer.
    let silent = one("z".into());
    let _far = network.accept().await;
    let silent = silent.await.unwrap();
    assert!(matches!(silent, Err(CallError::NoAnswer)), "{silent:?}");
    network.wires.refuses.store(true, Ordering::SeqCst);
    let refused = one("z".into()).await.unwrap();
    assert!(matches!(refused, Err(CallError::Refused)), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kept_connection_that_was_closed_is_opened_again_for_the_next_call() {
    let (served, _stop) = Network::new().serve(&TestHandler::new());
    for round in 1..=3 {
        let answer = post(&served.dialer, Link::Control, Route::Ping, "x", SECOND).await;
        assert_eq!(answer.unwrap(), "x");
        assert_eq!(served.dialed(), round);
        served.cut();
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_or_an_answer_that_is_too_large_is_given_back() {
    let (served, _stop) = Network::new().serve(&TestHandler::new());
    let limit = 20 * SECOND;
    let large = bytes(MESSAGE_BYTES + 1);
    let refused = post(&served.dialer, Link::Control, Route::Ping, large, limit).await;
    let Err(CallError::Rejected(refused)) = refused else {
        panic!("it is taken");
    };
    assert_eq!(refused.code, RejectionCode::Malformed);
    let whole = bytes(MESSAGE_BYTES);
    let answer = post(
        &served.dialer,
        Link::Control,
        Route::Ping,
        whole.clone(),
        limit,
    )
    .await;
    assert!(answer.unwrap() == whole);
    let twice = post(&served.dialer, Link::Control, Route::Prepare, whole, limit).await;
    assert!(matches!(twice, Err(CallError::Broken(_))));
    // An abandoned response blocks nothing.
    let small = post(&served.dialer, Link::Control, Route::Ping, "x", SECOND).await;
    assert_eq!(small.unwrap(), "x");
    assert_eq!(served.dialed(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_rejection_reaches_the_call_that_it_is_for() {
    let (served, _stop) = Network::new().serve(&TestHandler::new());
    let (vote, ping) = tokio::join!(
        post(
            &served.dialer,
            Link::Control,
            Route::Vote,
            bytes(1 << 20),
            SECOND
        ),
        post(
            &served.dialer,
            Link::Control,
            Route::Ping,
            bytes(1 << 20),
            SECOND
        ),
    );
    let Err(CallError::Rejected(rejected)) = vote else {
        panic!("{vote:?}");
    };
    assert_eq!(rejected.code, RejectionCode::Removed);
    assert_eq!(ping.unwrap().len(), 1 << 20);
}

#[tokio::test(start_paused = true)]
async fn a_short_limit_does_not_end_a_connection_that_takes_longer_to_come_about() {
    let (served, _stop) = Network::slow(SECOND / 3).serve(&TestHandler::new());
    let mut unsent = 0;
    loop {
        match post(&served.dialer, Link::Control, Route::Ping, "x", HEARTBEAT).await {
            Err(CallError::Unsent(_)) => unsent += 1,
            answer => break assert_eq!(answer.unwrap(), "x"),
        }
    }
    assert!(unsent >= 3, "{unsent}");
    assert_eq!(served.dialed(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_silent_for_long_takes_no_more_calls() {
    let mut network = Network::new();
    let mut held = Vec::new();
    let began = Instant::now();
    while network.wires.dialed.load(Ordering::SeqCst) < 2 {
        let lost = post(&network.dialer, Link::Control, Route::Ping, "x", HEARTBEAT).await;
        assert!(matches!(lost, Err(CallError::NoAnswer)), "{lost:?}");
        held.extend(network.far.try_recv());
    }
    let took = began.elapsed();
    assert!(took > SECOND / 2 && took < 2 * SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_ends_its_handler_and_frees_its_place() {
    let handler = TestHandler::new();
    let (served, _stop) = Network::new().serve(&handler);
    // More calls than may be in flight at the same time.
    for _ in 0..4 {
        let asked = (0..100).map(|_| post(&served.dialer, Link::Watch, Route::Watch, "w", SECOND));
        let asked = join_all(asked);
        tokio::select! {
            _ = asked => panic!("it is not answered"),
            () = until(|| handler.working() == 100) => {}
        }
        until(|| handler.working() == 0).await;
    }
    assert_eq!(served.dialed(), 1);
}

/// The peer accepts no bytes, and so many responses wait for their credits that nothing more can be
/// queued.
#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_be_cancelled_has_its_connection_replaced() {
    let mut network = Network::new();
    let dialer = Arc::clone(&network.dialer);
    let one = |route, length| {
        let dialer = Arc::clone(&dialer);
        let limit = 100 * SECOND;
        tokio::spawn(async move {
            let answer = post(&dialer, Link::Control, route, bytes(length), limit).await;
            answer.unwrap_err()
        })
    };
    let watched = one(Route::Watch, 1);
    let mut far = network.accept().await;
    far.open(Link::Control).await;
    assert!(matches!(far.read().await, Some(Frame::Opening { .. })));
    assert!(matches!(
        far.read().await,
        Some(Frame::Call { call: 1, .. })
    ));
    let filled = one(Route::Ping, Link::Control.window() as usize / 2);
    sleep(SECOND / 10).await;
    // Each of these causes about one credit.
    let part = Part {
        is_last: false,
        bytes: bytes(Link::Control.window() as usize / 4),
    };
    for _ in 0..URGENT {
        let part = part.clone();
        far.write(&Frame::Answer { call: 9, part }).await;
    }
    sleep(SECOND / 10).await;
    watched.abort();
    sleep(SECOND / 10).await;
    let _other = one(Route::Ping, 1);
    sleep(SECOND / 10).await;
    let dialed = network.wires.dialed.load(Ordering::SeqCst);
    assert_eq!(
        dialed, 2,
        "the call stays open for as long as the connection"
    );
    filled.abort();
    assert!(far.is_over().await, "the connection is kept without a call");
}

#[tokio::test(start_paused = true)]
async fn a_peer_of_another_protocol_or_version_is_named() {
    let mut network = Network::new();
    let dialer = Arc::clone(&network.dialer);
    let ask = || {
        let dialer = Arc::clone(&dialer);
        tokio::spawn(async move { post(&dialer, Link::Control, Route::Ping, "x", SECOND).await })
    };
    let newer = ask();
    let mut far = network.accept().await;
    let text = "newer-format: why".to_owned();
    far.write(&Frame::Rejection { call: 0, text }).await;
    let newer = newer.await.unwrap();
    let Err(CallError::Rejected(rejected)) = newer else {
        panic!("{newer:?}");
    };
    assert_eq!(rejected.code, RejectionCode::NewerFormat);
    let part = Part {
        is_last: true,
        bytes: "x".into(),
    };
    let later = VERSION + 1;
    for wrong in [
        Frame::Opening {
            version: later,
            link: 3,
        },
        Frame::Answer { call: 1, part },
        Frame::Cancel { call: 1 },
    ] {
        let asked = ask();
        let mut far = network.accept().await;
        assert!(far.read().await.is_some() && far.read().await.is_some());
        far.write(&wrong).await;
        let broken = asked.await.unwrap();
        assert!(
            matches!(broken, Err(CallError::Broken(_))),
            "{wrong:?}: {broken:?}"
        );
    }
    let asked = ask();
    let mut far = network.accept().await;
    assert!(far.read().await.is_some() && far.read().await.is_some());
    far.write_bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let broken = asked.await.unwrap();
    assert!(matches!(broken, Err(CallError::Broken(_))), "{broken:?}");
}

/// Records the threads on which connections are opened, and opens none.
#[derive(Default)]
struct Threads(Mutex<Vec<Option<String>>>);

impl Dial for Threads {
    fn dial<'a>(&'a self, _: &'a str) -> Dialing<'a> {
        Box::pin(async {
            let name = std::thread::current().name().map(str::to_owned);
            self.0.lock().unwrap().push(name);
            Err(io::ErrorKind::ConnectionRefused.into())
        })
    }
}

/// Runs a task at once instead of spawning it: it ends before the caller continues.
struct AtOnce;

impl Tasks for AtOnce {
    fn spawn(&self, task: Task) -> JoinHandle<()> {
        task.now_or_never().unwrap();
        tokio::spawn(async {})
    }

    fn bind(&self, task: Task) -> Task {
        task
    }
}

#[tokio::test]
async fn a_connection_that_is_refused_before_its_first_call_begins_refuses_that_call() {
    let dialer = Dialer::new(Arc::new(Threads::default()), Arc::new(AtOnce));
    let answer = post(&dialer, Link::Control, Route::Ping, "x", SECOND).await;
    assert!(matches!(answer, Err(CallError::Refused)), "{answer:?}");
}

#[test]
fn each_connection_belongs_to_the_transport_s_runtime_whichever_task_calls_first() {
    let [consensus, clients] = ["consensus", "clients"].map(|name| {
        let mut runtime = runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name(name).enable_all();
        runtime.build().unwrap()
    });
    let threads = Arc::new(Threads::default());
    let tasks = Arc::new(RuntimeTasks(consensus.handle().clone()));
    let dialer = Arc::new(Dialer::new(threads.clone(), tasks));
    for caller in [&consensus, &clients] {
        let dialer = Arc::clone(&dialer);
        let called = caller.spawn(async move {
            let (link, limit) = (Link::Control, Duration::from_secs(30).into());
            let payload = Payload::Bytes("x".into());
            dialer
                .post(link, "n2:7401", Route::Ping, payload, limit)
                .await
        });
        let answer = clients.block_on(called).unwrap();
        assert!(matches!(answer, Err(CallError::Refused)), "{answer:?}");
    }
    let opened = threads.0.lock().unwrap().clone();
    assert_eq!(opened, [(); 2].map(|()| Some("consensus".to_owned())));
}
