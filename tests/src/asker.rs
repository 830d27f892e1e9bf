//! A client of all nodes over raw connections that it keeps open. It sends the requests of one
//! caller, one at a time, and returns each response or the reason why there is none.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::http::{Failure, Reply};
use crate::report::{Counts, Report, count};

/// Longer than a healthy node needs, and short compared with a fault: the caller continues at
/// another node.
pub const PATIENCE: Duration = Duration::from_millis(2_500);

/// The counts of all responses to the clients of a load.
#[derive(Debug, Default)]
pub struct Tally {
    pub requests: u64,
    pub unanswered: u64,
    /// The count of each error code.
    codes: Counts,
    /// Responses that no client should receive.
    pub unexpected: Vec<String>,
}

impl Tally {
    /// Counts the outcome of a request. Returns the response if it is a success or has one of these
    /// codes; after anything else the client may retry.
    pub fn take(
        &mut self,
        request: &str,
        asked: Result<Reply, Failure>,
        codes: &[&str],
    ) -> Option<Reply> {
        self.requests += 1;
        let Ok(answer) = asked else {
            self.unanswered += 1;
            return None;
        };
        if answer.is_ok() {
            return Some(answer);
        }
        let code = answer.code();
        let is_known = codes.contains(&code.as_str());
        if !is_known && !matches!(answer.status, 429 | 503 | 504) {
            self.unexpected.push(format!("{request}: {answer:?}"));
        }
        count(&mut self.codes, code);
        is_known.then_some(answer)
    }

    pub fn judge(&self, report: &mut Report) {
        let (requests, unanswered, codes) = (self.requests, self.unanswered, &self.codes);
        println!("  {requests} requests, {unanswered} without an answer; {codes:?}");
        report.none("expected answers", &self.unexpected);
    }
}

pub struct Asker {
    addresses: Vec<String>,
    connections: Vec<Option<Connection>>,
    /// The header with the client's access token; empty without one.
    authorization: String,
    /// The source address of the connections; without one, the system chooses.
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

    /// Makes the client send this access token with each request, unless it is empty.
    #[must_use]
    pub fn with_token(mut self, token: &str) -> Self {
        if !token.is_empty() {
            self.authorization = format!("authorization: Bearer {token}\r\n");
        }
        self
    }

    /// Makes the client connect from this own address.
    #[must_use]
    pub fn from_source(mut self, source: IpAddr) -> Self {
        self.source = Some(source);
        self
    }

    /// Sends a request. An empty `body` sends no body, and an empty `key` no `Idempotency-Key`.
    pub async fn ask(
        &mut self,
        node: usize,
        (method, path, key): (&str, &str, &str),
        body: &str,
        patience: Duration,
    ) -> Result<Reply, Failure> {
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
        let begin = Instant::now();
        let late = |_| Failure::Unknown(format!("no response within {patience:?}"));
        let refused = |error: io::Error| Failure::Refused(error.to_string());
        let broke = |error: io::Error| Failure::Unknown(error.to_string());
        // The connection is taken out of its place, because it cannot be used again if it is given
        // up in the middle of a response.
        let mut connection = match self.connections[node].take() {
            Some(connection) => connection,
            None => {
                let opened = tokio::time::timeout(PATIENCE, Connection::from(address, self.source));
                let opened = opened.await.unwrap_or_else(|late| Err(late.into()));
                opened.map_err(refused)?
            }
        };
        let answered = tokio::time::timeout(patience, connection.once(request.as_bytes()));
        let status = answered.await.map_err(late)?.map_err(broke)?;
        let reply = Reply {
            status,
            headers: connection.headers(),
            body: String::from_utf8_lossy(connection.body()).into_owned(),
            elapsed: begin.elapsed(),
        };
        self.connections[node] = Some(connection);
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_another_code_is_unexpected_unless_the_node_may_serve_later() {
        let mut tally = Tally::default();
        let mut take = |status, code| {
            let answer = Reply {
                status,
                headers: Vec::new(),
                body: format!("{{\"code\": \"{code}\"}}"),
                elapsed: Duration::ZERO,
            };
            let taken = tally.take("POST /", Ok(answer), &["lock-held"]);
            (taken.is_some(), tally.unexpected.len())
        };
        assert_eq!(take(200, ""), (true, 0));
        assert_eq!(take(409, "lock-held"), (true, 0));
        assert_eq!(take(503, "no-quorum"), (false, 0));
        assert_eq!(take(409, "planted"), (false, 1));
        assert!(
            tally
                .take("POST /", Err(Failure::Unknown(String::new())), &[])
                .is_none()
        );
        assert_eq!((tally.requests, tally.unanswered), (5, 1));
        let mut report = Report::default();
        tally.judge(&mut report);
        assert_eq!(report.verdict().unwrap_err().invariant, "expected answers");
    }
}
