//! Certificates for a cluster under test, signed by a CA of its own.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use seqd_tls::Validity;
use seqd_tls::issue::{Authority, Subject};

use crate::cluster::Cluster;
use crate::node::Node;

/// Seconds of a day.
pub const DAY: i64 = 24 * 3600;

/// A CA, and the folder with its certificate and those that it signed.
#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
    ca: Authority,
    cert: String,
}

/// A certificate that counts for so many seconds from now on, and since yesterday.
pub fn for_seconds(seconds: i64) -> Validity {
    let yesterday = days(1);
    Validity {
        until: yesterday.until + seconds,
        ..yesterday
    }
}

/// A certificate that counts for so many days from yesterday on.
pub fn days(days: i64) -> Validity {
    let since = SystemTime::UNIX_EPOCH.elapsed().expect("a clock");
    let from = i64::try_from(since.as_secs()).expect("a date") - DAY;
    Validity {
        from,
        until: from + days * DAY,
    }
}

impl Certificates {
    /// A new CA in a folder of this name below `root`.
    pub fn new(root: &Path, name: &str) -> Self {
        let folder = root.join(name);
        std::fs::create_dir_all(&folder).expect("a folder for certificates");
        let (ca, issued) = Authority::create("seqd test CA", days(3650)).expect("a CA");
        let made = Self {
            folder,
            ca,
            cert: issued.cert,
        };
        made.write("ca.crt", &made.cert);
        made
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// The file with the CA's certificate.
    pub fn ca(&self) -> PathBuf {
        self.path("ca.crt")
    }

    /// The CA's certificate as PEM.
    pub fn cert(&self) -> &str {
        &self.cert
    }

    pub fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        std::fs::write(&path, text).expect("a file");
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, private).expect("its mode");
    }

    /// Signs a certificate, and writes it and its key to `FILE.crt` and `FILE.key`.
    pub fn issue(&self, file: &str, subject: &Subject, validity: Validity) {
        let issued = self.ca.issue(subject, validity).expect("a certificate");
        self.write(&format!("{file}.key"), &issued.key);
        self.write(&format!("{file}.crt"), &issued.cert);
    }

    /// Signs the certificate of a node, whose file is named like it.
    pub fn issue_node(&self, name: &str, validity: Validity) {
        self.issue(name, &node(name), validity);
    }

    /// Serves clients over TLS from the node's next start on.
    pub fn serve_clients(&self, node: &mut Node, file: &str) {
        node.set_secure();
        self.set(node, "cert", &format!("{file}.crt"));
        self.set(node, "key", &format!("{file}.key"));
    }

    /// Meets the other nodes over TLS from the node's next start on.
    pub fn meet_peers(&self, node: &mut Node, file: &str) {
        self.set(node, "peer_cert", &format!("{file}.crt"));
        self.set(node, "peer_key", &format!("{file}.key"));
        self.set(node, "peer_ca", "ca.crt");
    }

    /// Gives every node of a cluster its certificate, for clients and for the other nodes.
    pub fn secure(&self, cluster: &mut Cluster, validity: Validity) {
        for index in 0..cluster.size() {
            let node = cluster.node_mut(index);
            let name = node.name().to_owned();
            self.issue_node(&name, validity);
            self.serve_clients(node, &name);
            self.meet_peers(node, &name);
        }
    }

    /// Sets a key of `[tls]` to one of these files.
    pub fn set(&self, node: &mut Node, key: &str, file: &str) {
        let path = self.path(file).display().to_string();
        node.set("tls", key, &format!("{path:?}"));
    }
}

/// A node on loopback.
pub fn node(name: &str) -> Subject {
    Subject::Node {
        name: name.to_owned(),
        hosts: vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
    }
}
