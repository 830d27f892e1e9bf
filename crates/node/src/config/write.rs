//! Writing configuration: the file of a node of a new cluster, and what is in force.

use seqd_api::address::{HTTP_PORT, PEER_PORT, base_url};
use seqd_api::validate_name;

use super::keys::Entry;
use super::values::ConfigError;

/// The first DNS label of a host name.
pub(super) fn first_label(host: &str) -> &str {
    host.split(['.', ':']).next().unwrap_or(host)
}

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
        if validate_name(label).is_err() || host.is_empty() {
            let allowed = format!("give HOST or NAME=HOST, with :PORT if it is not {PEER_PORT}");
            return refuse(item, &allowed);
        }
        if peers.iter().any(|(known, _)| *known == label) {
            let allowed = format!("{label} is there twice: give the names as NAME=HOST");
            return refuse(item, &allowed);
        }
        let port = if host.contains(':') {
            String::new()
        } else {
            format!(":{PEER_PORT}")
        };
        peers.push((label, format!("{host}{port}")));
    }
    let Some((_, own)) = peers.iter().find(|(label, _)| *label == name) else {
        let names: Vec<&str> = peers.iter().map(|(label, _)| *label).collect();
        let names = names.join(", ");
        let allowed = format!("{name} is none of the peers {names}: give it as NAME=HOST");
        return refuse(&hosts.join(","), &allowed);
    };
    let (host, port) = own.rsplit_once(':').unwrap_or((own, ""));
    let list: Vec<String> = peers
        .iter()
        .map(|(label, address)| format!("\"{label}={address}\""))
        .collect();
    Ok(format!(
        "[node]\nname = \"{name}\"\ndata_dir = \"/var/lib/seqd\"\n\n\
         [http]\nlisten = \"0.0.0.0:{HTTP_PORT}\"\nadvertise = \"{url}\"\n\n\
         [peer]\nlisten = \"0.0.0.0:{port}\"\npeers = [{list}]\n",
        url = base_url(format_args!("{host}:{HTTP_PORT}")),
        list = list.join(", "),
    ))
}

/// What is in force, as a TOML file; with `origin`, each line ends with where its value comes from.
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
