//! Certificates for tests: a CA, and a folder with its certificate and the certificates that it
//! signed.

#![allow(clippy::expect_used, clippy::missing_panics_doc)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::tls::certificate::Validity;
use crate::tls::issue::{Authority, Issued, Subject};

/// The number of seconds of a day.
pub const DAY: i64 = 24 * 3600;

#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
    ca: Authority,
    cert: String,
}

/// Returns the current time in Unix seconds.
#[must_use]
pub fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// Returns a validity from yesterday until this many seconds from now.
#[must_use]
pub fn for_seconds(seconds: i64) -> Validity {
    let yesterday = days(1);
    Validity {
        until: yesterday.until + seconds,
        ..yesterday
    }
}

/// Returns a validity of this many days from yesterday on.
#[must_use]
pub fn days(days: i64) -> Validity {
    let from = now() - DAY;
    Validity {
        from,
        until: from + days * DAY,
    }
}

/// Returns the subject of a node on loopback.
#[must_use]
pub fn node(name: &str) -> Subject {
    Subject::Node {
        name: name.to_owned(),
        hosts: vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
    }
}

impl Certificates {
    /// Creates a new CA in a folder with this name below `root`.
    #[must_use]
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

    #[must_use]
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// The file with the CA's certificate.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.path("ca.crt")
    }

    /// The CA's certificate as PEM.
    #[must_use]
    pub fn cert(&self) -> &str {
        &self.cert
    }

    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.ca
    }

    pub fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        std::fs::write(&path, text).expect("a file");
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, private).expect("its mode");
    }

    /// Writes a certificate and its key to `FILE.crt` and `FILE.key`.
    pub fn put(&self, file: &str, issued: &Issued) {
        self.write(&format!("{file}.key"), &issued.key);
        self.write(&format!("{file}.crt"), &issued.cert);
    }

    /// Signs a certificate, and writes it and its key.
    pub fn issue(&self, file: &str, subject: &Subject, validity: Validity) {
        let issued = self.ca.issue(subject, validity).expect("a certificate");
        self.put(file, &issued);
    }

    /// Signs the certificate of a node, whose files have the name of the node.
    pub fn issue_node(&self, name: &str, validity: Validity) {
        self.issue(name, &node(name), validity);
    }
}
