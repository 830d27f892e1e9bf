//! The peers' port: accepts connections and serves each until it ends.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::FutureExt as _;
use seqd_net::{Acceptor, Listen};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::codec::Encoder;

use super::frame::{Frame, FrameCodec};
use super::incoming::Handler;
use super::places::{CONNECTIONS, Places};
use super::serving;
use super::transport::{Rejection, RejectionCode};
use crate::tasks::Tasks;
use crate::watched::Watched;

/// The longest time for responses in flight after the node has ended.
const GRACE: Duration = Duration::from_millis(100);

/// Returns the response of a port with TLS to a peer without TLS: a rejection of its connection.
#[must_use]
pub fn answer_without_tls() -> Vec<u8> {
    let why = "this node uses TLS with its peers, but the caller does not: set tls.peer_cert \
        there too";
    let text = Rejection::new(RejectionCode::WrongCertificate, why).to_string();
    let mut bytes = BytesMut::new();
    let encoded = FrameCodec::default().encode(&Frame::Rejection { call: 0, text }, &mut bytes);
    // Without a frame the connection is closed without a response.
    encoded.map(|()| bytes.to_vec()).unwrap_or_default()
}

/// Serves the peers' port until `until` ends.
pub fn serve(
    listener: Box<dyn Listen>,
    handler: Arc<dyn Handler>,
    tasks: &'static dyn Tasks,
    until: impl Future<Output = ()> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    // The limit exceeds the places by one: a stranger that arrives at a full port takes the place
    // of another stranger, so its connection must be accepted.
    let acceptor = Acceptor::open(listener, CONNECTIONS + 1)?;
    let places = Places::of(acceptor.most() - 1);
    Ok(tasks.spawn(Box::pin(run(acceptor, places, handler, tasks, until))))
}

async fn run(
    mut acceptor: Acceptor,
    places: Arc<Places>,
    handler: Arc<dyn Handler>,
    tasks: &'static dyn Tasks,
    until: impl Future<Output = ()> + Send,
) {
    let stopping = Arc::new(Watched::new(false));
    // Connections that outlast the grace period are dropped with this set.
    let mut connections = JoinSet::new();
    let mut until = pin!(until);
    loop {
        let (accepted, permit) = tokio::select! {
            biased;
            () = &mut until => break,
            accepted = acceptor.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        let place = places.enter(accepted.from, accepted.certified);
        let (handler, stopping) = (Arc::clone(&handler), Arc::clone(&stopping));
        let serving = serving::serve(accepted.stream, place, handler, stopping);
        let serving = serving.map(|()| drop(permit));
        connections.spawn(tasks.bind(Box::pin(serving)));
    }
    drop(acceptor);
    stopping.set(true);
    let drained = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(GRACE, drained).await;
    connections.shutdown().await;
}
