//! Certificates for a cluster under test.

pub use seqd_net::tls::testing::{Certificates, DAY, days, for_seconds, node};

use seqd_net::tls::Validity;

use crate::cluster::Cluster;
use crate::node::Node;

/// Configures nodes of a cluster to use certificates.
pub trait Secures {
    /// Makes the node serve clients over TLS from its next start on.
    fn serve_clients(&self, node: &mut Node, file: &str);

    /// Makes the node use TLS between nodes from its next start on.
    fn meet_peers(&self, node: &mut Node, file: &str);

    /// Gives every node of a cluster its certificate, for clients and for the other nodes.
    fn secure(&self, cluster: &mut Cluster, validity: Validity);

    /// Sets a key of `[tls]` to one of these files.
    fn set(&self, node: &mut Node, key: &str, file: &str);
}

impl Secures for Certificates {
    fn serve_clients(&self, node: &mut Node, file: &str) {
        node.set_secure();
        self.set(node, "cert", &format!("{file}.crt"));
        self.set(node, "key", &format!("{file}.key"));
    }

    fn meet_peers(&self, node: &mut Node, file: &str) {
        self.set(node, "peer_cert", &format!("{file}.crt"));
        self.set(node, "peer_key", &format!("{file}.key"));
        self.set(node, "peer_ca", "ca.crt");
    }

    fn secure(&self, cluster: &mut Cluster, validity: Validity) {
        for index in 0..cluster.size() {
            let node = cluster.node_mut(index);
            let name = node.name().to_owned();
            self.issue_node(&name, validity);
            self.serve_clients(node, &name);
            self.meet_peers(node, &name);
        }
    }

    fn set(&self, node: &mut Node, key: &str, file: &str) {
        let path = self.path(file).display().to_string();
        node.set("tls", key, &format!("{path:?}"));
    }
}
