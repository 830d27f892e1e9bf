//! The connections of a clients' port: which of them ends where there are too many, or where too
//! much of their answers is not taken.
//!
//! A connection is charged to the address that it comes from, and to the token of its latest
//! request once that is known. Where there is no place, the tenant with most connections at rest
//! loses some; where too much of answers is not taken, the tenant that has most of it.

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

/// One place in so many is kept for a connection that comes while no other can end.
const RESERVED: usize = 64;

/// A tenant with fewer connections loses none on which a request is being served: those of a client
/// that uses a pool of the usual size.
const FEW: usize = 16;

/// What a connection does.
#[derive(Debug)]
struct Activity {
    from: Option<IpAddr>,
    /// Whom the connection is charged to, as a number.
    tenant: AtomicU64,
    /// Requests that are being answered.
    requests: AtomicUsize,
    /// Those of them that wait for something that others do.
    pauses: AtomicUsize,
    has_asked: AtomicBool,
    /// When it was accepted, its latest request began, or it took some of an answer: the place of
    /// that in the order of all such events.
    since: AtomicU64,
    /// Bytes of answers that it has not taken.
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

    /// Whether no request of it is being served, which may be interrupted without harm: all that
    /// there are wait.
    fn is_at_rest(&self) -> bool {
        let requests = self.requests.load(Ordering::Relaxed);
        let pauses = if is_out!(WaitsEvicted) {
            0
        } else {
            self.pauses.load(Ordering::Relaxed)
        };
        requests <= pauses
    }

    /// Counts up to so many bytes as no longer unsent; returns how many that were.
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

/// In which order the connections of a tenant end.
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
    /// Those of them on which no request is being served.
    at_rest: usize,
    /// The earliest `since` of them.
    oldest: u64,
}

/// What all connections of a port share.
#[derive(Debug)]
struct Shared {
    events: AtomicU64,
    unsent: AtomicUsize,
    most_unsent: usize,
    /// More is unsent than may be.
    is_too_much: Notify,
}

/// All connections of a port.
pub(super) struct Held {
    places: usize,
    connections: Vec<(AbortHandle, Arc<Activity>)>,
    shared: Arc<Shared>,
}

/// One connection's part of [`Held`].
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

    fn event(&self) {
        let event = self.0.shared.events.fetch_add(1, Ordering::Relaxed);
        self.0.since.store(event, Ordering::Relaxed);
    }

    pub(super) fn begin(&self) -> Answering {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.0.has_asked.store(true, Ordering::Relaxed);
        self.event();
        Answering(self.clone())
    }

    pub(super) fn pause(&self) -> Pause {
        self.0.pauses.fetch_add(1, Ordering::Relaxed);
        Pause(self.clone())
    }

    /// So many bytes of an answer are to be sent.
    fn gave(&self, bytes: usize) {
        let shared = &self.0.shared;
        // In this order: what is counted off the connection is among all.
        let before = shared.unsent.fetch_add(bytes, Ordering::Relaxed);
        self.0.unsent.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > shared.most_unsent {
            shared.is_too_much.notify_one();
        }
    }

    /// So many bytes were sent. Heads of answers are among them, and were not counted before.
    pub(super) fn sent(&self, bytes: usize) {
        if self.0.count_off(bytes) > 0 {
            self.event();
        }
    }

    /// The connection is over.
    pub(super) fn left(&self) {
        self.sent(usize::MAX);
    }
}

/// Marks a request that waits for something that others do: the rest of its body, or the turn of a
/// lock. Its connection may end for others meanwhile.
#[derive(Debug)]
pub(crate) struct Pause(Entry);

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.0.pauses.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a request while it is answered.
pub(super) struct Answering(Entry);

impl Answering {
    /// The body of the answer, which is being answered until its end. One that is there as a whole
    /// counts at once; one that is streamed, or of unknown length, as it comes.
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
    /// Of a port for so many connections, two at least, and so many bytes of answers that are not
    /// taken.
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

    /// The entry of a connection from this address, not among the others yet.
    pub(super) fn entry(&self, from: Option<IpAddr>) -> Entry {
        let tenant = from.map_or(Tenant::OPERATOR, Tenant::of_address);
        let entry = Entry(Arc::new(Activity {
            from,
            tenant: AtomicU64::new(tenant.to_bits()),
            requests: AtomicUsize::new(0),
            pauses: AtomicUsize::new(0),
            has_asked: AtomicBool::new(false),
            since: AtomicU64::new(0),
            unsent: AtomicUsize::new(0),
            shared: Arc::clone(&self.shared),
        }));
        entry.event();
        entry
    }

    /// Makes a place for another connection: where there is none, some of one tenant end, see
    /// [`Held::tenant_that_loses`]. First those without a request, of these first those that have
    /// taken their answers and have never asked; then those whose requests wait; at last those that
    /// are being served, if the tenant has more than a few. Of equal ones those end that have done
    /// nothing for longest. `false` where no connection can end: the new one gets a reserved place.
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
        // Several at once: to look through all of them for each connection of a flood would take a
        // core. Of those that are being served one at a time.
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

    /// The tenant that loses connections, and how many: by how many more it has at rest than the
    /// next one, one at least.
    ///
    /// First a connection at rest ends, of the tenant that has most of those. A tenant that has
    /// less than half as many connections as the largest one loses none of its own to it, unless
    /// those at rest of all tenants together are as many: then they fill the port, from however
    /// many addresses they come, and none that is served ends for them. At last the tenant with
    /// most connections loses one that is being served.
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
            // The operator's own end only where they are all that there is.
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

    /// Returns whether the address of a connection has none among the others.
    pub(super) fn is_first(&self, entry: &Entry) -> bool {
        let others = self.connections.iter();
        others
            .filter(|(task, _)| !task.is_finished())
            .all(|(_, one)| one.from != entry.0.from)
    }

    /// Takes in a connection.
    pub(super) fn add(&mut self, connection: AbortHandle, entry: &Entry) {
        self.connections.push((connection, Arc::clone(&entry.0)));
    }

    /// Waits until more is unsent than may be. May be dropped while it waits.
    pub(super) async fn too_much(&self) {
        self.shared.is_too_much.notified().await;
    }

    /// Ends connections until no more is unsent than may be: each time the one that has taken
    /// nothing for longest, of the tenant that has most to take. The operator's own are last.
    pub(super) fn relieve(&mut self) {
        while self.shared.unsent.load(Ordering::Relaxed) > self.shared.most_unsent {
            let Some(at) = self.owes_most() else {
                return;
            };
            let (connection, one) = self.connections.swap_remove(at);
            // Its task ends later, and another call is not to end others for its bytes.
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
