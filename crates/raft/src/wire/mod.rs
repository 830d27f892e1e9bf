//! What nodes say to each other, and how it travels.
//!
//! - who speaks: [`hello`]
//! - what is said: [`messages`], under the names in [`paths`]
//! - sending: [`transport`], and [`network`], which is openraft's
//! - receiving: [`peer_server`]

pub(crate) mod hello;
pub(crate) mod messages;
pub(crate) mod network;
pub(crate) mod paths;
pub(crate) mod peer_server;
pub(crate) mod transport;
