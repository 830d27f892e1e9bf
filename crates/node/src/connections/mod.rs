//! HTTP/1 on the connections of the clients' port, below the requests.
//!
//! [`serve`] serves each connection. [`hot`] reads the most frequent requests itself, with
//! [`head`]; [`handed`] leaves all others to hyper. Both have them answered by [`exchange`].
//! [`held`] closes connections if there are too many of them or too many unsent bytes of responses,
//! [`paced`] closes stalled connections, and [`limits`] defines the limits.

mod exchange;
mod handed;
mod head;
mod held;
mod hot;
mod limits;
mod paced;
mod serve;

pub(crate) use exchange::{Answered, ClientConnection, Received, Streamed};
pub(crate) use head::IsHot;
pub(crate) use held::Pause;
pub(crate) use limits::{HttpLimits, Unreadable};
pub(crate) use serve::serve;
