//! Writing configuration: the file of a founding node, and what is in force.

use super::checks::{first_label, is_name};
use super::keys::KEYS;
use super::{ConfigError, Entry};

/// The port that a peer given without one listens on.
const PEER_PORT: &str = "7401";

/// A configuration file for the node `name` of a cluster of `hosts`, each `HOST`, `HOST:PORT`,
/// `NAME=HOST` or `NAME=HOST:PORT`. A host without a name gets its first DNS label.
pub fn founding_file(name: &str, hosts: &[String]) -> Result<String, ConfigError> {
    let refuse = |value: &str, allowed: String| ConfigError::Value {
        key: "peer.peers",
        value: value.to_owned(),
        origin: "--peers".to_owned(),
        allowed,
    };
    let mut peers: Vec<(String, String)> = Vec::new();
    for item in hosts {
        let (label, host) = match item.split_once('=') {
            Some((label, host)) => (label.to_owned(), host),
            None => (
                first_label(item.split(':').next().unwrap_or(item)).to_owned(),
                item.as_str(),
            ),
        };
        if !is_name(&label) || host.is_empty() {
            return Err(refuse(
                item,
                "give HOST or NAME=HOST, with :PORT if it is not 7401".into(),
            ));
        }
        if peers.iter().any(|(known, _)| *known == label) {
            let text = format!("{label} is there twice: give the names as NAME=HOST");
            return Err(refuse(item, text));
        }
        let address = if host.contains(':') {
            host.to_owned()
        } else {
            format!("{host}:{PEER_PORT}")
        };
        peers.push((label, address));
    }
    let Some((_, own)) = peers.iter().find(|(label, _)| label == name) else {
        let names: Vec<&str> = peers.iter().map(|(label, _)| label.as_str()).collect();
        let text = format!(
            "{name} is none of the peers {}: give it as NAME=HOST",
            names.join(", ")
        );
        return Err(refuse(&hosts.join(","), text));
    };
    let host = own.rsplit_once(':').map_or(own.as_str(), |(host, _)| host);
    let list: Vec<String> = peers
        .iter()
        .map(|(label, address)| format!("\"{label}={address}\""))
        .collect();
    Ok(format!(
        "[node]\nname = \"{name}\"\ndata_dir = \"/var/lib/seqd\"\n\n\
         [http]\nlisten = \"0.0.0.0:7400\"\nadvertise = \"http://{host}:7400\"\n\n\
         [peer]\nlisten = \"0.0.0.0:{port}\"\npeers = [{list}]\n",
        port = own.rsplit_once(':').map_or(PEER_PORT, |(_, port)| port),
        list = list.join(", "),
    ))
}

/// What is in force, as a TOML file; with `origin`, each line says where its value comes from.
pub fn show(entries: &[Entry], origin: bool) -> String {
    let mut text = String::new();
    let mut section = "";
    for key in KEYS {
        let Some(entry) = entries.iter().find(|entry| entry.key.name == key.name) else {
            continue;
        };
        let (own, name) = key.name.split_once('.').unwrap_or(("", key.name));
        if own != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{gap}[{own}]\n"));
            section = own;
        }
        let line = match &entry.value {
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
