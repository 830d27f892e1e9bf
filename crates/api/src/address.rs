//! Addresses of the client interface as they are written: the scheme, and the ports that are taken
//! where none is given. Another scheme is added here.

use std::fmt::Display;

/// The scheme of every URL of the client interface.
pub const SCHEME: &str = "http";

/// The port for clients.
pub const HTTP_PORT: u16 = 7400;

/// The port for the other nodes.
pub const PEER_PORT: u16 = 7401;

/// The URL of the node that serves clients at `authority`, which is `HOST:PORT`.
#[must_use]
pub fn base_url(authority: impl Display) -> String {
    format!("{SCHEME}://{authority}")
}

/// What follows the scheme of a URL; `None` if it has none, or one that is not known. A node may
/// advertise the `https` address of a proxy before it.
#[must_use]
pub fn authority(url: &str) -> Option<&str> {
    match url.split_once("://") {
        Some((SCHEME | "https", authority)) => Some(authority),
        _ => None,
    }
}
