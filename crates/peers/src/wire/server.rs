//! The peers' port: accepts connections and serves each until it ends.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
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

/// How long answers that are under way may take once the node has ended.
const GRACE: Duration = Duration::from_millis(100);

/// What a peer that speaks no TLS is answered at a port that does: a rejection of its connection.
#[must_use]
pub fn answer_without_tls() -> Vec<u8> {
    let why = "this node speaks TLS with its peers, and you do not: set tls.peer_cert there too";
    let text = Rejection::new(RejectionCode::WrongCertificate, why).to_string();
    let mut bytes = BytesMut::new();
    let encoded = FrameCodec::new().encode(&Frame::Rejection { call: 0, text }, &mut bytes);
    // A frame that does not fit is none, and then the connection is just closed.
    encoded.map(|()| bytes.to_vec()).unwrap_or_default()
}

/// Serves the peers' port until `until` is over.
pub fn serve(
    listener: Box<dyn Listen>,
    handler: Arc<dyn Handler>,
    tasks: &'static dyn Tasks,
    until: impl Future<Output = ()> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    // More are never held: a stranger too many takes another one's place, a member too many none. So
    // one that comes when all places are taken must be accepted, too.
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
    // Held here, so that what outlasts the grace ends with it.
    let mut connections = JoinSet::new();
    let mut until = pin!(until);
    loop {
        let stream = tokio::select! {
            biased;
            () = &mut until => break,
            stream = acceptor.accept() => stream,
        };
        while connections.try_join_next().is_some() {}
        let place = places.enter(stream.from(), stream.certified());
        let (handler, stopping) = (Arc::clone(&handler), Arc::clone(&stopping));
        let serving = serving::serve(stream, place, handler, stopping);
        connections.spawn(tasks.bind(Box::pin(serving)));
    }
    drop(acceptor);
    stopping.set(true);
    let drained = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(GRACE, drained).await;
    connections.shutdown().await;
}
