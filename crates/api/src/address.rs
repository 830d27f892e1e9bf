//! Addresses of the client interface as they are written: the scheme, and the ports that are taken
//! where none is given.

use std::fmt::Display;

/// The scheme of a URL of the client interface.
pub const SCHEME: &str = "http";

/// The same with TLS.
pub const TLS_SCHEME: &str = "https";

/// The port for clients.
pub const HTTP_PORT: u16 = 7400;

/// The port for the other nodes.
pub const PEER_PORT: u16 = 7401;

/// The URL of the node that serves clients at `authority`, which is `HOST:PORT`.
#[must_use]
pub fn base_url(authority: impl Display) -> String {
    format!("{SCHEME}://{authority}")
}

/// As [`base_url`], of a node that serves clients over TLS.
#[must_use]
pub fn tls_url(authority: impl Display) -> String {
    format!("{TLS_SCHEME}://{authority}")
}

/// What follows the scheme of a URL; `None` if it has none, or one that is not known. A node may
/// advertise the `https` address of a proxy before it.
#[must_use]
pub fn authority(url: &str) -> Option<&str> {
    match url.split_once("://") {
        Some((SCHEME | TLS_SCHEME, authority)) => Some(authority),
        _ => None,
    }
}

/// Whether the text is `HOST:PORT` with a port above 0; a host has no characters that end one in a
/// URL or in a list.
#[must_use]
pub fn is_host_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        let plain = |byte: u8| byte.is_ascii_graphic() && !b"/?#@=,".contains(&byte);
        !host.is_empty()
            && host.bytes().all(plain)
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}
