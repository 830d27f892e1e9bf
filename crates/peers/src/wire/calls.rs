//! The calls that one connection has sent or is about to send.
//!
//! Invariants:
//! - A call is `Unsent` only if none of its bytes was passed to the operating system. Once its
//!   first frame is queued, it ends as `NoAnswer`, `Broken`, `Rejected` or with its response.
//! - The bytes that a call has taken from the window return with credit or with the end of the
//!   call.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use seqd_net::Lock;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::frame::{Frame, Part, VERSION};
use super::transport::{CallError, Limit, MESSAGE_BYTES, Rejection};
use super::window::SendWindow;

/// A connection accepts no more calls after a call was abandoned and nothing has arrived for this
/// long. A slow response still arrives within this time, and a lost segment is retransmitted within
/// it.
const SILENCE: Duration = Duration::from_millis(800);

type Reply = oneshot::Sender<Result<Bytes, CallError>>;
pub(super) type Waiting = oneshot::Receiver<Result<Bytes, CallError>>;

/// The end of a connection.
pub(super) enum Ended {
    /// The peer has certainly processed no call of this connection.
    Unused(CallError),
    /// The connection broke. The number of accepted bytes determines which calls were sent before.
    Broken(String),
}

impl Ended {
    /// Returns the error of a call whose first frame, if it was queued, has this position, on a
    /// connection of which the operating system has accepted `accepted` bytes.
    fn of_call(&self, position: Option<u64>, accepted: u64) -> CallError {
        let is_sent = position.is_some_and(|position| accepted > position);
        match self {
            Self::Unused(error) => error.clone(),
            Self::Broken(why) if is_sent => CallError::Broken(why.clone()),
            Self::Broken(why) => CallError::Unsent(why.clone()),
        }
    }
}

pub(super) struct Calls {
    inner: Lock<Inner>,
    pub(super) window: SendWindow,
    /// The number of received response bytes that are returned together.
    credit_step: u64,
}

struct Inner {
    calls: BTreeMap<u64, Call>,
    last: u64,
    /// Received response bytes that are not returned yet.
    owed: u64,
    is_connected: bool,
    /// `true` if the peer has responded to the opening.
    is_open: bool,
    /// The connection accepts no more calls. Calls in flight may still receive a response.
    is_retired: bool,
    /// The error of a call that begins after the connection has ended.
    ended: Option<CallError>,
    was_used: bool,
    last_frame: Instant,
    /// The time since which at least one call has been open.
    busy_since: Instant,
}

struct Call {
    /// `None` once the caller no longer waits.
    reply: Option<Reply>,
    /// The position of the call's first frame, once that is queued.
    position: Option<u64>,
    answer: BytesMut,
    unreturned: u64,
    has_parts: bool,
    is_whole: bool,
    touched: Instant,
    _place: OwnedSemaphorePermit,
}

impl Call {
    /// The deadline of the call.
    fn deadline(&self, began: Instant, limit: Limit) -> Instant {
        match limit {
            Limit::Total(total) => began + total,
            Limit::Progress { moving, answer } => {
                let is_taken = self.is_whole && (!self.has_parts || self.unreturned == 0);
                self.touched + if is_taken { answer } else { moving }
            }
        }
    }

    fn end(self, result: Result<Bytes, CallError>) {
        if let Some(reply) = self.reply {
            let _ = reply.send(result);
        }
    }
}

impl Calls {
    pub(super) fn new(window: u32) -> Self {
        let now = Instant::now();
        let inner = Inner {
            calls: BTreeMap::new(),
            last: 0,
            owed: 0,
            is_connected: false,
            is_open: false,
            is_retired: false,
            ended: None,
            was_used: false,
            last_frame: now,
            busy_since: now,
        };
        Self {
            inner: Lock::new(inner),
            window: SendWindow::new(window),
            credit_step: u64::from(window / 4),
        }
    }

    /// Returns whether new calls may use the connection.
    pub(super) fn takes_calls(&self) -> bool {
        let inner = self.inner.lock();
        !inner.is_retired && inner.ended.is_none()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.inner.lock().ended.is_some()
    }

    pub(super) fn connected(&self) {
        self.inner.lock().is_connected = true;
    }

    pub(super) fn is_connected(&self) -> bool {
        self.inner.lock().is_connected
    }

    /// Begins a call. If the connection has ended, the error is the reason, and nothing was sent.
    pub(super) fn begin(&self, place: OwnedSemaphorePermit) -> Result<(u64, Waiting), CallError> {
        let (reply, waiting) = oneshot::channel();
        let now = Instant::now();
        let mut inner = self.inner.lock();
        if let Some(why) = &inner.ended {
            return Err(why.clone());
        }
        if inner.calls.is_empty() {
            inner.busy_since = now;
        }
        inner.was_used = true;
        inner.last += 1;
        let number = inner.last;
        let call = Call {
            reply: Some(reply),
            position: None,
            answer: BytesMut::new(),
            unreturned: 0,
            has_parts: false,
            is_whole: false,
            touched: now,
            _place: place,
        };
        inner.calls.insert(number, call);
        Ok((number, waiting))
    }

    /// Returns whether a part of a call is still to be sent. If so, its position is `position`.
    pub(super) fn sends(&self, call: u64, part: &Part, position: u64) -> bool {
        let mut inner = self.inner.lock();
        let Some(call) = inner
            .calls
            .get_mut(&call)
            .filter(|call| call.reply.is_some())
        else {
            return false;
        };
        call.has_parts |= call.position.is_some() || !part.is_last;
        call.position.get_or_insert(position);
        call.is_whole = part.is_last;
        call.unreturned += u64::from(part.cost());
        call.touched = Instant::now();
        true
    }

    /// Returns the current deadline of a call, or `None` if it has ended.
    pub(super) fn deadline(&self, call: u64, began: Instant, limit: Limit) -> Option<Instant> {
        let inner = self.inner.lock();
        let call = inner.calls.get(&call)?;
        Some(call.deadline(began, limit))
    }

    /// Abandons a call for which its caller no longer waits. Returns whether the peer may have
    /// received part of it and must receive a cancellation, or `None` if the call has ended.
    pub(super) fn give_up(&self, number: u64) -> Option<bool> {
        let now = Instant::now();
        let mut inner = self.inner.lock();
        let silent_since = inner.last_frame.max(inner.busy_since);
        let call = inner.calls.get_mut(&number)?;
        call.reply = None;
        let was_sent = call.position.is_some();
        if !was_sent {
            inner.calls.remove(&number);
        }
        if now.duration_since(silent_since) >= SILENCE {
            inner.is_retired = true;
        }
        Some(was_sent)
    }

    /// Accepts no more calls. The connection ends with the calls in flight.
    pub(super) fn retire(&self) {
        self.inner.lock().is_retired = true;
    }

    /// Ends a call whose stream failed. Returns whether the peer must receive a cancellation.
    pub(super) fn fail(&self, number: u64, why: String) -> bool {
        let mut inner = self.inner.lock();
        let Some(call) = inner.calls.get_mut(&number) else {
            return false;
        };
        let was_sent = call.position.is_some();
        let error = if was_sent {
            CallError::Broken(why)
        } else {
            CallError::Unsent(why)
        };
        if let Some(reply) = call.reply.take() {
            let _ = reply.send(Err(error));
        }
        if !was_sent {
            inner.calls.remove(&number);
        }
        was_sent
    }

    /// Handles a received frame and returns the frame to send in response. An error ends the
    /// connection.
    pub(super) fn arrived(&self, frame: Frame) -> Result<Option<Frame>, Ended> {
        let mut inner = self.inner.lock();
        let now = Instant::now();
        inner.last_frame = now;
        if !inner.is_open {
            return match frame {
                Frame::Opening { version, .. } if version == VERSION => {
                    inner.is_open = true;
                    Ok(None)
                }
                Frame::Rejection { call: 0, text } => {
                    Err(Ended::Unused(Rejection::parse(&text).into()))
                }
                _ => Err(broken("the peer did not open the connection")),
            };
        }
        match frame {
            Frame::Answer { call, part } => Ok(self.answered(&mut inner, call, part)),
            Frame::Rejection { call, text } if call > 0 => {
                if let Some(call) = inner.calls.remove(&call) {
                    self.window.give(call.unreturned);
                    call.end(Err(Rejection::parse(&text).into()));
                }
                Ok(None)
            }
            Frame::Credit { call, bytes } => {
                let bytes = u64::from(bytes);
                // A call that has ended has returned all of its bytes.
                let Some(call) = inner.calls.get_mut(&call) else {
                    return Ok(None);
                };
                call.touched = now;
                match call.unreturned.checked_sub(bytes) {
                    Some(left) => call.unreturned = left,
                    None => return Err(broken("the peer returns more than it was sent")),
                }
                self.window.give(bytes);
                Ok(None)
            }
            _ => Err(broken("the peer sent a frame that only a caller sends")),
        }
    }

    fn answered(&self, inner: &mut Inner, number: u64, part: Part) -> Option<Frame> {
        inner.owed += u64::from(part.cost());
        if let Some(call) = inner.calls.get_mut(&number) {
            call.touched = Instant::now();
            if call.reply.is_some() && call.answer.len() + part.bytes.len() > MESSAGE_BYTES {
                let why = "the response is larger than the maximum of a message".to_owned();
                if let Some(reply) = call.reply.take() {
                    let _ = reply.send(Err(CallError::Broken(why)));
                }
                call.answer = BytesMut::new();
            }
            let is_kept = call.reply.is_some() && !(part.is_last && call.answer.is_empty());
            if is_kept {
                call.answer.extend_from_slice(&part.bytes);
            }
            if part.is_last
                && let Some(mut call) = inner.calls.remove(&number)
            {
                self.window.give(call.unreturned);
                let answer = if is_kept {
                    std::mem::take(&mut call.answer).freeze()
                } else {
                    part.bytes
                };
                call.end(Ok(answer));
            }
        }
        if inner.owed < self.credit_step {
            return None;
        }
        let bytes = u32::try_from(std::mem::take(&mut inner.owed)).unwrap_or(u32::MAX);
        Some(Frame::Credit { call: 0, bytes })
    }

    /// Ends the connection if no call has used it since the last check.
    pub(super) fn end_if_idle(&self) -> bool {
        let mut inner = self.inner.lock();
        let is_idle = inner.calls.is_empty() && !inner.was_used;
        inner.was_used = false;
        if is_idle {
            inner.ended = Some(CallError::Unsent("the connection was idle".to_owned()));
        }
        is_idle
    }

    /// Ends all calls of a connection of which the operating system has accepted `accepted` bytes.
    pub(super) fn end(&self, ended: &Ended, accepted: u64) {
        let mut inner = self.inner.lock();
        inner.ended = Some(ended.of_call(None, accepted));
        let calls = std::mem::take(&mut inner.calls);
        drop(inner);
        for (_, call) in calls {
            let error = ended.of_call(call.position, accepted);
            call.end(Err(error));
        }
    }
}

fn broken(why: &str) -> Ended {
    Ended::Broken(why.to_owned())
}
