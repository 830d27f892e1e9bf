//! HTTP/1 on the connections of the clients' port, below the requests.
//!
//! [`serve`] answers the requests of each connection. [`held`] closes connections if there are too
//! many of them or too many bytes of answers are unsent, [`paced`] closes those that stand still,
//! and [`limits`] has the bounds.

mod held;
mod limits;
mod paced;
mod serve;

pub(crate) use held::Pause;
pub(crate) use limits::{HttpLimits, Unreadable};
pub(crate) use serve::{Answered, ClientConnection, Streamed, serve};
