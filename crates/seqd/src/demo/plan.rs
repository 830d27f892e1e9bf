//! The ports and files of the demo's nodes.
//!
//! A preferred port is replaced if another process listens on it. The ports are stored in the
//! folder, because the addresses with which a cluster was founded identify its nodes permanently.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use seqd_client::api::address::{base_url, tls_url};
use serde::{Deserialize, Serialize};

use crate::demo::secure::Secured;
use crate::failure::Failure;

/// The file with the ports, in the demo's folder.
const PLAN_FILE: &str = "demo.json";

/// The preferred client ports. The peer port is the client port plus one.
const PREFERRED: [u16; 3] = [7400, 7410, 7420];

/// The range of replacements: above the preferred ports, and below the ephemeral ports, which an
/// outgoing connection could take between choice and use.
const REPLACEMENTS: std::ops::Range<u16> = 7430..9990;

/// The distance between the ports of two nodes.
const STEP: usize = 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodePlan {
    pub(crate) name: String,
    /// The address for clients.
    pub(crate) http: SocketAddr,
    /// The address for peers.
    pub(crate) peer: SocketAddr,
    /// The ports of the Redis and memcached protocols. They are not part of the membership, and are
    /// therefore chosen at each start.
    #[serde(skip)]
    pub(crate) redis: u16,
    #[serde(skip)]
    pub(crate) memcached: u16,
    #[serde(skip)]
    pub(crate) config: PathBuf,
    /// The file for its stderr.
    #[serde(skip)]
    pub(crate) log: PathBuf,
}

impl NodePlan {
    /// The URL for clients.
    pub(crate) fn url(&self, is_secure: bool) -> String {
        if is_secure {
            tls_url(self.http)
        } else {
            base_url(self.http)
        }
    }
}

/// A turn in choosing ports, which ends when it is dropped. All demos of the same executable share
/// one lock.
pub(crate) fn take_turn() -> Result<File, Failure> {
    let failed = |error: io::Error| Failure::failed(format!("cannot run the demo: {error}"));
    let executable = std::env::current_exe()
        .and_then(File::open)
        .map_err(failed)?;
    executable.lock().map_err(failed)?;
    Ok(executable)
}

/// Returns the plan that is stored in the folder, or a new one.
pub(crate) fn make(
    folder: &Path,
    is_secure: bool,
) -> Result<(Vec<NodePlan>, Option<Secured>), Failure> {
    let file = folder.join(PLAN_FILE);
    if file.exists() && Secured::is_in(folder) != is_secure {
        let with = if is_secure { "without" } else { "with" };
        let why = format!(
            "the cluster in {} was founded {with} --secure",
            folder.display()
        );
        return Err(Failure::usage(why));
    }
    let failed = |error: &dyn std::fmt::Display| {
        Failure::failed(format!("cannot use {}: {error}", file.display()))
    };
    let mut nodes = match std::fs::read(&file) {
        Ok(bytes) => {
            let nodes: Vec<NodePlan> =
                serde_json::from_slice(&bytes).map_err(|error| failed(&error))?;
            check_free(&nodes)?;
            nodes
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let nodes = choose(is_free)?;
            let bytes = serde_json::to_vec_pretty(&nodes).map_err(|error| failed(&error))?;
            std::fs::write(&file, bytes).map_err(|error| failed(&error))?;
            nodes
        }
        Err(error) => return Err(failed(&error)),
    };
    choose_protocols(&mut nodes, is_free)?;
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let secured = is_secure
        .then(|| Secured::make(folder, &names))
        .transpose()?;
    let peers: Vec<String> = nodes
        .iter()
        .map(|node| format!("{}={}", node.name, node.peer))
        .collect();
    for node in &mut nodes {
        node.config = folder.join(format!("{}.toml", node.name));
        node.log = folder.join(format!("{}.log", node.name));
        let mut text = config_text(node, &folder.join(&node.name), &peers, is_secure)?;
        if let Some(secured) = &secured {
            text.push_str(&secured.config_text(&node.name));
        }
        std::fs::write(&node.config, text).map_err(|error| failed(&error))?;
    }
    Ok((nodes, secured))
}

/// The nodes of a stored plan cannot move: their addresses are part of the cluster's membership.
fn check_free(nodes: &[NodePlan]) -> Result<(), Failure> {
    let addresses = nodes.iter().flat_map(|node| [node.http, node.peer]);
    match addresses
        .into_iter()
        .find(|address| !is_free(address.port()))
    {
        None => Ok(()),
        Some(busy) => Err(Failure::failed(format!(
            "{busy} is in use, and the cluster in this folder was founded with it"
        ))),
    }
}

/// Chooses two adjacent ports for each node: the preferred ones if they are free.
fn choose(is_free: impl Fn(u16) -> bool) -> Result<Vec<NodePlan>, Failure> {
    let pair_is_free = |port: &u16| is_free(*port) && is_free(*port + 1);
    let mut replacements = REPLACEMENTS.step_by(STEP).filter(pair_is_free);
    let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut nodes = Vec::new();
    for (at, preferred) in PREFERRED.into_iter().enumerate() {
        let free = if pair_is_free(&preferred) {
            Some(preferred)
        } else {
            replacements.next()
        };
        let Some(port) = free else {
            return Err(Failure::failed("no free ports on loopback"));
        };
        nodes.push(NodePlan {
            name: format!("n{}", at + 1),
            http: address(port),
            peer: address(port + 1),
            redis: 0,
            memcached: 0,
            config: PathBuf::new(),
            log: PathBuf::new(),
        });
    }
    Ok(nodes)
}

/// Chooses the ports of other protocols: the two after those of the node if they are free.
fn choose_protocols(nodes: &mut [NodePlan], is_free: impl Fn(u16) -> bool) -> Result<(), Failure> {
    let own = |node: &NodePlan| [node.http.port(), node.peer.port()];
    let mut taken: Vec<u16> = nodes.iter().flat_map(own).collect();
    for node in nodes {
        let preferred = node.peer.port().saturating_add(1);
        for (port, preferred) in [
            (&mut node.redis, preferred),
            (&mut node.memcached, preferred + 1),
        ] {
            let mut ports = std::iter::once(preferred).chain(REPLACEMENTS);
            let free = ports.find(|port| !taken.contains(port) && is_free(*port));
            *port = free.ok_or_else(|| Failure::failed("no free ports on loopback"))?;
            taken.push(*port);
        }
    }
    Ok(())
}

/// Returns whether the port is free on loopback.
fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn config_text(
    node: &NodePlan,
    data: &Path,
    peers: &[String],
    is_secure: bool,
) -> Result<String, Failure> {
    let Some(data) = data.to_str() else {
        return Err(Failure::usage("the name of the demo's folder is not UTF-8"));
    };
    // A JSON string is also a TOML basic string.
    let quoted = serde_json::Value::from(data);
    let peers = serde_json::Value::from(peers);
    let NodePlan {
        name,
        http,
        peer,
        redis,
        memcached,
        ..
    } = node;
    let url = node.url(is_secure);
    Ok(format!(
        "[node]\nname = \"{name}\"\ndata_dir = {quoted}\n\n\
         [http]\nlisten = \"{http}\"\nadvertise = \"{url}\"\n\n\
         [peer]\nlisten = \"{peer}\"\npeers = {peers}\nfound_after = \"0s\"\n\n\
         [redis]\nlisten = \"127.0.0.1:{redis}\"\n\n\
         [memcached]\nlisten = \"127.0.0.1:{memcached}\"\n\n\
         [compat]\nroutes = [\"leaf\", \"tinyid\", \"cosid\", \"katsubushi\"]\n\n\
         [log]\nformat = \"text\"\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(nodes: &[NodePlan]) -> Vec<(u16, u16)> {
        nodes
            .iter()
            .map(|node| (node.http.port(), node.peer.port()))
            .collect()
    }

    #[test]
    fn preferred_ports_are_taken_where_they_are_free() {
        let nodes = choose(|_| true).unwrap();
        assert_eq!(ports(&nodes), [(7400, 7401), (7410, 7411), (7420, 7421)]);
        assert_eq!(nodes[2].name, "n3");
    }

    #[test]
    fn busy_ports_are_replaced() {
        let busy = [7401, 7420, 7430, 7441];
        let nodes = choose(|port| !busy.contains(&port)).unwrap();
        assert_eq!(ports(&nodes), [(7450, 7451), (7410, 7411), (7460, 7461)]);
        assert!(choose(|_| false).is_err());
    }

    #[test]
    fn ports_of_other_protocols_follow_those_of_the_node() {
        let mut nodes = choose(|_| true).unwrap();
        let mut protocols = |busy: &[u16]| -> Vec<_> {
            choose_protocols(&mut nodes, |port| !busy.contains(&port)).unwrap();
            let ports = nodes.iter().map(|node| (node.redis, node.memcached));
            ports.collect()
        };
        assert_eq!(protocols(&[]), [(7402, 7403), (7412, 7413), (7422, 7423)]);
        let replaced = [(7430, 7403), (7412, 7432), (7422, 7423)];
        assert_eq!(protocols(&[7402, 7413, 7431]), replaced);
    }

    #[test]
    fn a_plan_is_found_again_and_its_files_are_complete() {
        let folder = tempfile::tempdir().unwrap();
        let (first, _) = make(folder.path(), false).unwrap();
        let (second, _) = make(folder.path(), false).unwrap();
        assert_eq!(first, second);
        let text = std::fs::read_to_string(&first[1].config).unwrap();
        let layers = seqd_node::config::Layers::default()
            .file("n2.toml", &text)
            .unwrap();
        let config = layers.resolve("host").unwrap().config;
        assert_eq!(config.node.name, "n2");
        assert_eq!(config.node.data_dir, folder.path().join("n2"));
        assert_eq!(config.http.listen, first[1].http);
        assert_eq!(config.peer.peers.len(), 3);
        assert_eq!(config.redis.listen.unwrap().port(), first[1].redis);
        assert_eq!(config.memcached.listen.unwrap().port(), first[1].memcached);
        assert_eq!(config.compat.routes.len(), 4);
    }

    #[test]
    fn a_secure_plan_has_certificates_and_a_token_that_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (nodes, secured) = make(folder.path(), true).unwrap();
        let secured = secured.unwrap();
        let token = secured.token().unwrap();
        let text = std::fs::read_to_string(&nodes[0].config).unwrap();
        let layers = seqd_node::config::Layers::default();
        let config = layers.file("n1.toml", &text).unwrap().resolve("host");
        let config = config.unwrap().config;
        assert!(config.auth.enabled && config.tls.peer_ca.is_some());
        assert!(config.http.advertise.starts_with("https:"));
        let (_, again) = make(folder.path(), true).unwrap();
        assert_eq!(again.unwrap().token().unwrap(), token);
        let refused = format!("{:?}", make(folder.path(), false).unwrap_err());
        assert!(refused.contains("founded with --secure"), "{refused}");
    }
}
