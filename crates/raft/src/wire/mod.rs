//! What nodes send to each other, and how it travels.
//!
//! - what is sent: [`messages`], as bytes [`sealed`], under the numbers in [`route`]
//! - what a call is, whatever carries it: [`transport`], and at the receiver [`incoming`]
//! - the bytes on a connection: [`frame`], written by [`writer`] within a [`window`]
//! - sending: [`dialer`], with a [`connection`] for each peer and link, and its [`calls`]
//! - receiving: [`server`], which keeps [`places`] and [`serving`] each connection

mod calls;
mod connection;
pub(crate) mod dialer;
mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub(crate) mod incoming;
pub(crate) mod messages;
mod places;
pub(crate) mod route;
pub(crate) mod sealed;
pub(crate) mod server;
mod serving;
#[cfg(test)]
mod tests;
pub(crate) mod transport;
mod window;
mod writer;
