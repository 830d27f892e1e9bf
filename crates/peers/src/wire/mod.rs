//! Framed connections between nodes.
//!
//! - a message as bytes: [`sealed`], after its [`envelope`], under the number of its [`route`]
//! - the messages of the handshake: [`hello`]
//! - a call, independent of its transport: [`transport`], and at the receiver [`incoming`]
//! - the bytes on a connection: [`frame`], written by `writer` within a `window`
//! - sending: [`dialer`], with a `connection` for each peer and link, and its `calls`
//! - receiving: [`server`], which manages `places` and runs `serving` for each connection

mod calls;
mod connection;
pub mod dialer;
pub mod envelope;
pub mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod hello;
pub mod incoming;
mod places;
pub mod route;
pub mod sealed;
pub mod server;
mod serving;
#[cfg(test)]
mod tests;
pub mod transport;
mod window;
mod writer;
