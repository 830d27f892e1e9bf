//! Closes connections of the clients' port if there are too many of them, or too many unsent bytes
//! of responses.
//!
//! A connection is charged to its address, or to the token of its latest request when that is
//! known. If there are too many connections, the tenant with the most connections at rest loses
//! some. If too many bytes are unsent, the tenant with the most unsent bytes loses connections.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Buf;
use hyper::body::{Body, Frame, SizeHint};
use seqd_guards::is_out;
use seqd_state::Tenant;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// One place in this many is reserved for connections that arrive while no other connection can be
/// closed.
const RESERVED: usize = 64;

/// A tenant with fewer connections than this loses none with a request in service. Connection pools
/// of the usual size have fewer.
const FEW: usize = 16;

/// The activity of a connection.
#[derive(Debug)]
struct Activity {
    from: Option<IpAddr>,
    /// The tenant to which the connection is charged, as a number.
    tenant: AtomicU64,
    /// Requests that are being answered.
    requests: AtomicUsize,
    /// The requests among them that wait for an action of another client.
    pauses: AtomicUsize,
    has_asked: AtomicBool,
    /// True if its latest request waited because the client wished so.
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

/// The order in which the connections of a tenant are closed.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_served: bool,
    waits: bool,
    owes: bool,
    has_asked: bool,
    since: u64,
}

/// The connections of a tenant.
struct Load {
    count: usize,
    /// The connections at rest.
    at_rest: usize,
    /// The earliest `since` of the connections at rest.
    oldest: u64,
}

/// The shared state of all connections of a port.
#[derive(Debug)]
struct Shared {
    events: AtomicU64,
    unsent: AtomicUsize,
    most_unsent: usize,
    /// Notified if too many bytes are unsent.
    is_too_much: Notify,
}

/// All connections of a port.
pub(super) struct Held {
    places: usize,
    connections: Vec<(AbortHandle, Arc<Activity>)>,
    shared: Arc<Shared>,
}

/// The part of one connection in [`Held`].
#[derive(Clone, Debug)]
pub(super) struct Entry(Arc<Activity>);

impl Entry {
    pub(super) fn from(&self) -> Option<IpAddr> {
        self.0.from
    }

    /// Charges the connection to another tenant.
    pub(super) fn charge(&self, tenant: Tenant) {
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

    pub(super) fn begin(&self) -> Answering {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.0.has_asked.store(true, Ordering::Relaxed);
        self.0.has_waited.store(false, Ordering::Relaxed);
        self.event();
        Answering(self.clone())
    }

    pub(super) fn note_wait(&self) {
        self.0.has_waited.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_waited(&self) -> bool {
        self.0.has_waited.load(Ordering::Relaxed)
    }

    pub(super) fn pause(&self) -> Pause {
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
            shared.is_too_much.notify_one();
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

/// Marks a request that waits for an action of its own or another client: the rest of its body, or
/// the grant of a lock. Meanwhile, its connection may be closed in favour of others.
#[derive(Debug)]
pub(crate) struct Pause(Entry);

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.0.pauses.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a request while it is answered.
#[must_use]
pub(crate) struct Answering(Entry);

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
            is_too_much: Notify::new(),
        };
        Self {
            places: most - (most / RESERVED).max(1),
            connections: Vec::new(),
            shared: Arc::new(shared),
        }
    }

    /// The entry of a connection from this address. It is not added yet.
    pub(super) fn entry(&self, from: Option<IpAddr>) -> Entry {
        let tenant = from.map_or(Tenant::OPERATOR, Tenant::of_address);
        let entry = Entry(Arc::new(Activity {
            from,
            tenant: AtomicU64::new(tenant.to_bits()),
            requests: AtomicUsize::new(0),
            pauses: AtomicUsize::new(0),
            has_asked: AtomicBool::new(false),
            has_waited: AtomicBool::new(false),
            since: AtomicU64::new(0),
            unsent: AtomicUsize::new(0),
            shared: Arc::clone(&self.shared),
        }));
        entry.event();
        entry
    }

    /// Makes a place for another connection. If all places are taken, some connections of one
    /// tenant are closed (see [`Held::tenant_that_loses`]): first connections without a request,
    /// beginning with those that have no unsent bytes and never had a request; then connections
    /// whose requests wait; finally connections with a request in service, if the tenant has more
    /// than a few. Among equal connections, the one with the earliest event is closed first.
    /// Returns `false` if no connection can be closed; the new one then gets a reserved place.
    pub(super) fn make_place(&mut self) -> bool {
        if self.connections.len() < self.places {
            return true;
        }
        self.connections.retain(|(task, _)| !task.is_finished());
        if self.connections.len() < self.places {
            return true;
        }
        let Some((tenant, more)) = self.tenant_that_loses() else {
            return false;
        };
        let own = self.connections.iter().enumerate();
        let own = own.filter(|(_, (_, one))| one.tenant() == tenant);
        let mut own: Vec<(Rank, usize)> = own
            .map(|(at, (_, one))| {
                let rank = Rank {
                    is_served: !one.is_at_rest(),
                    waits: !one.is_idle(),
                    owes: one.unsent.load(Ordering::Relaxed) > 0,
                    has_asked: one.has_asked.load(Ordering::Relaxed),
                    since: one.since.load(Ordering::Relaxed),
                };
                (rank, at)
            })
            .collect();
        own.sort_unstable();
        // Closes several at once, because a search through all connections for each new connection
        // of a flood would occupy a core. Connections with a request in service are closed one at a
        // time.
        let some = (self.places / RESERVED).clamp(1, more);
        let at_rest = own.iter().filter(|(rank, _)| !rank.is_served).count();
        own.truncate(some.min(at_rest.max(1)));
        let mut ended: Vec<usize> = own.into_iter().map(|(_, at)| at).collect();
        ended.sort_unstable();
        for at in ended.into_iter().rev() {
            let (connection, _) = self.connections.swap_remove(at);
            connection.abort();
        }
        true
    }

    /// The tenant that loses connections, and their number: its surplus of connections at rest over
    /// the next tenant, at least one.
    ///
    /// The tenant with the most connections at rest loses some of these. A tenant with less than
    /// half as many connections as the largest tenant loses none to it, unless the connections at
    /// rest of all tenants together are as many as those of the largest. Connections at rest then
    /// fill the port, whatever their addresses, and no connection with a request in service is
    /// closed for them. If no tenant can lose a connection at rest, the tenant with the most
    /// connections loses one with a request in service.
    fn tenant_that_loses(&self) -> Option<(Tenant, usize)> {
        let of_tenant = self.loads();
        let clients = of_tenant.iter();
        let clients = clients.filter(|(tenant, _)| **tenant != Tenant::OPERATOR);
        let (most, resting) = clients.fold((0, 0), |(most, resting), (_, load)| {
            (load.count.max(most), load.at_rest + resting)
        });
        let mut may_lose = Vec::new();
        let mut largest = None;
        for (tenant, load) in of_tenant {
            // The operator's connections are closed only if there are no others.
            let is_client = tenant != Tenant::OPERATOR;
            let count = if is_client { load.count } else { 0 };
            let (at_rest, since) = (load.at_rest, Reverse(load.oldest));
            if at_rest > 0 && (2 * count >= most || most < FEW || resting >= most) {
                may_lose.push((is_client, at_rest, count, since, tenant));
            }
            largest = largest.max(Some((count, since, tenant)));
        }
        may_lose.sort_unstable();
        if let Some((_, at_rest, .., tenant)) = may_lose.pop() {
            let next = may_lose.last().map_or(0, |(_, at_rest, ..)| *at_rest);
            return Some((tenant, at_rest.saturating_sub(next).max(1)));
        }
        let (.., tenant) = largest.filter(|_| most >= FEW)?;
        Some((tenant, 1))
    }

    fn loads(&self) -> HashMap<Tenant, Load> {
        let mut of_tenant: HashMap<Tenant, Load> = HashMap::new();
        for (_, one) in &self.connections {
            let since = one.since.load(Ordering::Relaxed);
            let load = of_tenant.entry(one.tenant()).or_insert(Load {
                count: 0,
                at_rest: 0,
                oldest: since,
            });
            load.count += 1;
            load.at_rest += usize::from(one.is_at_rest());
            load.oldest = load.oldest.min(since);
        }
        of_tenant
    }

    /// Returns whether the address of a connection has no other connection.
    pub(super) fn is_first(&self, entry: &Entry) -> bool {
        let others = self.connections.iter();
        others
            .filter(|(task, _)| !task.is_finished())
            .all(|(_, one)| one.from != entry.0.from)
    }

    /// Adds a connection.
    pub(super) fn add(&mut self, connection: AbortHandle, entry: &Entry) {
        self.connections.push((connection, Arc::clone(&entry.0)));
    }

    /// Waits until too many bytes are unsent. May be dropped while it waits.
    pub(super) async fn too_much(&self) {
        self.shared.is_too_much.notified().await;
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
            // Its task ends later. Until then, its bytes must not cause other connections to be
            // closed.
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
