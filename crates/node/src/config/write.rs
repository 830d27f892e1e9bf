//! Writes configuration: the file of a node of a new cluster, and the values in force.

use std::net::Ipv6Addr;

use seqd_api::address::{HTTP_PORT, PEER_PORT, is_host, is_host_port, tls_url};
use seqd_api::validate_name;

use super::keys::{Entry, quoted};
use super::layers::{Layers, first_label};
use super::values::{ConfigError, Origin};

/// The folder of a node's certificates, in the file of a new cluster.
const CERTIFICATES: &str = "/etc/seqd/tls";

/// A configuration file for the node `name` of a new cluster of `hosts`, each `HOST`, `HOST:PORT`,
/// `NAME=HOST` or `NAME=HOST:PORT`. A host without a name gets its first DNS label.
pub fn bootstrap_file(name: &str, hosts: &[String]) -> Result<String, ConfigError> {
    let refuse = |value: &str, allowed: &str| {
        Err(ConfigError::value("peer.peers", value, "--peers", allowed))
    };
    let mut peers: Vec<(&str, String)> = Vec::new();
    for item in hosts {
        let (label, host) = match item.split_once('=') {
            Some(named) => named,
            None => (first_label(item), item.as_str()),
        };
        let address = with_port(host);
        if validate_name(label).is_err() || !is_host_port(&address) {
            let allowed = format!(
                "give HOST or NAME=HOST, with :PORT if it is not {PEER_PORT}, such as n1.example \
                 or n1=10.0.0.1:9000; put an IPv6 address with a port in brackets"
            );
            return refuse(item, &allowed);
        }
        if peers.iter().any(|(known, _)| *known == label) {
            let allowed = format!("{label} is listed twice: give the names as NAME=HOST");
            return refuse(item, &allowed);
        }
        peers.push((label, address));
    }
    let Some((_, own)) = peers.iter().find(|(label, _)| *label == name) else {
        let names: Vec<&str> = peers.iter().map(|(label, _)| *label).collect();
        let names = names.join(", ");
        let allowed = format!("{name} is not one of the peers {names}: give it as NAME=HOST");
        return refuse(&hosts.join(","), &allowed);
    };
    let (host, port) = own.rsplit_once(':').unwrap_or((own, ""));
    // With IPv6, this address covers both families.
    let all = if host.starts_with('[') {
        "[::]"
    } else {
        "0.0.0.0"
    };
    let list = peers
        .iter()
        .map(|(label, address)| toml::Value::String(format!("{label}={address}")));
    let nodes: Vec<String> = peers
        .iter()
        .map(|(label, address)| {
            let host = address.rsplit_once(':').map_or("", |(host, _)| host);
            format!("{label}={}", host.trim_matches(['[', ']']))
        })
        .collect();
    let file = |end: &str| quoted(&format!("{CERTIFICATES}/{name}.{end}"));
    let text = format!(
        "[node]\nname = {name}\ndata_dir = \"/var/lib/seqd\"\n\n\
         [http]\nlisten = \"{all}:{HTTP_PORT}\"\nadvertise = {url}\n\n\
         [peer]\nlisten = \"{all}:{port}\"\npeers = {list}\n\n\
         # Made by: seqd tls init --dir tls --nodes {nodes} --client admin\n\
         [tls]\ncert = {cert}\nkey = {key}\nclient_ca = {ca}\n\
         peer_cert = {cert}\npeer_key = {key}\npeer_ca = {ca}\n",
        name = quoted(name),
        url = quoted(&tls_url(format_args!("{host}:{HTTP_PORT}"))),
        nodes = nodes.join(","),
        cert = file("crt"),
        key = file("key"),
        ca = quoted(&format!("{CERTIFICATES}/ca.crt")),
        list = toml::Value::Array(list.collect()),
    );
    // Rules that involve several hosts, or a host and a default, are checked here instead of at the
    // first start.
    Layers::default().file("--peers", &text)?.resolve(host)?;
    Ok(text)
}

/// Adds the default peer port to a host that is written without a port. The colons of a bare IPv6
/// address do not count as a port.
fn with_port(host: &str) -> String {
    if host.parse::<Ipv6Addr>().is_ok() {
        format!("[{host}]:{PEER_PORT}")
    } else if is_host(host) {
        format!("{host}:{PEER_PORT}")
    } else {
        host.to_owned()
    }
}

/// The values in force that are not defaults, on one line.
pub fn given(entries: &[Entry]) -> String {
    let given = entries
        .iter()
        .filter(|entry| entry.origin != Origin::Default);
    let lines = given.filter_map(|entry| {
        let value = entry.value.as_deref()?;
        Some(format!("{} = {value} ({})", entry.key.name, entry.origin))
    });
    lines.collect::<Vec<_>>().join("; ")
}

/// The values in force, as a TOML file. With `origin`, each line ends with the origin of its value.
pub fn show(entries: &[Entry], origin: bool) -> String {
    let mut text = String::new();
    let mut section = "";
    for entry in entries {
        let (own, name) = entry
            .key
            .name
            .split_once('.')
            .unwrap_or(("", entry.key.name));
        if own != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{gap}[{own}]\n"));
            section = own;
        }
        let line = match &entry.value {
            // A file with both this key and the name derived from it would be rejected.
            Some(value) if entry.key.name == "node.name_from" => {
                format!("# {name} = {value} gave the name")
            }
            Some(value) => format!("{name} = {value}"),
            None => format!("# {name} is not set"),
        };
        match (&entry.value, origin) {
            (Some(_), true) => text.push_str(&format!("{line:<44} # {}\n", entry.origin)),
            _ => text.push_str(&format!("{line}\n")),
        }
    }
    text
}
