//! The rules of single values. A rule parses a text into its type or describes the permitted
//! values.

use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use seqd_api::address::{HOST_PORT_RULE, base_url, is_host_port, is_node_url};
use seqd_api::{name::NAME_RULE, validate_name};
use seqd_state::Share;

use super::values::{Checked, Given, Origin};

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    Text,
    Json,
}

impl LogFormat {
    /// Returns whether log lines are text; `is_terminal` is whether stderr is a terminal.
    #[must_use]
    pub fn is_text(self, is_terminal: bool) -> bool {
        match self {
            Self::Auto => is_terminal,
            Self::Text => true,
            Self::Json => false,
        }
    }
}

fn text(given: &Given) -> Checked<&str> {
    match given.text.as_str() {
        "" => Err("it must not be empty: give a value, or remove the line".to_owned()),
        text => Ok(text),
    }
}

pub(super) fn any(given: &Given) -> Checked<String> {
    Ok(given.text.clone())
}

pub(super) fn path(given: &Given) -> Checked<PathBuf> {
    text(given).map(PathBuf::from)
}

/// A file, or `None` if none is given.
pub(super) fn file(given: &Given) -> Checked<Option<PathBuf>> {
    match given.origin {
        Origin::Default => Ok(None),
        _ => path(given).map(Some),
    }
}

/// A file, or `None` if the text is empty.
pub(super) fn optional_file(given: &Given) -> Checked<Option<PathBuf>> {
    Ok((!given.text.is_empty()).then(|| PathBuf::from(&given.text)))
}

pub(super) fn name(given: &Given) -> Checked<String> {
    match validate_name(&given.text) {
        Ok(()) => Ok(given.text.clone()),
        Err(_) => Err(format!("a name is {NAME_RULE}")),
    }
}

/// Host names or addresses, without ports.
pub(super) fn hosts(given: &Given) -> Checked<Vec<String>> {
    let host = |text: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_[]:".contains(&byte);
        let is_address = text.starts_with('[') && text.ends_with(']');
        let is_host = !text.is_empty() && text.len() <= 255 && text.bytes().all(plain);
        if is_host && (is_address || !text.contains([':', '[', ']'])) {
            Ok(text.to_owned())
        } else {
            Err(format!(
                "{text:?} is not a host name: omit scheme, port and path"
            ))
        }
    };
    given.items().map(host).collect()
}

pub(super) fn one_of<T: Copy>(given: &Given, choices: &[(&str, T)], allowed: &str) -> Checked<T> {
    let text = text(given)?;
    let found = choices.iter().find(|(choice, _)| *choice == text);
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| format!("expected {allowed}"))
}

pub(super) fn switch(given: &Given) -> Checked<bool> {
    one_of(given, &[("true", true), ("false", false)], "true or false")
}

pub(super) fn number<T: TryFrom<u64>>(given: &Given, range: RangeInclusive<u64>) -> Checked<T> {
    let found = text(given)?.parse().ok().filter(|n| range.contains(n));
    found.and_then(|n| T::try_from(n).ok()).ok_or_else(|| {
        let (min, max) = range.into_inner();
        format!("expected a whole number from {min} to {max}")
    })
}

pub(super) fn share(given: &Given) -> Checked<Share> {
    let percent = text(given)?.strip_suffix('%');
    let percent = percent.and_then(|digits| digits.parse().ok());
    percent
        .and_then(Share::of_percent)
        .ok_or_else(|| "expected a part in percent, \"1%\" to \"100%\"".to_owned())
}

/// The range is in milliseconds.
pub(super) fn duration(given: &Given, range: RangeInclusive<u64>) -> Checked<Duration> {
    let (min, max) = range.into_inner();
    let (min, max) = (Duration::from_millis(min), Duration::from_millis(max));
    let found = humantime::parse_duration(text(given)?).ok();
    found
        .filter(|duration| (min..=max).contains(duration))
        .ok_or_else(|| {
            let (min, max) = (
                humantime::format_duration(min),
                humantime::format_duration(max),
            );
            format!("expected a duration such as \"500ms\" or \"3s\", {min} to {max}")
        })
}

/// Four of the shortest heartbeats.
const SHORTEST_ELECTION: Duration = Duration::from_millis(40);

/// Ten times the longest heartbeat interval. With a longer timeout, a cluster would be without a
/// leader for too long.
const LONGEST_ELECTION: Duration = Duration::from_secs(600);

pub(super) fn durations(given: &Given) -> Checked<(Duration, Duration)> {
    let items: Vec<&str> = given.items().collect();
    let [min, max] = items.as_slice() else {
        return Err(
            "expected two durations, shortest and longest: [\"400ms\", \"800ms\"]".to_owned(),
        );
    };
    let parse =
        |text: &str| humantime::parse_duration(text).map_err(|error| format!("{text}: {error}"));
    let (min, max) = (parse(min)?, parse(max)?);
    if min < SHORTEST_ELECTION || max > LONGEST_ELECTION {
        let shortest = humantime::format_duration(SHORTEST_ELECTION);
        let longest = humantime::format_duration(LONGEST_ELECTION);
        return Err(format!("both must be from {shortest} to {longest}"));
    }
    if min >= max {
        return Err(
            "the shortest must be less than the longest: [\"400ms\", \"800ms\"]".to_owned(),
        );
    }
    Ok((min, max))
}

pub(super) fn address(given: &Given) -> Checked<SocketAddr> {
    let text = text(given)?;
    // `:7400` means all interfaces, as in other programs.
    let host = if text.starts_with(':') { "0.0.0.0" } else { "" };
    let found = format!("{host}{text}").to_socket_addrs();
    found
        .ok()
        .and_then(|mut addresses| addresses.next())
        .ok_or_else(|| "expected HOST:PORT of this machine, such as 0.0.0.0:7400".to_owned())
}

/// An address, or `None` if the text is empty.
pub(super) fn optional_address(given: &Given) -> Checked<Option<SocketAddr>> {
    match given.text.as_str() {
        "" => Ok(None),
        _ => address(given).map(Some),
    }
}

/// Another system whose routes the clients' HTTP port may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompatRoutes {
    Leaf,
    TinyId,
    CosId,
    Katsubushi,
}

/// Names of other systems, all different.
pub(super) fn compat_routes(given: &Given) -> Checked<Vec<CompatRoutes>> {
    let mut routes = Vec::new();
    for item in given.items() {
        let system = match item {
            "leaf" => CompatRoutes::Leaf,
            "tinyid" => CompatRoutes::TinyId,
            "cosid" => CompatRoutes::CosId,
            "katsubushi" => CompatRoutes::Katsubushi,
            _ => {
                return Err(format!(
                    "{item:?} is not one of leaf, tinyid, cosid, katsubushi"
                ));
            }
        };
        if routes.contains(&system) {
            return Err(format!("{item} is listed twice: remove one of them"));
        }
        routes.push(system);
    }
    Ok(routes)
}

/// A derived address passes unchecked: its port is 0 if the system chooses the listening port.
pub(super) fn host_port(given: &Given) -> Checked<String> {
    let text = text(given)?;
    if given.origin == Origin::Derived || is_host_port(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("expected {HOST_PORT_RULE}"))
    }
}

pub(super) fn url(given: &Given) -> Checked<String> {
    let url = text(given)?.trim_end_matches('/');
    if given.origin == Origin::Derived || is_node_url(url) {
        Ok(url.to_owned())
    } else {
        let sample = base_url("n1.example:7400");
        Err(format!(
            "expected a URL without a path, such as {sample}; 0.0.0.0 and [::] are addresses to \
             listen on, not addresses of a node"
        ))
    }
}

/// Parses names with addresses: at most seven, all different.
pub(super) fn peers(given: &Given) -> Checked<Vec<(String, String)>> {
    let mut peers: Vec<(String, String)> = Vec::new();
    for item in given.items() {
        let (name, address) = item
            .split_once('=')
            .filter(|(_, address)| is_host_port(address))
            .ok_or_else(|| format!("{item} is not NAME=HOST:PORT, such as n1=n1.example:7401"))?;
        if validate_name(name).is_err() {
            return Err(format!("{name}: a name is {NAME_RULE}"));
        }
        for (other, known) in &peers {
            if other == name {
                return Err(format!(
                    "{name} is listed twice: each node has one name and one address"
                ));
            }
            if known == address {
                return Err(format!(
                    "{other} and {name} have the same address: give each node its own"
                ));
            }
        }
        peers.push((name.to_owned(), address.to_owned()));
    }
    match peers.len() {
        0..=7 => Ok(peers),
        many => Err(format!("{many} nodes; use 1, 3 or 5, and at most 7")),
    }
}
