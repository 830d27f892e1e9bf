//! A raw keep-alive connection: one request at a time, written as bytes, and its whole response.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seqd_net::tls::ClientFiles;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

/// The maximum length of a response; a batch of 10,000 IDs as JSON has a quarter of it.
const MAX_ANSWER: usize = 1 << 20;

pub(crate) fn connector(cacert: PathBuf) -> TlsConnector {
    let files = ClientFiles {
        cacert: Some(cacert),
        ..ClientFiles::default()
    };
    let config = seqd_net::tls::client(&files, true).expect("the CA of the servers");
    TlsConnector::from(Arc::new(config))
}

/// A connection, with TLS or without.
trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

pub struct Connection {
    stream: Box<dyn Wire>,
    buffer: Vec<u8>,
}

/// Raises this process's limit of open files to its maximum. Returns the limit.
pub fn raise_open_files() -> u64 {
    let limits = getrlimit(Resource::Nofile);
    let current = limits.maximum;
    let raised = setrlimit(Resource::Nofile, Rlimit { current, ..limits });
    raised.expect("a soft limit of open files as high as the hard one");
    current.unwrap_or(u64::MAX)
}

/// The next port of an own address. With thousands of connections, the system's own search for a
/// free port takes most of the processor. If the port is in use the attempt fails, and the next
/// attempt uses another one.
fn next_port() -> u16 {
    static TRIES: AtomicU32 = AtomicU32::new(0);
    let tries = TRIES.fetch_add(1, Ordering::Relaxed);
    // Processes begin at different ports.
    let place = std::process::id().wrapping_mul(7_919).wrapping_add(tries);
    1_024 + (place % 64_000) as u16
}

/// Connects to an IP address and port, from the given own address if there is one.
pub async fn connect(address: &str, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let stream = match source {
        None => TcpStream::connect(address).await?,
        Some(source) => {
            let socket = TcpSocket::new_v4()?;
            // A port may serve connections to several servers.
            socket.set_reuseaddr(true)?;
            socket.bind(SocketAddr::new(source, next_port()))?;
            let address = address.parse().map_err(io::Error::other)?;
            socket.connect(address).await?
        }
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Connection {
    pub(crate) async fn open(address: &str, tls: Option<TlsConnector>) -> io::Result<Self> {
        let stream = connect(address, None).await?;
        let stream: Box<dyn Wire> = match tls {
            None => Box::new(stream),
            Some(tls) => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                let host = host.to_owned().try_into().map_err(io::Error::other)?;
                Box::new(tls.connect(host, stream).await?)
            }
        };
        Ok(Self::on(stream))
    }

    fn on(stream: Box<dyn Wire>) -> Self {
        Self {
            stream,
            buffer: Vec::with_capacity(16 * 1024),
        }
    }

    /// A connection without TLS.
    pub async fn plain(address: &str) -> io::Result<Self> {
        Self::open(address, None).await
    }

    /// A connection without TLS, from the given own address if there is one.
    pub(crate) async fn from(address: &str, source: Option<IpAddr>) -> io::Result<Self> {
        Ok(Self::on(Box::new(connect(address, source).await?)))
    }

    /// Posts JSON. Returns the status and the body.
    pub async fn post(&mut self, path: &str, body: &str) -> io::Result<(u16, &[u8])> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let status = self.once(request.as_bytes()).await?;
        Ok((status, self.body()))
    }

    /// Sends one request and reads its whole response. Returns the status.
    pub(crate) async fn once(&mut self, request: &[u8]) -> io::Result<u16> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some((status, length)) = head(&self.buffer)?
                && self.buffer.len() >= length
            {
                self.buffer.truncate(length);
                return Ok(status);
            }
            if self.buffer.len() > MAX_ANSWER {
                return Err(io::Error::other("an answer without an end"));
            }
        }
    }

    /// The body of the last response.
    pub(crate) fn body(&self) -> &[u8] {
        let end = self.buffer.windows(4).position(|four| four == b"\r\n\r\n");
        end.map_or(&[], |end| &self.buffer[end + 4..])
    }

    /// The headers of the last response, names in lower case.
    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        let end = self.buffer.len() - self.body().len();
        let head = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        let pairs = head.lines().filter_map(|line| line.split_once(": "));
        pairs
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect()
    }
}

/// The status of a response and its length with head and body, once the head is complete.
fn head(bytes: &[u8]) -> io::Result<Option<(u16, usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let malformed = || io::Error::other("an answer without status or length");
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| malformed())?;
    let status = text
        .get(9..12)
        .and_then(|code| code.parse().ok())
        .ok_or_else(malformed)?;
    let length: usize = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or_else(malformed)?;
    Ok(Some((status, end + 4 + length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_when_it_is_complete() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(head(&answer[..20]).unwrap(), None);
        assert_eq!(head(answer).unwrap(), Some((200, answer.len())));
    }

    #[test]
    fn an_answer_without_a_length_is_an_error() {
        assert!(head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
