//! What nodes send to each other, and how it travels.
//!
//! - what is sent: [`messages`], as bytes [`sealed`], under the names in [`paths`]
//! - sending: [`transport`], and its one implementation, [`http_transport`]
//! - receiving: [`http_server`]

pub(crate) mod http_server;
pub(crate) mod http_transport;
pub(crate) mod messages;
pub(crate) mod paths;
pub(crate) mod sealed;
pub(crate) mod transport;
