//! The received calls of one connection without a response yet, and their bodies.
//!
//! Invariants:
//! - The bytes of bodies stay within the window of the connection and the room of all connections.
//!   The bytes that a handler processes return to the window.
//! - A call has one end. Parts that arrive later are dropped, and count towards no window.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::future::AbortHandle;
use seqd_net::Lock;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;

use super::frame::{Frame, Part};
use super::places::ConnectionPlace;
use super::route::Route;
use super::transport::{Rejection, RejectionCode};

/// The largest number of open calls of one connection, more than any sender has in flight.
const CALLS: usize = 1024;

/// A future response in bytes, or a rejection.
pub type Replying = Pin<Box<dyn Future<Output = Result<Bytes, Rejection>> + Send>>;

/// Handles the calls of peers, independent of the transport.
pub trait Handler: Send + Sync {
    fn handle(self: Arc<Self>, route: Route, body: Body) -> Replying;
}

/// The open calls of one connection.
pub(super) struct Incoming {
    calls: Lock<IncomingCalls>,
    urgent: mpsc::Sender<Frame>,
    place: Arc<ConnectionPlace>,
    window: u64,
    emptied: Notify,
}

struct IncomingCalls {
    open: BTreeMap<u64, Open>,
    /// Bytes that arrived and are not returned yet.
    unreturned: u64,
    last_frame: Instant,
    /// `true` if the connection has stopped accepting credits.
    is_stuck: bool,
}

struct Open {
    /// `None` once the last part has arrived.
    parts: Option<mpsc::UnboundedSender<HeldPart>>,
    unreturned: u64,
    /// `true` if the call has more than one part, so that its sender waits for credit.
    has_parts: bool,
    /// `true` if a part of the call was dropped for lack of room.
    is_cut: bool,
    abort: AbortHandle,
}

/// A part, with the room and the credit that it holds until it is dropped.
struct HeldPart {
    bytes: Bytes,
    is_last: bool,
    room: OwnedSemaphorePermit,
    _credit: Credit,
}

/// Returns a part's bytes to the window when it is dropped.
struct Credit {
    incoming: Arc<Incoming>,
    call: u64,
    cost: u32,
}

impl Drop for Credit {
    fn drop(&mut self) {
        self.incoming.taken(self.call, self.cost);
    }
}

impl Incoming {
    pub(super) fn new(
        urgent: mpsc::Sender<Frame>,
        place: Arc<ConnectionPlace>,
        window: u32,
    ) -> Self {
        let calls = IncomingCalls {
            open: BTreeMap::new(),
            unreturned: 0,
            last_frame: Instant::now(),
            is_stuck: false,
        };
        Self {
            calls: Lock::new(calls),
            urgent,
            place,
            window: u64::from(window),
            emptied: Notify::new(),
        }
    }

    /// Receives the first part of a call. An error ends the connection.
    pub(super) fn begin(
        self: &Arc<Self>,
        call: u64,
        part: Part,
        abort: AbortHandle,
    ) -> io::Result<Body> {
        if call == 0 {
            return Err(io::Error::other("a call without a number"));
        }
        let (sender, parts) = mpsc::unbounded_channel();
        let open = Open {
            parts: Some(sender),
            unreturned: 0,
            has_parts: !part.is_last,
            is_cut: false,
            abort,
        };
        {
            let mut calls = self.calls.lock();
            if calls.open.len() >= CALLS {
                return Err(io::Error::other("too many calls at once"));
            }
            match calls.open.entry(call) {
                Slot::Vacant(slot) => slot.insert(open),
                Slot::Occupied(_) => return Err(io::Error::other("two calls of one number")),
            };
        }
        self.part(call, part)?;
        Ok(Body {
            parts,
            first: None,
            is_whole: false,
            place: Arc::clone(&self.place),
        })
    }

    /// Receives a part of a call. An error ends the connection.
    pub(super) fn part(self: &Arc<Self>, call: u64, part: Part) -> io::Result<()> {
        let cost = part.cost();
        let mut calls = self.calls.lock();
        calls.last_frame = Instant::now();
        if calls.is_stuck {
            return Err(io::Error::other("the peer does not read credits"));
        }
        let unreturned = calls.unreturned + u64::from(cost);
        let Some(open) = calls.open.get_mut(&call).filter(|open| !open.is_cut) else {
            return Ok(());
        };
        let Some(sender) = &open.parts else {
            return Err(io::Error::other("a part after the last one of a call"));
        };
        if unreturned > self.window {
            return Err(io::Error::other("more bytes than the window allows"));
        }
        let Some(room) = self.place.room(cost) else {
            // The handler has not received the whole call and does not process it.
            open.is_cut = true;
            open.abort.abort();
            return Ok(());
        };
        let _credit = Credit {
            incoming: Arc::clone(self),
            call,
            cost,
        };
        let bytes = if self.place.is_member() {
            part.bytes
        } else {
            // Copied, because a few bytes would keep the whole read buffer alive.
            Bytes::copy_from_slice(&part.bytes)
        };
        let held = HeldPart {
            bytes,
            is_last: part.is_last,
            room,
            _credit,
        };
        open.unreturned += u64::from(cost);
        // A handler that has ended accepts no more parts.
        let dropped = sender.send(held).err();
        if part.is_last {
            open.parts = None;
        }
        calls.unreturned = unreturned;
        drop(calls);
        drop(dropped);
        Ok(())
    }

    fn taken(&self, call: u64, cost: u32) {
        let mut calls = self.calls.lock();
        let Some(open) = calls.open.get_mut(&call).filter(|open| open.has_parts) else {
            return;
        };
        open.unreturned = open.unreturned.saturating_sub(u64::from(cost));
        calls.unreturned = calls.unreturned.saturating_sub(u64::from(cost));
        self.place.freed();
        let credit = Frame::Credit { call, bytes: cost };
        if self.urgent.try_send(credit).is_err() {
            calls.is_stuck = true;
        }
    }

    /// Ends a call for which its sender no longer waits.
    pub(super) fn cancel(&self, call: u64) {
        let calls = self.calls.lock();
        if let Some(open) = calls.open.get(&call) {
            open.abort.abort();
        }
    }

    /// Removes a call whose end was queued on the connection.
    pub(super) fn end(&self, call: u64) {
        let mut calls = self.calls.lock();
        let ended = calls.open.remove(&call);
        if let Some(open) = &ended {
            calls.unreturned = calls.unreturned.saturating_sub(open.unreturned);
        }
        calls.last_frame = Instant::now();
        self.place.freed();
        if calls.open.is_empty() {
            self.emptied.notify_one();
        }
        drop(calls);
        drop(ended);
    }

    /// Returns the number of open calls.
    pub(super) fn open(&self) -> usize {
        self.calls.lock().open.len()
    }

    /// Returns when no call is open.
    pub(super) async fn emptied(&self) {
        while !self.calls.lock().open.is_empty() {
            self.emptied.notified().await;
        }
    }

    /// Returns the time of the last call or response, or `None` while a call is open.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let calls = self.calls.lock();
        calls.open.is_empty().then_some(calls.last_frame)
    }
}

/// The body of a call, which its handler reads.
pub struct Body {
    parts: mpsc::UnboundedReceiver<HeldPart>,
    /// The first part, if it was read but not taken yet.
    first: Option<HeldPart>,
    is_whole: bool,
    place: Arc<ConnectionPlace>,
}

/// The other side of a connection, as named by its certificate. Without TLS it is not
/// authenticated.
pub struct Sender(pub(super) Arc<ConnectionPlace>);

impl Sender {
    /// Refuses a message of node `id` on a connection with another node's certificate. `name_of`
    /// returns the name of the node. It is called for the first message of a connection.
    pub fn check_id(
        &self,
        id: u64,
        name_of: impl FnOnce() -> Option<String>,
    ) -> Result<(), Rejection> {
        if self.0.certified().is_none() || self.0.is_known(id) {
            return Ok(());
        }
        let Some(name) = name_of() else {
            let why = format!("the name of node {id} is unknown here: send a hello first");
            return Err(Rejection::new(RejectionCode::Unintroduced, why));
        };
        self.check_name(&name)?;
        self.0.know(id);
        Ok(())
    }

    /// Refuses a message in the name of a node on a connection with another node's certificate.
    pub fn check_name(&self, name: &str) -> Result<(), Rejection> {
        match self.0.certified() {
            Some(certified) if certified != name => {
                let why = format!(
                    "the certificate belongs to {certified}, but the message is from {name}"
                );
                Err(Rejection::new(RejectionCode::WrongCertificate, why))
            }
            _ => Ok(()),
        }
    }

    pub fn is_certified(&self) -> bool {
        self.0.certified().is_some()
    }
}

/// A whole body. Its bytes count as held for peers until it is dropped.
pub struct Collected {
    pub bytes: Bytes,
    _rooms: Vec<OwnedSemaphorePermit>,
}

fn malformed(detail: impl Into<String>) -> Rejection {
    Rejection::new(RejectionCode::Malformed, detail)
}

impl Body {
    /// Returns the first bytes without taking them.
    pub async fn first(&mut self) -> Result<&Bytes, Rejection> {
        if self.first.is_none() {
            self.first = self.parts.recv().await;
        }
        match &self.first {
            Some(held) => Ok(&held.bytes),
            None => Err(malformed("the message was broken off")),
        }
    }

    async fn next_held(&mut self) -> Result<Option<HeldPart>, Rejection> {
        if self.is_whole {
            return Ok(None);
        }
        let held = match self.first.take() {
            Some(first) => Some(first),
            None => self.parts.recv().await,
        };
        let held = held.ok_or_else(|| malformed("the message was broken off"))?;
        self.is_whole = held.is_last;
        Ok(Some(held))
    }

    /// Returns the next bytes, or `None` after the last ones.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Rejection> {
        let held = self.next_held().await?;
        Ok(held.map(|held| held.bytes))
    }

    /// Returns all bytes, at most `limit`.
    pub async fn collect(mut self, limit: usize) -> Result<Collected, Rejection> {
        // The sender may become a member while its body arrives. Then there are two kinds of room.
        let (mut bytes, mut rooms) = (Bytes::new(), Vec::<OwnedSemaphorePermit>::new());
        let mut all = BytesMut::new();
        while let Some(held) = self.next_held().await? {
            if all.len() + held.bytes.len() > limit {
                return Err(malformed(format!("a message has at most {limit} bytes")));
            }
            if rooms.is_empty() && held.is_last {
                bytes = held.bytes;
            } else {
                all.extend_from_slice(&held.bytes);
            }
            let room = held.room;
            match rooms.last_mut() {
                Some(last) if Arc::ptr_eq(last.semaphore(), room.semaphore()) => last.merge(room),
                _ => rooms.push(room),
            }
        }
        if bytes.is_empty() {
            bytes = all.freeze();
        }
        Ok(Collected {
            bytes,
            _rooms: rooms,
        })
    }

    /// Returns the other side of the connection.
    pub fn sender(&self) -> Sender {
        Sender(Arc::clone(&self.place))
    }

    /// Records that the sender is a member: its connection moves from the places of strangers to
    /// the places of members.
    pub fn admit_sender(&self) -> Result<(), Rejection> {
        if self.place.admit() {
            return Ok(());
        }
        let why = "all connection slots for members are taken";
        Err(Rejection::new(RejectionCode::NotRunning, why))
    }
}
