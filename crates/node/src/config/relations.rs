//! Rules that involve several keys: pure functions over a configuration whose values are valid by
//! themselves. Each refusal has a key, its value, the reason and the remedy.

use std::net::{IpAddr, SocketAddr};

use seqd_api::address::{SCHEME, TLS_SCHEME, authority, is_host};
use serde_json::json;

use super::keys::Config;
use super::rules::CompatRoutes;
use super::values::{ConfigError, Origin, Values};

/// The least ratio of the shortest election timeout to the heartbeat interval: only several missed
/// heartbeats in a row justify an election.
const HEARTBEATS_PER_ELECTION: u32 = 4;

/// Checks all rules. `values` has the origins of the keys. Returns warnings: settings that work but
/// are unwise.
pub(super) fn check(config: &Config, values: &Values) -> Result<Vec<String>, ConfigError> {
    let relations = Relations { config, values };
    relations.check_amounts()?;
    relations.check_ports()?;
    relations.check_files()?;
    relations.check_scheme()?;
    relations.check_addresses()?;
    Ok(relations.warnings())
}

struct Relations<'a> {
    config: &'a Config,
    values: &'a Values,
}

impl Relations<'_> {
    fn refuse(&self, key: &'static str, why: &str) -> Result<(), ConfigError> {
        Err(self.values.refusal(key, why))
    }

    fn check_amounts(&self) -> Result<(), ConfigError> {
        let config = self.config;
        let heartbeat = config.raft.heartbeat;
        if config.raft.election.0 < heartbeat * HEARTBEATS_PER_ELECTION {
            let least = humantime::format_duration(heartbeat * HEARTBEATS_PER_ELECTION);
            let heartbeat = humantime::format_duration(heartbeat);
            let why = format!(
                "the shortest must be at least {HEARTBEATS_PER_ELECTION} heartbeats (of \
                 {heartbeat}), or a single late one causes an election: set {least} or more, or a \
                 shorter raft.heartbeat"
            );
            return self.refuse("raft.election", &why);
        }
        if config.segment.min > config.segment.max {
            let max = config.segment.max;
            let why = format!(
                "it must be at most segment.max, which is {max}: lower segment.min or raise \
                 segment.max"
            );
            return self.refuse("segment.min", &why);
        }
        Ok(())
    }

    /// Checks that no two ports have one address.
    fn check_ports(&self) -> Result<(), ConfigError> {
        let config = self.config;
        let others = [
            ("peer.listen", Some(config.peer.listen)),
            ("health.listen", config.health.listen),
        ];
        let others = others
            .into_iter()
            .filter_map(|(key, address)| Some((key, address?)));
        let mut taken: Vec<(&str, SocketAddr)> = Vec::new();
        for (key, address) in config.clients_ports().chain(others) {
            if let Some((other, _)) = taken.iter().find(|(_, other)| overlap(address, *other)) {
                let why = format!("{other} already uses this address: set another port");
                return self.refuse(key, &why);
            }
            taken.push((key, address));
        }
        Ok(())
    }

    /// Checks that each certificate has its key, that peer certificates have their CAs, that
    /// `tls.client_ca` comes with a certificate of this node, and that access tokens come with the
    /// operator's token file.
    fn check_files(&self) -> Result<(), ConfigError> {
        let (tls, auth) = (&self.config.tls, &self.config.auth);
        let sets = [
            &[("tls.cert", &tls.cert), ("tls.key", &tls.key)][..],
            &[
                ("tls.peer_cert", &tls.peer_cert),
                ("tls.peer_key", &tls.peer_key),
                ("tls.peer_ca", &tls.peer_ca),
            ],
        ];
        for set in sets {
            let given = set.iter().find(|(_, path)| path.is_some());
            let missing = set.iter().find(|(_, path)| path.is_none());
            if let (Some((given, _)), Some((missing, _))) = (given, missing) {
                let why = format!(
                    "{missing} is required too, and is not set: set both, or neither for no TLS"
                );
                return self.refuse(given, &why);
            }
        }
        if tls.client_ca.is_some() && tls.cert.is_none() {
            let why = "it requires tls.cert and tls.key, without which clients are not served over \
                 TLS: set them, or remove tls.client_ca";
            return self.refuse("tls.client_ca", why);
        }
        if auth.enabled && auth.bootstrap_token_file.is_none() {
            let why = "it requires auth.bootstrap_token_file: without a token every request would be \
                 rejected; `openssl rand -hex 32` makes a token";
            return self.refuse("auth.enabled", why);
        }
        Ok(())
    }

    /// Checks that clients are sent to an address with the scheme that this node serves.
    fn check_scheme(&self) -> Result<(), ConfigError> {
        let (url, has_tls) = (&self.config.http.advertise, self.config.tls.cert.is_some());
        let Some((scheme, rest)) = url.split_once("://") else {
            return Ok(());
        };
        let why = match (scheme, has_tls) {
            (TLS_SCHEME, false) => format!(
                "tls.cert is not set, so this node serves clients without TLS: write \
                 {SCHEME}://{rest}, or set tls.cert and tls.key"
            ),
            (SCHEME, true) => format!(
                "tls.cert is set, so this node serves clients over TLS only: write \
                 {TLS_SCHEME}://{rest}"
            ),
            _ => return Ok(()),
        };
        self.refuse("http.advertise", &why)
    }

    /// Checks that this node does not advertise another node's addresses, nor its peers' port to
    /// clients.
    fn check_addresses(&self) -> Result<(), ConfigError> {
        let config = self.config;
        let (name, own) = (&config.node.name, &config.peer.advertise);
        let client = authority(&config.http.advertise).unwrap_or_default();
        if config.http.listen.port() != 0 && client == own {
            let why = "this is the address for peers: set the port for clients";
            return self.refuse("http.advertise", why);
        }
        for (other, address) in self.others() {
            if own == address {
                let why = format!(
                    "peer.peers lists this address as {other}, and this node is {name}: correct \
                     node.name, or set peer.advertise to an address of this node alone"
                );
                return self.refuse("peer.advertise", &why);
            }
            let is_others = client == address
                || host(client) == host(address)
                    && host(client) != host(own)
                    && config.is_peer_address_configured();
            if is_others {
                let why = format!(
                    "it is the host of {other} in peer.peers, and this node is {name}: set the \
                     address at which clients reach {name}, or correct node.name"
                );
                return self.refuse("http.advertise", &why);
            }
        }
        Ok(())
    }

    /// The listed nodes except this one.
    fn others(&self) -> impl Iterator<Item = (&str, &str)> {
        let name = &self.config.node.name;
        let listed = self.config.peer.peers.iter();
        listed
            .filter(move |(other, _)| other != name)
            .map(|(other, address)| (other.as_str(), address.as_str()))
    }

    fn warnings(&self) -> Vec<String> {
        let config = self.config;
        let mut warnings = self.warnings_of_peers();
        if config.auth.bootstrap_token_file.is_some() && !config.auth.enabled {
            let warning = "auth.bootstrap_token_file is set, but auth.enabled is not: tokens are not \
                 required";
            warnings.push(warning.to_owned());
        }
        let has_tiny_id = config.compat.routes.contains(&CompatRoutes::TinyId);
        if config.compat.tinyid_tokens.is_some() && !has_tiny_id {
            let warning = "compat.tinyid_tokens is set, but compat.routes does not contain tinyid: \
                 the file is not used";
            warnings.push(warning.to_owned());
        }
        let (window, election) = (config.clock.window, config.raft.election.1);
        if window <= election {
            let [window, election] = [window, election].map(humantime::format_duration);
            warnings.push(format!(
                "clock.window = {window} is not longer than an election ({election}): nodes mint no \
                 IDs while a leader is elected; set a longer window or shorter raft.election"
            ));
        }
        warnings
    }

    fn warnings_of_peers(&self) -> Vec<String> {
        let config = self.config;
        let mut warnings = Vec::new();
        let (name, own, peers) = (
            &config.node.name,
            &config.peer.advertise,
            &config.peer.peers,
        );
        let listed = peers.iter().find(|(other, _)| other == name);
        let is_derived = !config.is_peer_address_configured();
        match listed {
            None if !peers.is_empty() && is_derived => {
                let names: Vec<&str> = peers.iter().map(|(name, _)| name.as_str()).collect();
                let names = names.join(", ");
                warnings.push(format!(
                    "node.name = {name} is not in peer.peers ({names}): this node founds no cluster \
                     and waits until it is added with the address {own}, which is derived; if it is \
                     to join, set peer.advertise; if it is a founder, correct the name or list it \
                     on every node"
                ));
            }
            Some((_, address)) if address != own => warnings.push(format!(
                "peer.advertise = {own} differs from {name}={address} in peer.peers, at which other \
                 nodes look for this one: use one address"
            )),
            _ => {}
        }
        if is_loopback(own)
            && let Some((other, address)) = self.others().find(|(_, at)| !is_loopback(at))
        {
            warnings.push(format!(
                "the peer address of {name} is {own}, which {other} ({address}) cannot reach: use \
                 an address that other machines reach"
            ));
        }
        // The list of a joining node is not a list of voters.
        let founds = peers.iter().any(|(known, _)| known == name);
        if let (true, many @ (2 | 4 | 6)) = (founds, peers.len()) {
            warnings.push(format!(
                "{many} voters tolerate no more lost nodes than {}: prefer an odd number",
                many - 1
            ));
        }
        warnings
    }
}

impl Config {
    /// The ports for clients, with their keys.
    pub(super) fn clients_ports(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let ports = [
            ("http.listen", Some(self.http.listen)),
            ("redis.listen", self.redis.listen),
            ("memcached.listen", self.memcached.listen),
        ];
        let ports = ports.into_iter();
        ports.filter_map(|(key, listen)| Some((key, listen?)))
    }

    /// Returns whether `peer.advertise` was given, directly or as the node's own entry of
    /// `peer.peers`.
    pub(crate) fn is_peer_address_configured(&self) -> bool {
        let entry = |key: &str| self.entries.iter().find(|entry| entry.key.name == key);
        let is_given = entry("peer.advertise").is_some_and(|entry| entry.origin > Origin::Derived);
        // If the list as given is empty, the own entry is the derived address.
        let lists = entry("peer.peers").is_some_and(|entry| entry.json != json!([]));
        is_given
            || lists
                && self
                    .peer
                    .peers
                    .iter()
                    .any(|(name, _)| *name == self.node.name)
    }
}

/// The host of `HOST` or `HOST:PORT`.
fn host(address: &str) -> &str {
    match address.rsplit_once(':') {
        Some((host, _)) if !is_host(address) => host,
        _ => address,
    }
}

fn is_loopback(address: &str) -> bool {
    let host = host(address).trim_matches(['[', ']']);
    let address = host.parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Returns whether two listening addresses cannot both be bound. For port 0, the system chooses a
/// free port each time.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let shares_interface =
        one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && shares_interface
}
