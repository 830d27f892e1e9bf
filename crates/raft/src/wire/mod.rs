//! What nodes send to each other, and how it travels.
//!
//! - what is sent: [`messages`], under the names in [`paths`]
//! - sending: [`transport`]
//! - accepting connections: [`acceptor`]

pub(crate) mod acceptor;
pub(crate) mod messages;
pub(crate) mod paths;
pub(crate) mod transport;
