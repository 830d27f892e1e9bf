//! The connections of a node's ports for clients, below the requests.
//!
//! [`port`] accepts connections. [`held`] closes some if there are too many of them or too many
//! unsent bytes of responses, [`paced`] closes stalled ones, and [`limits`] defines the limits.
//! [`buffered`] reads and writes for protocols that need no library.
//!
//! [`serve`] implements HTTP/1: [`hot`] reads the most frequent requests itself, with [`head`], and
//! [`handed`] passes all others to hyper. [`exchange`] answers all of them. [`arriving`] is the
//! body of a hot request that arrives slowly.

mod arriving;
mod buffered;
mod exchange;
mod handed;
mod head;
mod held;
mod hot;
mod limits;
mod paced;
mod port;
mod serve;

pub(crate) use buffered::{Buffered, Filled, REST_WAIT};
pub(crate) use exchange::{Answered, Received, Streamed};
pub(crate) use head::IsHot;
pub(crate) use held::{ClientConnection, Pause};
pub(crate) use limits::{Bounds, HttpLimits, Unreadable};
pub(crate) use paced::Paced;
pub(crate) use port::{Port, Stopping};
pub(crate) use serve::serve_http;
