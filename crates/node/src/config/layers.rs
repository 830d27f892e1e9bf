//! Merges the layers (flag over environment over file over default) and keeps the origins. Also
//! derives values from other keys and checks the rules that involve two keys.

use std::net::SocketAddr;

use seqd_api::address::{TLS_SCHEME, authority, base_url, tls_url};
use seqd_api::nearest;

use super::keys::{self, Config, Entry, KEYS, Key, Kind};
use super::rules;
use super::values::{ConfigError, Origin, Values};

/// The least ratio of the shortest election timeout to the heartbeat interval: only several missed
/// heartbeats in a row justify an election.
const HEARTBEATS_PER_ELECTION: u32 = 4;

/// A configuration that passed all checks.
#[derive(Clone, Debug)]
pub struct Resolved {
    pub config: Config,
    /// Settings that work but are unwise.
    pub warnings: Vec<String>,
}

/// The merged layers. They may be added in any order, because the origin decides.
#[derive(Clone, Debug)]
pub struct Layers(Values);

impl Default for Layers {
    fn default() -> Layers {
        let mut values = Values::default();
        for key in KEYS {
            if let Some(default) = key.default {
                values.set(key.name, Origin::Default, default.to_owned());
            }
        }
        Layers(values)
    }
}

impl Layers {
    /// Adds the text of a configuration file; `path` appears in messages.
    pub fn file(mut self, path: &str, text: &str) -> Result<Layers, ConfigError> {
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| ConfigError(format!("{path}: {error}")))?;
        for (section, value) in table {
            let known = KEYS.iter().any(|key| section_of(key) == section);
            let inner = match value {
                toml::Value::Table(inner) if known => inner,
                _ => return Err(unknown_section(path, &section)),
            };
            for (name, value) in inner {
                let full = format!("{section}.{name}");
                let key = keys::find(&full).ok_or_else(|| unknown_key(path, &full))?;
                let text = as_text(key.kind, &value).ok_or_else(|| {
                    let allowed = "give a text, a number or a list of texts";
                    ConfigError::value(key.name, "a value of another type", path, allowed)
                })?;
                self.0.set(key.name, Origin::File(path.to_owned()), text);
            }
        }
        Ok(self)
    }

    /// Sets a key, unless a stronger origin has set it.
    pub fn set(&mut self, key: &'static Key, origin: Origin, text: String) {
        self.0.set(key.name, origin, text);
    }

    /// Derives values from other keys and checks everything. `hostname` supplies the name for
    /// `name_from = "hostname"` and the host of derived addresses.
    pub fn resolve(mut self, hostname: &str) -> Result<Resolved, ConfigError> {
        self.derive_name(hostname)?;
        self.derive_addresses(hostname)?;
        let mut config = Config::read(&self.0)?;
        self.check_pairs(&config)?;
        let mut warnings = Vec::new();
        if config.tls.cert.is_some() && config.http.advertise.starts_with(&base_url("")) {
            warnings.push(format!(
                "http.advertise = {} is not an {TLS_SCHEME} address, but this node serves clients \
                 over TLS",
                config.http.advertise
            ));
        }
        if config.auth.bootstrap_token_file.is_some() && !config.auth.enabled {
            let warning = "auth.bootstrap_token_file is set, but auth.enabled is not: tokens are not \
                 required";
            warnings.push(warning.to_owned());
        }
        match config.peer.peers.len() {
            0 => {
                let own = (config.node.name.clone(), config.peer.advertise.clone());
                config.peer.peers.push(own);
            }
            many @ (2 | 4 | 6) => warnings.push(format!(
                "{many} voters tolerate no more lost nodes than {}: prefer an odd number",
                many - 1
            )),
            _ => {}
        }
        Ok(Resolved { config, warnings })
    }

    /// Sets the name from `node.name_from`, unless `node.name` is given in a stronger layer. A name
    /// given as a flag thus overrides `name_from` in a file.
    fn derive_name(&mut self, hostname: &str) -> Result<(), ConfigError> {
        let name = self.0.get("node.name");
        let from = self.0.get("node.name_from");
        if let (Some(name), Some(from)) = (name, from)
            && name.origin.is_beside(&from.origin)
        {
            let allowed = "node.name_from is set too; set only one of them";
            return Err(self.0.refusal("node.name", allowed));
        }
        match from {
            Some(from) if name.is_none_or(|name| name.origin < from.origin) => {
                if from.text != "hostname" {
                    return Err(self
                        .0
                        .refusal("node.name_from", "the only allowed value is \"hostname\""));
                }
                let (origin, text) = (from.origin.clone(), first_label(hostname).to_owned());
                self.0.set("node.name", origin, text);
            }
            None if name.is_none() => {
                let how = "give --name, SEQD_NODE_NAME or name = \"n1\" under [node]";
                return Err(ConfigError(format!("node.name is not set: {how}")));
            }
            _ => {}
        }
        Ok(())
    }

    /// Derives the advertised addresses that are not given. Peers get the node's own entry in
    /// `peer.peers`, and clients get the same host.
    fn derive_addresses(&mut self, hostname: &str) -> Result<(), ConfigError> {
        let name = self.0.read("node.name", rules::name)?;
        let peers = self.0.read("peer.peers", rules::peers)?;
        let own = peers.into_iter().find(|(peer, _)| *peer == name);
        let listen = self.0.read("peer.listen", rules::address)?;
        let address = own.map_or_else(|| reachable(listen, hostname), |(_, address)| address);
        self.0.set("peer.advertise", Origin::Derived, address);
        let peer = self.0.read("peer.advertise", rules::host_port)?;
        let host = peer.rsplit_once(':').map_or(hostname, |(host, _)| host);
        let listen = self.0.read("http.listen", rules::address)?;
        let authority = reachable(listen, host);
        let url = match self.0.read("tls.cert", rules::file)? {
            Some(_) => tls_url(authority),
            None => base_url(authority),
        };
        self.0.set("http.advertise", Origin::Derived, url);
        Ok(())
    }

    fn check_pairs(&self, config: &Config) -> Result<(), ConfigError> {
        let heartbeat = config.raft.heartbeat;
        if config.raft.election.0 < heartbeat * HEARTBEATS_PER_ELECTION {
            let heartbeat = humantime::format_duration(heartbeat);
            let allowed = format!(
                "the shortest must be at least {HEARTBEATS_PER_ELECTION} heartbeats (of \
                 {heartbeat})"
            );
            return Err(self.0.refusal("raft.election", &allowed));
        }
        if config.segment.min > config.segment.max {
            return Err(self
                .0
                .refusal("segment.min", "it must be at most segment.max"));
        }
        if config.auth.enabled && config.auth.bootstrap_token_file.is_none() {
            let allowed = "it requires auth.bootstrap_token_file: without a token every request would be \
                 rejected";
            return Err(self.0.refusal("auth.enabled", allowed));
        }
        self.check_ports(config)?;
        self.check_tls(config)
    }

    /// Checks that no two ports have one address.
    fn check_ports(&self, config: &Config) -> Result<(), ConfigError> {
        let (http, peer) = (config.http.listen, config.peer.listen);
        let mut taken: Vec<(&str, SocketAddr)> = Vec::new();
        let others = [
            ("peer.listen", Some(peer)),
            ("health.listen", config.health.listen),
        ];
        let others = others
            .into_iter()
            .filter_map(|(key, address)| Some((key, address?)));
        for (key, address) in config.clients_ports().chain(others) {
            if let Some((other, _)) = taken.iter().find(|(_, other)| overlap(address, *other)) {
                let allowed = format!("{other} already uses this address: set another port");
                return Err(self.0.refusal(key, &allowed));
            }
            taken.push((key, address));
        }
        let advertised = authority(&config.http.advertise);
        if http.port() != 0 && advertised == Some(&config.peer.advertise) {
            let allowed = "this is the address for peers: set the port for clients";
            return Err(self.0.refusal("http.advertise", allowed));
        }
        Ok(())
    }

    /// Checks that each certificate has its key, peer certificates also their CAs, and
    /// `tls.client_ca` a certificate of this node.
    fn check_tls(&self, config: &Config) -> Result<(), ConfigError> {
        let tls = &config.tls;
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
                return Err(self
                    .0
                    .refusal(given, &format!("{missing} is required too, and is not set")));
            }
        }
        if tls.client_ca.is_some() && tls.cert.is_none() {
            let allowed = "it requires tls.cert and tls.key, without which clients are not served \
                over TLS";
            return Err(self.0.refusal("tls.client_ca", allowed));
        }
        Ok(())
    }
}

impl Config {
    /// The ports for clients, with their keys.
    pub(super) fn clients_ports(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let protocols = [
            ("redis.listen", self.redis.listen),
            ("memcached.listen", self.memcached.listen),
        ];
        let protocols = protocols.into_iter();
        std::iter::once(("http.listen", self.http.listen))
            .chain(protocols.filter_map(|(key, listen)| Some((key, listen?))))
    }

    /// Returns whether `peer.advertise` was given, directly or as the node's own entry of
    /// `peer.peers`.
    pub(crate) fn is_peer_address_configured(&self) -> bool {
        let is_own = |entry: &&Entry| entry.key.name == "peer.advertise";
        let given = self.entries.iter().find(is_own);
        let listed = self.peer.peers.iter();
        given.is_some_and(|entry| entry.origin > Origin::Derived)
            || listed.clone().any(|(name, _)| *name == self.node.name)
    }
}

/// Returns whether two listening addresses cannot both be bound. For port 0, the system chooses a
/// free port each time.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let shares_interface =
        one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && shares_interface
}

/// A listening address as other machines reach it: `host` replaces "all interfaces".
fn reachable(listen: SocketAddr, host: &str) -> String {
    if listen.ip().is_unspecified() {
        format!("{host}:{}", listen.port())
    } else {
        listen.to_string()
    }
}

/// Converts a TOML value to text, a list to one text with commas. An item that is empty or contains
/// a comma therefore keeps its quotes, and the rule of each list rejects it.
fn as_text(kind: Kind, value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(is_on) if kind == Kind::Switch => Some(is_on.to_string()),
        toml::Value::Array(items) => {
            let item = |item: &toml::Value| {
                let text = item.as_str()?.trim();
                let unfit = text.is_empty() || text.contains(',');
                Some(match kind {
                    Kind::List if unfit => format!("\"{text}\""),
                    _ => text.to_owned(),
                })
            };
            Some(
                items
                    .iter()
                    .map(item)
                    .collect::<Option<Vec<_>>>()?
                    .join(","),
            )
        }
        _ => None,
    }
}

fn section_of(key: &Key) -> &'static str {
    key.name.split('.').next().unwrap_or(key.name)
}

fn unknown_key(origin: &str, key: &str) -> ConfigError {
    let names: Vec<&str> = KEYS.iter().map(|known| known.name).collect();
    unknown(origin, key, nearest(key, &names).map(str::to_owned))
}

/// Suggests the full name of a key that is given without its section, or the section with the
/// nearest name.
fn unknown_section(origin: &str, name: &str) -> ConfigError {
    let bare = KEYS.iter().find(|known| {
        let (_, last) = known.name.split_once('.').unwrap_or_default();
        last == name
    });
    let sections: Vec<&str> = KEYS.iter().map(section_of).collect();
    let near = bare.map(|key| key.name.to_owned());
    let near = near.or_else(|| nearest(name, &sections).map(|near| format!("[{near}]")));
    unknown(origin, name, near)
}

fn unknown(origin: &str, key: &str, near: Option<String>) -> ConfigError {
    let hint = match near {
        Some(near) => format!("did you mean {near}?"),
        None => "`seqd config show` lists all keys".to_owned(),
    };
    ConfigError(format!("{origin}: unknown key {key}; {hint}"))
}

/// The first DNS label of a host name.
pub(super) fn first_label(host: &str) -> &str {
    host.split(['.', ':']).next().unwrap_or(host)
}
