//! HTTP/1 on every connection of an [`Acceptor`], with bounds, pipelining and a graceful stop.
//!
//! It uses hyper instead of `axum::serve` for the bounds on heads. It supports HTTP/1 only: no
//! client of a node uses HTTP/2, and both together would add half a megabyte to the binary.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Request;
use hyper::body::Body;
use hyper::server::conn::http1::Builder;
use seqd_net::Acceptor;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::exchange::{Answered, ClientConnection, Exchange, Received};
use super::handed;
use super::held::Held;
use super::hot::{Hot, Then};
use super::limits::{HttpLimits, Unreadable};
use super::paced::Paced;

/// Answers the requests of all connections, and unreadable heads with `unreadable`. When `stop`
/// yields a grace period, accepts no more connections, lets requests in flight finish for that
/// long, and then disconnects the rest. Dropping the future disconnects all at once.
///
/// Returns whether all requests were answered.
pub(crate) async fn serve<S, B>(
    mut acceptor: Acceptor,
    limits: HttpLimits,
    answer: S,
    unreadable: Unreadable,
    stop: impl Future<Output = Duration> + Send,
) -> bool
where
    S: Fn(Request<Received>, ClientConnection) -> Answered<B> + Clone + Send + Sync + 'static,
    B: Body<Data: Send, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static,
{
    let builder = limits.builder();
    let (stopping, is_stopping) = watch::channel(false);
    // Connections that outlast the grace period are dropped with this set.
    let mut connections = JoinSet::new();
    let mut held = Held::new(acceptor.most(), limits.unsent_bytes);
    let mut stop = pin!(stop);
    let grace = loop {
        let stream = tokio::select! {
            stream = acceptor.accept() => stream,
            () = held.too_much() => {
                held.relieve();
                continue;
            }
            grace = &mut stop => break grace,
        };
        while connections.try_join_next().is_some() {}
        let has_place = held.make_place();
        let entry = held.entry(stream.from());
        let is_first = !has_place && held.is_first(&entry);
        let client = ClientConnection::new(entry.clone(), !has_place, is_first);
        let exchange = Exchange::new(answer.clone(), client);
        let stream = Paced::new(stream, &limits, entry.clone(), Arc::clone(&unreadable));
        let (builder, mut is_stopping) = (builder.clone(), is_stopping.clone());
        let task = connections.spawn(async move {
            let stop = pin!(async {
                // An error means that the port has ended without a stop, which ends this task.
                let _ = is_stopping.wait_for(|is_stopping| *is_stopping).await;
            });
            if let Err(error) = connection(stream, &limits, &builder, &exchange, stop).await {
                tracing::debug!("connection: {error}");
            }
        });
        held.add(task, &entry);
    };
    drop(acceptor);
    stopping.send_replace(true);
    let all = async { while connections.join_next().await.is_some() {} };
    let is_drained = tokio::time::timeout(grace, all).await.is_ok();
    connections.shutdown().await;
    is_drained
}

/// Serves one connection: hot requests here, and others with hyper.
async fn connection<T, S, B>(
    stream: Paced<T>,
    limits: &HttpLimits,
    builder: &Builder,
    exchange: &Exchange<S>,
    mut stop: Pin<&mut impl Future<Output = ()>>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>>
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Fn(Request<Received>, ClientConnection) -> Answered<B>,
    B: Body<Data: Send, Error: std::error::Error + Send + Sync> + Unpin + 'static,
{
    let Some(is_hot) = limits.hot else {
        let begin = (stream, Bytes::new());
        handed::serve(begin, (builder, false), exchange, stop).await?;
        return Ok(());
    };
    let mut hot = Hot::new(stream, is_hot, limits.head_wait);
    while hot.serve(exchange, stop.as_mut()).await? == Then::HandOver {
        let begin = (hot.stream, hot.bytes.freeze());
        let returned = handed::serve(begin, (builder, true), exchange, stop.as_mut()).await?;
        let Some((stream, bytes)) = returned else {
            break;
        };
        hot = Hot::new(stream, is_hot, limits.head_wait);
        hot.bytes = bytes;
    }
    Ok(())
}
