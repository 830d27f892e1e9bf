//! Detects a node that other machines can reach and that does not authenticate them.

use std::net::SocketAddr;

use super::keys::Config;
use super::values::ConfigError;

/// Checks that no other machine can act as a client or as a node without authentication.
/// `node.insecure` permits such a configuration. The returned text then describes what is open, for
/// the log of each start.
///
/// # Errors
/// The error describes what is open and how to close or permit it.
pub fn check_exposed(config: &Config) -> Result<Option<String>, ConfigError> {
    let open = exposed(config);
    if open.is_empty() {
        return Ok(None);
    }
    let open = open.join("; ");
    if config.node.insecure {
        return Ok(Some(format!("insecure: {open}")));
    }
    Err(ConfigError(format!(
        "{open}. Set [tls] (`seqd tls init` makes the certificates), or listen on 127.0.0.1 alone \
         (http.listen, peer.listen, redis.listen, memcached.listen), or permit it: --insecure, SEQD_INSECURE=true or \
         insecure = true under [node]"
    )))
}

/// Describes each port on which an unauthenticated machine could act as a client or as a node.
pub(crate) fn exposed(config: &Config) -> Vec<String> {
    let (peer, tls) = (config.peer.listen, &config.tls);
    let mut open = Vec::new();
    let ports = config.clients_ports();
    for (key, listen) in ports.filter(|(_, listen)| is_exposed(*listen)) {
        let clients = format!("{key} = {listen} serves other machines");
        if tls.cert.is_none() {
            open.push(format!("{clients} without TLS (tls.cert, tls.key)"));
        } else if tls.client_ca.is_none() && !config.auth.enabled {
            open.push(format!(
                "{clients} without authentication (tls.client_ca or auth.enabled)"
            ));
        }
    }
    if is_exposed(peer) && tls.peer_cert.is_none() {
        open.push(format!(
            "peer.listen = {peer} accepts peer messages from any machine (tls.peer_cert, \
             tls.peer_key, tls.peer_ca)"
        ));
    }
    open
}

fn is_exposed(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}
