//! Serves HTTP/1 on every connection of a port, with limits and pipelining.
//!
//! Uses hyper instead of `axum::serve`, which has no limits on request heads. Supports only HTTP/1:
//! no client of a node uses HTTP/2, which would add half a megabyte to the binary.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};

use bytes::{Bytes, BytesMut};
use hyper::Request;
use hyper::body::Body;
use hyper::server::conn::http1::Builder;
use seqd_net::Listen;
use tokio::io::{AsyncRead, AsyncWrite};

use super::buffered::Buffered;
use super::exchange::{Answered, Exchange, Received};
use super::handed;
use super::held::ClientConnection;
use super::hot::{Hot, Then};
use super::limits::{Bounds, HttpLimits, Unreadable};
use super::paced::Paced;
use super::port::Port;

/// Answers the requests of all connections of a listener, and unreadable heads with `unreadable`.
///
/// # Errors
/// The operating system refuses the listener.
pub(crate) fn serve_http<S, B>(
    listener: Box<dyn Listen>,
    limits: HttpLimits,
    answer: S,
    unreadable: Unreadable,
) -> io::Result<Port>
where
    S: Fn(Request<Received>, ClientConnection) -> Answered<B> + Clone + Send + Sync + 'static,
    B: Body<Data: Send, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static,
{
    let builder = limits.builder();
    let bounds = (Bounds::USUAL, Some(unreadable));
    Port::start(listener, bounds, move |stream, client, stopping| {
        let exchange = Exchange::new(answer.clone(), client);
        let builder = builder.clone();
        async move {
            let stop = pin!(stopping.wait());
            if let Err(error) = connection(stream, &limits, &builder, &exchange, stop).await {
                tracing::debug!("connection: {error}");
            }
        }
    })
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
    let buffered = |stream, bytes| Buffered::new(stream, bytes, limits.head_wait);
    let mut hot = Hot::new(buffered(stream, BytesMut::new()), is_hot);
    while hot.serve(exchange, stop.as_mut()).await? == Then::HandOver {
        let begin = (hot.from.stream, hot.from.bytes.freeze());
        let returned = handed::serve(begin, (builder, true), exchange, stop.as_mut()).await?;
        let Some((stream, bytes)) = returned else {
            break;
        };
        hot = Hot::new(buffered(stream, bytes), is_hot);
    }
    Ok(())
}
