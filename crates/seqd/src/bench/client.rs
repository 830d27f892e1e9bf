//! One client: its connection, and the request or the pair of requests that it repeats.

use std::rc::Rc;

use bytes::Bytes;
use hyper::{HeaderMap, Method, Uri};
use seqd_client::api::{HeldLock, exit, paths};
use serde_json::json;

use super::connection::{Connection, Connector, Prepared, Server};
use super::numbers::{self, Numbers, Read};
use crate::failure::Failure;

/// The measured action.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// One request whose response has numbers.
    Once(Prepared, Read),
    /// A lock is acquired and released.
    Cycle(LockCycle),
}

/// Cycles on several locks in turn.
#[derive(Debug, Clone)]
pub(crate) struct LockCycle {
    /// The targets of the requests that acquire and release each lock.
    locks: Vec<(Uri, Uri)>,
    next: usize,
    acquire: Bytes,
    head: Prepared,
}

impl LockCycle {
    /// Cycles on `names` locks whose names begin with `prefix`. A cycle waits for up to `wait_ms`
    /// for the lock, and a lock whose release is lost expires after `ttl_ms`.
    pub(crate) fn new(
        prefix: &str,
        names: u64,
        headers: HeaderMap,
        [ttl_ms, wait_ms]: [u64; 2],
    ) -> Result<Self, hyper::http::Error> {
        let uri = |template: &str, at| {
            Uri::try_from(paths::fill(template, &format!("{prefix}-{at}")))
                .map_err(hyper::http::Error::from)
        };
        let both = |at| {
            let acquire = uri("/v1/locks/{name}/acquire", at)?;
            Ok((acquire, uri("/v1/locks/{name}/release", at)?))
        };
        let locks: Result<Vec<_>, hyper::http::Error> = (0..names).map(both).collect();
        let body = json!({ "owner": prefix, "ttl_ms": ttl_ms, "wait_ms": wait_ms });
        let start = Uri::from_static("/");
        Ok(Self {
            locks: locks?,
            next: 0,
            acquire: body.to_string().into(),
            head: Prepared::new(Method::POST, start, headers, Bytes::new()),
        })
    }

    async fn run(&mut self, connection: &mut Connection, numbers: &mut Numbers) -> Outcome {
        let (acquire, release) = &self.locks[self.next % self.locks.len()];
        self.next += 1;
        let request = self.head.with(acquire.clone(), self.acquire.clone());
        let body = connection.send(&request).await?;
        let held: Result<HeldLock, _> = serde_json::from_slice(&body);
        let held = held.map_err(|error| bad_answer(error.to_string()))?;
        let lease = json!({ "lease": held.lease });
        numbers::token(&held, numbers).map_err(bad_answer)?;
        let request = self.head.with(release.clone(), lease.to_string().into());
        connection.send(&request).await.map(|_| ())
    }
}

type Outcome = Result<(), Failure>;

fn bad_answer(detail: String) -> Failure {
    Failure::of(exit::FAILURE, "bad-answer", detail)
}

/// A client of one server.
#[derive(Debug)]
pub(crate) struct Client {
    connection: Connection,
    action: Action,
    /// The numbers of the last response.
    pub(crate) numbers: Numbers,
}

impl Client {
    /// The client with this index.
    pub(crate) fn new(
        action: Action,
        connector: &Rc<Connector>,
        server: &Rc<Server>,
        index: usize,
    ) -> Self {
        let action = match action {
            Action::Once(request, read) => Action::Once(request.to(server), read),
            Action::Cycle(cycle) => Action::Cycle(LockCycle {
                head: cycle.head.to(server),
                next: index,
                ..cycle
            }),
        };
        Self {
            connection: Connection::new(Rc::clone(connector), Rc::clone(server)),
            action,
            numbers: Numbers::default(),
        }
    }

    /// Performs the action once. Afterwards `numbers` has the numbers of the response, also if a
    /// later part of the action failed.
    pub(crate) async fn act(&mut self) -> Outcome {
        self.numbers.clear();
        match &mut self.action {
            Action::Once(request, read) => {
                let body = self.connection.send(request).await?;
                read.numbers(&body, &mut self.numbers).map_err(bad_answer)
            }
            Action::Cycle(cycle) => cycle.run(&mut self.connection, &mut self.numbers).await,
        }
    }
}
