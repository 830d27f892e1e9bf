//! New certificates of a CA that has expired, or that expires before them.

use std::fs;
use std::path::Path;

use clap::Parser;
use seqd_client::api::exit;
use seqd_net::tls::issue::{Authority, Subject};
use seqd_net::tls::{Certificate, Validity, read_certificates};

use super::folder::CA;
use super::{Folder, TlsCommand, now, run};
use crate::format::Format;

const DAY: i64 = 24 * 3600;

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: TlsCommand,
}

/// Creates a folder with a CA that expires after `days`, and the certificate of a node.
fn folder(dir: &Path, days: i64) -> Folder {
    let folder = Folder::new(dir);
    let validity = Validity {
        from: now() - 30 * DAY,
        until: now() + days * DAY,
    };
    let (authority, ca) = Authority::create("seqd CA", validity).unwrap();
    let node = Subject::Node {
        name: "n1".to_owned(),
        hosts: vec!["n1.example".to_owned()],
    };
    let issued = authority.issue(&node, validity).unwrap();
    folder.put(CA, &ca).unwrap();
    folder.put("n1", &issued).unwrap();
    folder
}

/// Runs a command of `seqd tls`. Returns its exit code and its error.
fn exit_of(dir: &Path, line: &str) -> (u8, String) {
    let words = ["tls"].into_iter().chain(line.split(' '));
    let words = words
        .map(str::to_owned)
        .chain(["--dir".to_owned(), dir.to_str().unwrap().to_owned()]);
    match run(Line::parse_from(words).command, Format::Table) {
        Ok(code) => (code, String::new()),
        Err(failure) => (failure.exit, failure.detail().to_owned()),
    }
}

#[test]
fn an_expired_ca_signs_nothing_and_no_file_changes() {
    let dir = tempfile::tempdir().unwrap();
    let folder = folder(dir.path(), -1);
    let before = fs::read(folder.cert("n1")).unwrap();
    for line in ["renew", "renew --node n1", "add --node n2=n2.example"] {
        let (code, detail) = exit_of(dir.path(), line);
        assert_eq!(code, exit::CONFLICT, "{line}: {detail}");
        assert!(detail.contains("ca.crt expired at"), "{detail}");
        assert!(detail.contains("A new CA"), "{detail}");
    }
    assert_eq!(fs::read(folder.cert("n1")).unwrap(), before);
    assert!(!folder.cert("n2").exists());
}

#[test]
fn a_ca_that_ends_soon_shortens_the_validity() {
    let dir = tempfile::tempdir().unwrap();
    let folder = folder(dir.path(), 10);
    let (code, detail) = exit_of(dir.path(), "renew");
    assert_eq!(code, exit::OK, "{detail}");
    let chain = read_certificates(&folder.cert("n1")).unwrap();
    let renewed = Certificate::read(&chain[0]).unwrap().validity;
    assert!((renewed.until - now() - 10 * DAY).abs() < 3600);
}
