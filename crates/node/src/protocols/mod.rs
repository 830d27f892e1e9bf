//! Protocols of other systems, in addition to HTTP.
//!
//! An adapter translates between the bytes of its protocol and the services, and decides nothing
//! itself. [`session`] has what all of them share: the token of a connection, the way in through
//! [`Admission`], the counters, and the memory for requests that are not complete.

pub(crate) mod memcached;
pub(crate) mod redis;
mod session;

pub(crate) use session::{Protocol, Session, incomplete};

use std::io;
use std::sync::Arc;

use crate::admission::Admission;
use crate::connections::Port;
use crate::metrics::ProtocolMetrics;
use crate::ports::ProtocolListeners;
use crate::services::Services;
use crate::tls::Tls;

/// Serves each listener.
///
/// # Errors
/// The operating system refuses a listener.
pub(crate) fn start(
    listeners: ProtocolListeners,
    tls: &Tls,
    services: &Arc<Services>,
    admission: &Admission,
    metrics: &ProtocolMetrics,
) -> io::Result<Vec<Port>> {
    let ProtocolListeners { redis, memcached } = listeners;
    let mut ports = Vec::new();
    let protocol = |name| Protocol::new(name, services, admission, metrics);
    if let Some(listener) = redis {
        let listener = tls.at_protocol_port(listener, ("redis port", redis::WITHOUT_TLS));
        ports.push(redis::start(listener, protocol("redis"))?);
    }
    if let Some(listener) = memcached {
        let answer = ("memcached port", memcached::WITHOUT_TLS);
        let listener = tls.at_protocol_port(listener, answer);
        ports.push(memcached::start(listener, protocol("memcached"))?);
    }
    Ok(ports)
}
