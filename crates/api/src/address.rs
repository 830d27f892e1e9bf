//! Addresses of the client interface in text form: the schemes and the default ports.

use std::fmt::Display;
use std::net::{IpAddr, Ipv6Addr};

/// The scheme of a URL of the client interface.
pub const SCHEME: &str = "http";

/// The scheme of a URL with TLS.
pub const TLS_SCHEME: &str = "https";

/// The default port for clients.
pub const HTTP_PORT: u16 = 7400;

/// The default port for peers.
pub const PEER_PORT: u16 = 7401;

/// Returns the URL of the node that serves clients at `authority`, which is `HOST:PORT`.
#[must_use]
pub fn base_url(authority: impl Display) -> String {
    format!("{SCHEME}://{authority}")
}

/// Like [`base_url`], for a node that serves clients over TLS.
#[must_use]
pub fn tls_url(authority: impl Display) -> String {
    format!("{TLS_SCHEME}://{authority}")
}

/// Returns the part of a URL after the scheme, or `None` if the scheme is missing or unknown.
#[must_use]
pub fn authority(url: &str) -> Option<&str> {
    match url.split_once("://") {
        Some((SCHEME | TLS_SCHEME, authority)) => Some(authority),
        _ => None,
    }
}

/// The description of a valid address, for messages.
pub const HOST_PORT_RULE: &str = "HOST:PORT, such as n1.example:7401 or [2001:db8::1]:7401; \
     0.0.0.0 and [::] are addresses to listen on, not addresses of a node";

/// The longest host name that DNS allows.
const MAX_HOST_LEN: usize = 253;

/// The longest name of a network interface on Linux.
const MAX_ZONE_LEN: usize = 15;

/// The digits of the largest port.
const MAX_PORT_LEN: usize = 5;

/// Returns whether the text is a host that others can reach: a name, an IPv4 address, or an IPv6
/// address in brackets.
#[must_use]
pub fn is_host(text: &str) -> bool {
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    if let Some(inner) = inner {
        // The part after the percent sign is the interface of a link-local address.
        let (address, zone) = inner.split_once('%').unwrap_or((inner, "0"));
        let address = address.parse::<Ipv6Addr>();
        return zone.len() <= MAX_ZONE_LEN
            && is_plain(zone)
            && address.is_ok_and(|address| !address.is_unspecified());
    }
    let is_nobody = text
        .parse::<IpAddr>()
        .is_ok_and(|address| address.is_unspecified());
    text.len() <= MAX_HOST_LEN && is_plain(text) && !is_nobody
}

fn is_plain(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    !text.is_empty() && text.bytes().all(plain)
}

/// Returns the first label of a host, with or without a port, which names its node by default. An
/// address has no label.
#[must_use]
pub fn first_label(host: &str) -> Option<&str> {
    let bare = match host.rsplit_once(':') {
        Some((bare, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => bare,
        _ => host,
    };
    let is_address = |text: &str| {
        let text = text.trim_start_matches('[').trim_end_matches(']');
        text.parse::<IpAddr>().is_ok()
    };
    if is_address(host) || is_address(bare) {
        return None;
    }
    bare.split('.').next().filter(|label| !label.is_empty())
}

/// Returns whether the text is `HOST:PORT` with a port above 0.
#[must_use]
pub fn is_host_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        let is_short = port.len() <= MAX_PORT_LEN;
        is_host(host) && digits && is_short && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

/// Checks that the text in a field is `HOST:PORT`.
///
/// # Errors
/// The text is not `HOST:PORT`. The error names the field.
pub fn check_host_port(field: &str, text: &str) -> Result<(), String> {
    match is_host_port(text) {
        true => Ok(()),
        false => Err(format!("{field}: {text:?} is not {HOST_PORT_RULE}")),
    }
}

/// Returns whether the text is the URL of a node: a known scheme, a host, and optionally a port.
#[must_use]
pub fn is_node_url(text: &str) -> bool {
    authority(text).is_some_and(|authority| is_host(authority) || is_host_port(authority))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_that_can_be_reached_and_a_port() {
        for right in [
            "n1:1",
            "n1.example:7401",
            "10.0.0.1:7401",
            "[::1]:7401",
            "[fe80::1%eth0]:1",
            "[fe80::1%abcdefghijklmno]:1",
            "n1:07401",
        ] {
            assert!(is_host_port(right), "{right}");
        }
        let wrong = [
            "n1",
            ":7401",
            "n1:",
            "n1:0",
            "n1:+1",
            "n1:65536",
            "n1:000001",
            "[fe80::1%abcdefghijklmnop]:1",
            "::1",
            "::1:7401",
            "[::1]",
            "[n1]:1",
            "0.0.0.0:1",
            "[::]:1",
            "a b:1",
            "a\"b:1",
            "a=b:1",
            "a,b:1",
            "a/b:1",
            "a@b:1",
            "ü:1",
        ];
        for wrong in wrong {
            assert!(!is_host_port(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_host_has_a_label_and_an_address_has_none() {
        for host in ["n1", "n1.example", "n1.example:7401", "n1:9000"] {
            assert_eq!(first_label(host), Some("n1"), "{host}");
        }
        for address in [
            "10.0.0.1",
            "10.0.0.1:7401",
            "::1",
            "[::1]",
            "[::1]:7401",
            "",
        ] {
            assert_eq!(first_label(address), None, "{address}");
        }
    }

    #[test]
    fn a_url_of_a_node_has_no_path() {
        for right in ["n1", "n1:7400", "[::1]:7400", "[2001:db8::1]"] {
            assert!(is_node_url(&base_url(right)), "{right}");
        }
        for wrong in [
            "",
            "banana split",
            "n1/",
            "n1:7400/v1",
            "::1",
            ":7400",
            "0.0.0.0:7400",
        ] {
            assert!(!is_node_url(&base_url(wrong)), "{wrong}");
        }
        assert!(
            !is_node_url("banana split") && !is_node_url("ftp://n1") && !is_node_url("n1:7400")
        );
    }
}
