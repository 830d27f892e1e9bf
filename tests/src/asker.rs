//! A client of all nodes that keeps raw connections open. It sends one request at a time and
//! returns the response, or the fact that none arrived.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;

use crate::connection::Connection;

/// Longer than a healthy node needs, and short compared with a fault: the caller then continues at
/// another node.
pub const PATIENCE: Duration = Duration::from_millis(2_500);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: String,
    /// `true` if the response is a replay of an earlier response.
    pub is_replayed: bool,
}

impl Answer {
    pub fn is_ok(&self) -> bool {
        self.status == 200
    }

    /// Returns whether a problem response guarantees that the request had no effect.
    pub fn is_retryable(&self) -> bool {
        self.json()["retryable"] == true
    }

    /// The body as JSON, null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    /// The `code` of a problem response, otherwise an empty string.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// The outcome of a request without a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// No connection was established, so the request certainly had no effect.
    Unsent,
    /// The request may have had an effect, or may still have one.
    Unknown,
}

pub struct Asker {
    addresses: Vec<String>,
    connections: Vec<Option<Connection>>,
    /// The header with the access token. Empty without a token.
    authorization: String,
    /// The local address of its connections. `None` lets the system choose.
    source: Option<IpAddr>,
}

impl Asker {
    pub fn new(addresses: &[String]) -> Self {
        Self {
            addresses: addresses.to_vec(),
            connections: addresses.iter().map(|_| None).collect(),
            authorization: String::new(),
            source: None,
        }
    }

    /// Sends this access token with each request, unless it is empty.
    #[must_use]
    pub fn with_token(mut self, token: &str) -> Self {
        if !token.is_empty() {
            self.authorization = format!("authorization: Bearer {token}\r\n");
        }
        self
    }

    /// Connects from this local address.
    #[must_use]
    pub fn from_source(mut self, source: IpAddr) -> Self {
        self.source = Some(source);
        self
    }

    /// Sends a request with a JSON body, or without a body, and with an `Idempotency-Key` if the
    /// key is not empty.
    pub async fn ask(
        &mut self,
        node: usize,
        (method, path, key): (&str, &str, &str),
        body: &str,
        patience: Duration,
    ) -> Result<Answer, Unanswered> {
        let address = &self.addresses[node];
        let authorization = &self.authorization;
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n{authorization}");
        if !key.is_empty() {
            request += &format!("idempotency-key: {key}\r\n");
        }
        if !body.is_empty() {
            request += "content-type: application/json\r\n";
        }
        request += &format!("content-length: {}\r\n\r\n{body}", body.len());
        // Taken out of the list, because a connection that is abandoned in the middle of a response
        // cannot be used again.
        let mut connection = match self.connections[node].take() {
            Some(connection) => connection,
            None => {
                let opened = tokio::time::timeout(PATIENCE, Connection::from(address, self.source));
                let opened = opened.await.map_err(|_| Unanswered::Unsent)?;
                opened.map_err(|_| Unanswered::Unsent)?
            }
        };
        let answered = tokio::time::timeout(patience, connection.once(request.as_bytes()));
        let status = answered.await.map_err(|_| Unanswered::Unknown)?;
        let answer = Answer {
            status: status.map_err(|_| Unanswered::Unknown)?,
            body: String::from_utf8_lossy(connection.body()).into_owned(),
            is_replayed: connection.has_header("idempotent-replayed"),
        };
        self.connections[node] = Some(connection);
        Ok(answer)
    }
}
