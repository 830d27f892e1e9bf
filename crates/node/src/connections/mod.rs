//! HTTP/1 on the connections of the clients' port, below the requests.
//!
//! [`serve`] answers the requests of each connection. [`held`] closes connections if there are too
//! many of them or too many unsent bytes of responses, [`paced`] closes stalled connections, and
//! [`limits`] defines the limits.

mod held;
mod limits;
mod paced;
mod serve;

pub(crate) use held::Pause;
pub(crate) use limits::{HttpLimits, Unreadable};
pub(crate) use serve::{Answered, ClientConnection, Streamed, serve};
