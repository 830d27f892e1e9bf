//! Closes connections of the clients' port if there are too many of them, or too many unsent bytes
//! of responses.
//!
//! A connection is charged to its address, or to the token of its latest request when that is
//! known. If there are too many connections, the tenant with the most connections at rest loses
//! some. If too many bytes are unsent, the tenant with the most unsent bytes loses connections.

mod losers;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use hyper::body::{Body, Frame, SizeHint};
use seqd_guards::is_out;
use seqd_state::Tenant;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use losers::{Candidate, Rank, losers};

/// One place in this many is reserved for connections that arrive while no other connection can be
/// closed.
const RESERVED: usize = 64;

/// The time for which a connection counts as new. A new connection is not the first of its tenant
/// to be closed, so that its first request can arrive. The time exceeds the round-trip time to any
/// client.
const ARRIVAL: Duration = Duration::from_millis(500);

/// The time for which the result of a search for connections to close remains valid.
const SEARCH_AGE: Duration = Duration::from_millis(50);

/// The activity of a connection.
#[derive(Debug)]
struct Activity {
    address: Option<IpAddr>,
    is_reserved: bool,
    is_first: bool,
    accepted: Instant,
    /// The tenant to which the connection is charged, as a number.
    tenant: AtomicU64,
    /// Requests that are being answered.
    requests: AtomicUsize,
    /// The requests among them that wait for an action of another client.
    pauses: AtomicUsize,
    has_asked: AtomicBool,
    /// True if its latest request waited because the client requested the wait.
    has_waited: AtomicBool,
    /// The number of its latest event: it was accepted, a request began, or the client received a
    /// part of a response. All connections share one sequence of numbers.
    since: AtomicU64,
    /// Bytes of responses that the client has not received.
    unsent: AtomicUsize,
    shared: Arc<Shared>,
}

impl Activity {
    fn tenant(&self) -> Tenant {
        Tenant::from_bits(self.tenant.load(Ordering::Relaxed))
    }

    fn is_idle(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0
    }

    /// Returns whether all of its requests wait, or it has none. It may then be closed without
    /// harm.
    fn is_at_rest(&self) -> bool {
        let requests = self.requests.load(Ordering::Relaxed);
        let pauses = if is_out!(WaitsEvicted) {
            0
        } else {
            self.pauses.load(Ordering::Relaxed)
        };
        requests <= pauses
    }

    fn since(&self) -> u64 {
        self.since.load(Ordering::Relaxed)
    }

    fn rank(&self, now: Instant) -> Rank {
        let has_asked = self.has_asked.load(Ordering::Relaxed);
        Rank {
            is_served: !self.is_at_rest(),
            is_new: !has_asked && now - self.accepted < ARRIVAL,
            waits: !self.is_idle(),
            owes: self.unsent.load(Ordering::Relaxed) > 0,
            has_asked,
            since: self.since(),
        }
    }

    /// Subtracts up to `bytes` from the unsent bytes. Returns the number of subtracted bytes.
    fn count_off(&self, bytes: usize) -> usize {
        let less = |unsent: usize| (unsent > 0).then(|| unsent.saturating_sub(bytes));
        let before = self
            .unsent
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let counted = bytes.min(before.unwrap_or(0));
        self.shared.unsent.fetch_sub(counted, Ordering::Relaxed);
        counted
    }
}

/// The shared state of all connections of a port.
#[derive(Debug)]
struct Shared {
    events: AtomicU64,
    unsent: AtomicUsize,
    most_unsent: usize,
    /// Notified if too many bytes are unsent.
    over_limit: Notify,
}

/// All connections of a port.
pub(super) struct Held {
    places: usize,
    connections: Vec<(AbortHandle, Arc<Activity>)>,
    /// The connections that are closed next, in reverse order.
    losers: Vec<Loser>,
    /// The time of the search that found them.
    searched: Instant,
    shared: Arc<Shared>,
}

/// A connection that is closed next, unless its place or its activity has changed.
struct Loser {
    candidate: Candidate,
    activity: Arc<Activity>,
}

/// A connection of a client.
#[derive(Clone, Debug)]
pub(crate) struct ClientConnection(Arc<Activity>);

impl ClientConnection {
    /// The address of the client; `None` if the network has no addresses.
    #[must_use]
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.0.address
    }

    /// Returns whether the connection has a reserved place, because it arrived while no other
    /// connection could be closed. It serves a single request.
    #[must_use]
    pub(crate) fn is_reserved(&self) -> bool {
        self.0.is_reserved
    }

    /// Returns whether the client's address had no other connection when this one arrived. Recorded
    /// only for connections in reserved places.
    #[must_use]
    pub(crate) fn is_first(&self) -> bool {
        self.0.is_first
    }

    /// Charges the connection to the tenant of its latest request.
    pub(crate) fn charge(&self, tenant: Tenant) {
        let bits = tenant.to_bits();
        if self.0.tenant.load(Ordering::Relaxed) != bits && !is_out!(ConnectionsCharged) {
            self.0.tenant.store(bits, Ordering::Relaxed);
        }
    }

    /// Returns whether no request is being answered.
    pub(super) fn is_idle(&self) -> bool {
        self.0.is_idle()
    }

    fn event(&self) {
        let event = self.0.shared.events.fetch_add(1, Ordering::Relaxed);
        self.0.since.store(event, Ordering::Relaxed);
    }

    /// Counts a request as being answered until the result is dropped.
    pub(crate) fn begin(&self) -> Answering {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.0.has_asked.store(true, Ordering::Relaxed);
        self.0.has_waited.store(false, Ordering::Relaxed);
        self.event();
        Answering(self.clone())
    }

    /// Records that the current request waits because the client requested the wait.
    pub(crate) fn note_wait(&self) {
        self.0.has_waited.store(true, Ordering::Relaxed);
    }

    /// Returns whether the latest request waited because the client requested the wait.
    #[must_use]
    pub(crate) fn has_waited(&self) -> bool {
        self.0.has_waited.load(Ordering::Relaxed)
    }

    /// Allows the connection to be closed in favour of others while the request waits.
    #[must_use]
    pub(crate) fn pause(&self) -> Pause {
        self.0.pauses.fetch_add(1, Ordering::Relaxed);
        Pause(self.clone())
    }

    /// Adds bytes of a response to the unsent bytes.
    pub(super) fn gave(&self, bytes: usize) {
        let shared = &self.0.shared;
        // In this order, so that the sum always includes the bytes of each connection.
        let before = shared.unsent.fetch_add(bytes, Ordering::Relaxed);
        self.0.unsent.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > shared.most_unsent {
            shared.over_limit.notify_one();
        }
    }

    /// Subtracts sent bytes. They include the heads of responses, which were not added.
    pub(super) fn sent(&self, bytes: usize) {
        if self.0.count_off(bytes) > 0 {
            self.event();
        }
    }

    /// Records that the connection has ended.
    pub(super) fn left(&self) {
        self.sent(usize::MAX);
    }
}

/// Marks a request that waits for an action of its own client or of another one: for the rest of
/// its body, or for the grant of a lock. Meanwhile, its connection may be closed in favour of
/// others.
#[derive(Debug)]
pub(crate) struct Pause(ClientConnection);

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.0.pauses.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a request while it is answered.
#[must_use]
pub(crate) struct Answering(ClientConnection);

impl Answering {
    /// Attaches the body of the response. The request counts as being answered until the body ends.
    /// A complete body counts as unsent at once. A streamed body, or one of unknown length, counts
    /// piece by piece.
    pub(super) fn with<B: Body>(self, body: B, is_streamed: bool) -> Answer<B> {
        let exact = body.size_hint().exact().filter(|_| !is_streamed);
        if let Some(bytes) = exact {
            self.0.gave(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        Answer {
            body,
            is_counted: exact.is_some(),
            answering: self,
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) struct Answer<B> {
    body: B,
    is_counted: bool,
    answering: Answering,
}

impl<B: Body + Unpin> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
            && !self.is_counted
        {
            self.answering.0.gave(data.remaining());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Held {
    /// The connections of a port with at most `most` of them, at least two, and at most
    /// `most_unsent` unsent bytes of responses.
    pub(super) fn new(most: usize, most_unsent: usize) -> Self {
        let shared = Shared {
            events: AtomicU64::new(0),
            unsent: AtomicUsize::new(0),
            most_unsent,
            over_limit: Notify::new(),
        };
        Self {
            places: most - (most / RESERVED).max(1),
            connections: Vec::new(),
            losers: Vec::new(),
            searched: Instant::now(),
            shared: Arc::new(shared),
        }
    }

    /// A connection from this address. It is not added yet.
    pub(super) fn connection(
        &self,
        address: Option<IpAddr>,
        is_reserved: bool,
    ) -> ClientConnection {
        let tenant = address.map_or(Tenant::OPERATOR, Tenant::of_address);
        let connection = ClientConnection(Arc::new(Activity {
            address,
            is_reserved,
            is_first: is_reserved && self.is_first(address),
            accepted: Instant::now(),
            tenant: AtomicU64::new(tenant.to_bits()),
            requests: AtomicUsize::new(0),
            pauses: AtomicUsize::new(0),
            has_asked: AtomicBool::new(false),
            has_waited: AtomicBool::new(false),
            since: AtomicU64::new(0),
            unsent: AtomicUsize::new(0),
            shared: Arc::clone(&self.shared),
        }));
        connection.event();
        connection
    }

    /// Makes a place for another connection. If all places are taken, one connection is closed (see
    /// [`losers`]). Returns `false` if none can be closed; the new one then gets a reserved place.
    pub(super) fn make_place(&mut self) -> bool {
        if self.connections.len() < self.places || self.close_next() {
            return true;
        }
        self.connections.retain(|(task, _)| !task.is_finished());
        if self.connections.len() < self.places {
            return true;
        }
        self.search();
        self.close_next()
    }

    /// Searches for the connections that are closed next. Finds several, because a search for each
    /// new connection of a flood would occupy a core.
    fn search(&mut self) {
        let now = Instant::now();
        let all = self.connections.iter().enumerate();
        let candidates = all.map(|(at, (_, one))| {
            let rank = one.rank(now);
            (one.tenant(), Candidate { rank, at })
        });
        let several = (self.places / RESERVED).max(1);
        let found = losers(candidates, several).into_iter().rev();
        self.losers = found
            .map(|candidate| Loser {
                candidate,
                activity: Arc::clone(&self.connections[candidate.at].1),
            })
            .collect();
        self.searched = now;
    }

    /// Closes the next connection that the latest search found. Returns `false` if none remains, or
    /// the search was too long ago.
    fn close_next(&mut self) -> bool {
        if self.searched.elapsed() > SEARCH_AGE {
            self.losers.clear();
        }
        while let Some(Loser {
            candidate,
            activity,
        }) = self.losers.pop()
        {
            let Candidate { rank, at } = candidate;
            let connection = self.connections.get(at);
            let is_in_place = connection.is_some_and(|(_, one)| Arc::ptr_eq(one, &activity));
            let is_unchanged =
                activity.since() == rank.since && activity.is_at_rest() != rank.is_served;
            if is_in_place && is_unchanged {
                self.connections.swap_remove(at).0.abort();
                return true;
            }
        }
        false
    }

    /// Returns whether no connection comes from this address.
    fn is_first(&self, address: Option<IpAddr>) -> bool {
        let others = self.connections.iter();
        others
            .filter(|(task, _)| !task.is_finished())
            .all(|(_, one)| one.address != address)
    }

    /// Adds a connection.
    pub(super) fn add(&mut self, task: AbortHandle, connection: &ClientConnection) {
        self.connections.push((task, Arc::clone(&connection.0)));
    }

    /// Waits until too many bytes are unsent. May be dropped while it waits.
    pub(super) async fn too_much(&self) {
        self.shared.over_limit.notified().await;
    }

    /// Closes connections until the unsent bytes are within their limit: each time, of the tenant
    /// with the most unsent bytes, the connection that has received nothing for longest. The
    /// operator's connections are last.
    pub(super) fn relieve(&mut self) {
        while self.shared.unsent.load(Ordering::Relaxed) > self.shared.most_unsent {
            let Some(at) = self.owes_most() else {
                return;
            };
            let (connection, one) = self.connections.swap_remove(at);
            // The connection's task ends later. Until then, its bytes must not cause other
            // connections to be closed.
            one.count_off(usize::MAX);
            connection.abort();
        }
    }

    fn owes_most(&self) -> Option<usize> {
        let owing = self.connections.iter().enumerate();
        let owing: Vec<_> = owing
            .map(|(at, (_, one))| (at, one, one.unsent.load(Ordering::Relaxed)))
            .filter(|(.., unsent)| *unsent > 0)
            .collect();
        let mut by_tenant: HashMap<Tenant, usize> = HashMap::new();
        for (_, one, unsent) in &owing {
            *by_tenant.entry(one.tenant()).or_default() += unsent;
        }
        let rank = |one: &Activity| {
            let tenant = one.tenant();
            let owes = by_tenant.get(&tenant).copied().unwrap_or(0);
            let since = Reverse(one.since.load(Ordering::Relaxed));
            (tenant != Tenant::OPERATOR, owes, tenant, since)
        };
        let first = owing.iter().max_by_key(|(_, one, _)| rank(one));
        first.map(|(at, ..)| *at)
    }
}
