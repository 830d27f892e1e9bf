//! A port whose places are all taken.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use seqd_net::{Accepted, Accepting, Listen};
use tokio::io::duplex;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::codec::Decoder;

use super::support::{Far, TestHandler, ThisRuntime, call};
use crate::wire::frame::{Frame, FrameCodec};
use crate::wire::places::{MEMBERS, STRANGERS};
use crate::wire::route::Route;
use crate::wire::server;
use crate::wire::transport::Link;

/// Connections created by a test.
struct Arrivals(mpsc::UnboundedReceiver<Accepted>);

impl Listen for Arrivals {
    fn open(&mut self) -> io::Result<SocketAddr> {
        Ok(([127, 0, 0, 1], 7).into())
    }

    fn accept(&mut self) -> Accepting<'_> {
        Box::pin(async move {
            let arrived = self.0.recv().await;
            arrived.ok_or_else(|| io::ErrorKind::NotConnected.into())
        })
    }
}

/// Opens a connection that is served, from a member or from a stranger that introduces itself.
async fn open(arrivals: &mpsc::UnboundedSender<Accepted>, from: IpAddr, route: Route) -> Far {
    let (near, far) = duplex(4 << 10);
    let arrived = Accepted {
        stream: Box::new(near),
        from: Some(from),
        certified: None,
    };
    arrivals
        .send(arrived)
        .unwrap_or_else(|_| panic!("it is served"));
    let mut far = Far(FrameCodec::default().framed(far));
    far.open(Link::Control).await;
    assert!(matches!(far.read().await, Some(Frame::Opening { .. })));
    far.write(&call(1, route, true, Bytes::new())).await;
    let answer = far.read().await;
    assert!(matches!(answer, Some(Frame::Answer { call: 1, .. })));
    far
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_replaces_a_stranger_when_all_members_are_connected() {
    let (arrivals, accepted) = mpsc::unbounded_channel();
    let handler = TestHandler::new();
    let port = Box::new(Arrivals(accepted));
    server::serve(port, handler, &ThisRuntime, std::future::pending()).unwrap();
    let address = |number: usize| IpAddr::from([10, 0, (number >> 8) as u8, number as u8]);
    let mut members = Vec::new();
    for number in 0..MEMBERS {
        members.push(open(&arrivals, address(number), Route::Ping).await);
    }
    let mut strangers = Vec::new();
    for number in 0..STRANGERS {
        strangers.push(open(&arrivals, address(number), Route::Hello).await);
    }
    let began = Instant::now();
    let more = open(&arrivals, address(MEMBERS), Route::Hello);
    let more = timeout(Duration::from_secs(60), more).await;
    assert!(more.is_ok(), "nobody takes it");
    assert_eq!(
        began.elapsed(),
        Duration::ZERO,
        "it waits for a stranger to leave"
    );
    assert!(strangers[0].is_closed().await);
    members[0]
        .write(&call(2, Route::Ping, true, Bytes::new()))
        .await;
    let answer = members[0].read().await;
    assert!(matches!(answer, Some(Frame::Answer { call: 2, .. })));
}
