//! Merges the layers (flag over environment over file over default), keeps the origins, and derives
//! values from other keys.

use std::net::SocketAddr;

use seqd_api::address::{base_url, tls_url};

use super::file;
use super::keys::{Config, KEYS, Key};
use super::values::{ConfigError, Origin, Values};
use super::{relations, rules};

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
        for (key, text) in file::read(path, text)? {
            self.0.set(key.name, Origin::File(path.to_owned()), text);
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
        let warnings = relations::check(&config, &self.0)?;
        if config.peer.peers.is_empty() {
            let own = (config.node.name.clone(), config.peer.advertise.clone());
            config.peer.peers.push(own);
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
}

/// A listening address as other machines reach it: `host` replaces "all interfaces".
fn reachable(listen: SocketAddr, host: &str) -> String {
    if listen.ip().is_unspecified() {
        format!("{host}:{}", listen.port())
    } else {
        listen.to_string()
    }
}

/// The first DNS label of a host name.
pub(super) fn first_label(host: &str) -> &str {
    host.split(['.', ':']).next().unwrap_or(host)
}
