//! The Redis protocol: counters are sequences, and `SET NX PX` acquires a lock.
//!
//! [`request`] and [`reply`] read and write the protocol. [`commands`] is the table of commands.
//! [`counters`], [`keys`], [`locks`] and [`scripting`] implement them on the services, and
//! [`server`] implements the commands about the server itself. [`scripts`] recognises the scripts
//! of lock libraries by their normal form ([`lua`]). [`redisson`] and [`subscriptions`] implement
//! Redisson's locks.

mod channels;
mod commands;
mod connection;
mod counters;
mod errors;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod keys;
mod locks;
mod lua;
mod redisson;
mod redisson_scripts;
mod reply;
mod request;
mod scripting;
mod scripts;
mod server;
mod subscriptions;

use std::io;
use std::sync::Arc;

use seqd_net::Listen;

use super::Protocol;
use crate::connections::{Bounds, Port};
use scripts::Remembered;

/// The reply to a client without TLS.
pub(super) const WITHOUT_TLS: &str = "-ERR this port requires TLS\r\n";

/// Serves the protocol on a listener.
///
/// # Errors
/// The operating system refuses the listener.
pub(super) fn start(listener: Box<dyn Listen>, protocol: Arc<Protocol>) -> io::Result<Port> {
    let scripts = Arc::new(Remembered::default());
    let bounds = (Bounds::POOLED, None);
    Port::start(listener, bounds, move |stream, client, stopping| {
        let shared = (Arc::clone(&protocol), Arc::clone(&scripts));
        connection::serve(stream, client, shared, stopping)
    })
}
