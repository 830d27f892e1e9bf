//! One keep-alive connection to a server. It sends one request at a time, and is opened again after
//! a failure.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use seqd_client::api::address::{SCHEME, TLS_SCHEME, base_url};
use seqd_client::api::exit;
use seqd_client::{ClientFiles, Error};
use seqd_net::tls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::failure::Failure;

/// The longest response: a million values of a sequence are one range, and 10,000 IDs are 200 KB.
const MOST_BYTES: usize = 16 << 20;

/// The pause after a failed connection, so that a server that is down is not dialled in a loop.
const PAUSE: Duration = Duration::from_millis(50);

/// The failure that a response describes.
fn failure_of(status: StatusCode, body: &[u8]) -> Failure {
    if let Ok(problem) = serde_json::from_slice::<seqd_client::api::Problem>(body) {
        return Error::Problem(Box::new(problem)).into();
    }
    let start: String = String::from_utf8_lossy(body).chars().take(120).collect();
    let code = format!("status-{}", status.as_u16());
    let detail = format!("the server responded with status {status}: {start:?}");
    Failure::of(exit::for_status(status.as_u16()), &code, detail)
}

/// The address of a server, from a URL without regard to its path.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    host: String,
    port: u16,
    pub(crate) is_https: bool,
    authority: HeaderValue,
}

impl Server {
    /// # Errors
    /// The text is not a URL, or its scheme is neither http nor https.
    pub(crate) fn of_url(url: &Uri) -> Result<Self, Failure> {
        let wrong = |reason: &str| {
            let example = base_url("127.0.0.1:8080/next");
            Failure::usage(format!("{url} is not a URL: {reason}, such as {example}"))
        };
        let is_https = match url.scheme_str() {
            Some(SCHEME) => false,
            Some(TLS_SCHEME) => true,
            _ => return Err(wrong("its scheme is http or https")),
        };
        let authority = url.authority().ok_or_else(|| wrong("it has a host"))?;
        if authority.as_str().contains('@') {
            let header = "--header \"authorization: Basic ...\"";
            return Err(wrong(&format!("a user and a password belong in {header}")));
        }
        let host = authority.host();
        let default = if is_https { 443 } else { 80 };
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(default),
            is_https,
            authority: HeaderValue::from_str(authority.as_str())
                .map_err(|error| wrong(&error.to_string()))?,
        })
    }
}

/// The settings of all connections.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    tls: Arc<ClientConfig>,
    /// The time limit for connecting, and for a request.
    pub(crate) timeout: Duration,
}

impl Connector {
    pub(crate) fn new(
        files: &ClientFiles,
        any_https: bool,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let tls = seqd_net::tls::client(files, any_https);
        let tls = tls.map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Self {
            tls: Arc::new(tls),
            timeout,
        })
    }

    async fn open(&self, server: &Server) -> std::io::Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect((server.host.as_str(), server.port)).await?;
        stream.set_nodelay(true)?;
        if !server.is_https {
            return shake(stream).await;
        }
        let tls = Arc::clone(&self.tls);
        shake(seqd_net::tls::connect(tls, &server.host, stream).await?).await
    }
}

async fn shake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> std::io::Result<SendRequest<Full<Bytes>>> {
    let shaken = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(std::io::Error::other)?;
    // The connection's error is also returned by the request that it was serving.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// A request that is sent many times: everything except the host.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    request: Request<Full<Bytes>>,
}

impl Prepared {
    /// A request for the path and query of a URL.
    pub(crate) fn new(method: Method, target: Uri, headers: HeaderMap, body: Bytes) -> Self {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = target;
        *request.headers_mut() = headers;
        Self { request }
    }

    /// Returns the same request for another path, with another body.
    pub(crate) fn with(&self, target: Uri, body: Bytes) -> Self {
        let mut other = self.clone();
        *other.request.uri_mut() = target;
        *other.request.body_mut() = Full::new(body);
        other
    }

    /// Sets the host, unless the user has given one.
    pub(crate) fn to(mut self, server: &Server) -> Self {
        let headers = self.request.headers_mut();
        let host = headers.entry(header::HOST);
        host.or_insert_with(|| server.authority.clone());
        self
    }
}

/// A method that the user has given.
pub(crate) fn method(text: &str) -> Result<Method, String> {
    let method = Method::from_bytes(text.to_ascii_uppercase().as_bytes());
    method.map_err(|_| "it takes a method of HTTP, such as POST".to_owned())
}

/// A connection, opened at its first request.
#[derive(Debug)]
pub(crate) struct Connection {
    connector: Rc<Connector>,
    server: Rc<Server>,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    pub(crate) fn new(connector: Rc<Connector>, server: Rc<Server>) -> Self {
        Self {
            connector,
            server,
            sender: None,
        }
    }

    /// Sends a request and returns the body of a response with a 2xx status.
    pub(crate) async fn send(&mut self, prepared: &Prepared) -> Result<Bytes, Failure> {
        let mut sender = self.sender().await?;
        let limit = self.connector.timeout;
        match timeout(limit, exchange(&mut sender, prepared.request.clone())).await {
            Err(_) => {
                let detail = format!("no response within {} ms", limit.as_millis());
                Err(Failure::of(exit::UNAVAILABLE, "timed-out", detail))
            }
            Ok(Err(failure)) => Err(failure),
            Ok(Ok((status, body))) => {
                self.sender = Some(sender);
                if status.is_success() {
                    Ok(body)
                } else {
                    Err(failure_of(status, &body))
                }
            }
        }
    }

    /// Returns the open connection, or opens one.
    async fn sender(&mut self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        if let Some(mut sender) = self.sender.take() {
            // The server may have closed it after its last response.
            if sender.ready().await.is_ok() {
                return Ok(sender);
            }
        }
        let opened = timeout(self.connector.timeout, self.connector.open(&self.server)).await;
        let reason = match opened {
            Ok(Ok(sender)) => return Ok(sender),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "connecting timed out".to_owned(),
        };
        tokio::time::sleep(PAUSE).await;
        let Server { host, port, .. } = &*self.server;
        let detail = format!("{host}:{port}: {reason}");
        Err(Failure::of(exit::UNAVAILABLE, "unreachable", detail))
    }
}

async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), Failure> {
    let lost = |error: &dyn std::fmt::Display| {
        let detail = format!("the connection broke: {error}");
        Failure::of(exit::UNAVAILABLE, "connection-lost", detail)
    };
    let response = sender.send_request(request).await;
    let (head, body) = response.map_err(|error| lost(&error))?.into_parts();
    let body = Limited::new(body, MOST_BYTES).collect().await;
    let body = body.map_err(|error| lost(&error))?.to_bytes();
    Ok((head.status, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_scheme_and_a_host() {
        let of = |text: &str| Server::of_url(&text.parse().unwrap());
        let server = of("https://[::1]/next").unwrap();
        assert_eq!(
            (server.host.as_str(), server.port, server.is_https),
            ("::1", 443, true)
        );
        assert_eq!(of("http://a:81/x?y=1").unwrap().port, 81);
        for wrong in ["/next", "ftp://a/", "a:80", "http://user:pw@a/"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn responses_are_counted_by_their_code() {
        let body = br#"{"status":503,"code":"no-quorum","detail":"gone","retryable":true}"#;
        let of_node = failure_of(StatusCode::SERVICE_UNAVAILABLE, body);
        assert_eq!(
            (of_node.code(), of_node.exit),
            ("no-quorum", exit::UNAVAILABLE)
        );
        let of_proxy = failure_of(StatusCode::BAD_GATEWAY, b"<html>");
        assert_eq!(
            (of_proxy.code(), of_proxy.exit),
            ("status-502", exit::UNAVAILABLE)
        );
        assert!(of_proxy.detail().contains("<html>"));
    }
}
