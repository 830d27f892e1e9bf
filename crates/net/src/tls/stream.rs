//! A connection that runs its handshake at its first use and returns readable error messages.
//!
//! A handshake therefore runs in the task that serves the connection, within a time limit of its
//! own, and never in the task that accepts connections.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio_rustls::{LazyConfigAcceptor, TlsStream};

use crate::tls::peer::{PeerTls, node_of};
use crate::tls::server::ServerTls;
use crate::tls::words::{io_words, is_certificate_refused};

/// The first byte of a TLS connection: a record of the handshake.
const HANDSHAKE: u8 = 0x16;

/// The largest number of bytes that are read from a request without TLS before its connection is
/// closed: with unread bytes the system would discard the response.
const PLAIN_BYTES: usize = 64 << 10;

/// The most bytes that an accepted connection holds after a write, because the client cannot receive
/// them yet: four records, so that one call of the operating system sends a large response.
pub const WRITE_BUFFER: usize = 64 << 10;

/// The longest time for a handshake. A client starts its handshake as soon as it has connected, so
/// this also holds where a connection may be idle before its first request.
pub(super) const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

/// The node in the certificate of the other side. Empty until the handshake has ended.
pub type Certified = Arc<OnceLock<String>>;

type Shaking<S> = Pin<Box<dyn Future<Output = io::Result<TlsStream<S>>> + Send>>;

/// Called with the error of a failed handshake.
pub(crate) type Failed = Box<dyn FnOnce(&io::Error) + Send>;

#[expect(
    clippy::large_enum_variant,
    reason = "a connection is open for nearly all of its time"
)]
enum State<S> {
    Shaking(Shaking<S>),
    Open(TlsStream<S>),
    Over,
}

/// TLS over a stream.
pub struct Secured<S> {
    state: State<S>,
    certified: Certified,
    failed: Option<Failed>,
}

/// A configuration with which a port accepts connections.
pub trait Accept: Clone {
    #[doc(hidden)]
    fn config(&self) -> Arc<ServerConfig>;
}

impl Accept for ServerTls {
    fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0)
    }
}

impl Accept for PeerTls {
    fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.accept)
    }
}

/// Runs TLS on an accepted connection. A connection that begins without TLS receives the response
/// `plain`, if it is given. `failed` is called if the handshake fails, unless the other side closed
/// the connection.
pub fn accept<S>(
    tls: &impl Accept,
    stream: S,
    plain: Option<Arc<[u8]>>,
    failed: impl FnOnce(&io::Error) + Send + 'static,
) -> Secured<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shaking = shake(tls.config(), stream, plain);
    let shaking = async {
        let shaken = tokio::time::timeout(HANDSHAKE_WAIT, shaking).await;
        shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    };
    Secured {
        state: State::Shaking(Box::pin(shaking)),
        certified: Certified::default(),
        failed: Some(Box::new(failed)),
    }
}

async fn shake<S>(
    config: Arc<ServerConfig>,
    mut stream: S,
    plain: Option<Arc<[u8]>>,
) -> io::Result<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let first = stream.read_u8().await?;
    if first != HANDSHAKE {
        if let Some(plain) = plain {
            stream.write_all(&plain).await?;
            stream.shutdown().await?;
            let mut rest = stream.take(PLAIN_BYTES as u64);
            tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
        }
        let why = "it does not speak TLS";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let mut acceptor = Acceptor::default();
    acceptor.read_tls(&mut [first].as_slice())?;
    let begun = LazyConfigAcceptor::new(acceptor, stream).await;
    let mut accepted = begun?.into_stream(config).await?;
    accepted.get_mut().1.set_buffer_limit(Some(WRITE_BUFFER));
    Ok(TlsStream::Server(accepted))
}

impl<S> Secured<S> {
    /// Creates a connection whose handshake has ended at this side. `failed` is called if the other
    /// side rejects the certificate after that.
    pub(crate) fn open(stream: TlsStream<S>, failed: Failed) -> Self {
        Self {
            state: State::Open(stream),
            certified: Certified::default(),
            failed: Some(failed),
        }
    }

    /// The cell that receives the name of the node at the other side.
    #[must_use]
    pub fn certified(&self) -> Certified {
        Arc::clone(&self.certified)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Secured<S> {
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&mut TlsStream<S>>> {
        if let State::Shaking(shaking) = &mut self.state {
            match ready!(shaking.as_mut().poll(cx)) {
                Ok(stream) => {
                    if let Some(node) = node_of(stream.get_ref().1.peer_certificates()) {
                        // Set once, by this function.
                        let _ = self.certified.set(node);
                    }
                    self.state = State::Open(stream);
                }
                Err(error) => {
                    let error = io_words(error);
                    self.state = State::Over;
                    if let Some(failed) = self.failed.take()
                        && !is_closed(&error)
                    {
                        failed(&error);
                    }
                    return Poll::Ready(Err(error));
                }
            }
        }
        match &mut self.state {
            State::Open(stream) => Poll::Ready(Ok(stream)),
            _ => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::TimedOut
    )
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Secured<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = ready!(self.poll_open(cx))?;
        match ready!(Pin::new(stream).poll_read(cx, buffer)) {
            // A killed process closes without a closing alert. A truncation is detected anyway,
            // because requests, responses and frames contain their lengths.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            Err(error) => {
                let is_refused = is_certificate_refused(&error);
                let error = io_words(error);
                if let Some(failed) = self.failed.take_if(|_| is_refused) {
                    failed(&error);
                }
                Poll::Ready(Err(error))
            }
            Ok(()) => Poll::Ready(Ok(())),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Secured<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = ready!(self.poll_open(cx))?;
        Pin::new(stream).poll_write(cx, bytes).map_err(io_words)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = ready!(self.poll_open(cx))?;
        let written = Pin::new(stream).poll_write_vectored(cx, slices);
        written.map_err(io_words)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Open(stream) => Pin::new(stream).poll_flush(cx).map_err(io_words),
            // Nothing was written.
            State::Shaking(_) | State::Over => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Open(stream) => Pin::new(stream).poll_shutdown(cx).map_err(io_words),
            State::Shaking(_) | State::Over => Poll::Ready(Ok(())),
        }
    }
}
