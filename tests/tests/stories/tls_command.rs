//! `seqd tls`: from an empty folder to a node that serves with the created files.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use seqd_tests::binary;
use seqd_tests::certificates::{Certificates, for_seconds};
use seqd_tests::cluster::Cluster;

fn tls(arguments: &[&str]) -> Output {
    binary::run(&[&["tls"], arguments].concat())
}

#[track_caller]
fn text(output: &Output, code: i32) -> String {
    let (out, talk) = (&output.stdout, &output.stderr);
    let text = [String::from_utf8_lossy(out), String::from_utf8_lossy(talk)].concat();
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn certificates_of_tls_init_work_are_renewed_and_never_overwritten() {
    let mut cluster = Cluster::planned(1);
    let dir = cluster.folder().join("tls");
    let given = dir.display().to_string();
    let init = [
        "init",
        "--dir",
        &given,
        "--nodes",
        "n1=127.0.0.1,n2=n2.example",
    ];
    let made = text(&tls(&[&init[..], &["--client", "app"]].concat()), 0);
    for part in [
        "copy   ca.crt n2.crt n2.key   to /etc/seqd/tls on n2.example",
        "copy   ca.crt app.crt app.key   to the client app",
        "peer_cert = \"/etc/seqd/tls/n1.crt\"",
        "--cacert ca.crt --cert app.crt --key app.key status",
    ] {
        assert!(made.contains(part), "{part:?} in:\n{made}");
    }
    for key in ["ca.key", "n1.key", "n2.key", "app.key"] {
        assert_eq!(mode(&dir.join(key)), 0o600, "{key}");
    }
    assert_eq!(mode(&dir), 0o700);
    let before = std::fs::read(dir.join("n1.crt")).unwrap();
    let again = text(&tls(&init), 6);
    assert!(
        again.contains("already exists and is not overwritten"),
        "{again}"
    );

    let file = |name: &str| dir.join(name).display().to_string();
    let shown = tls(&[
        "inspect",
        &file("n1.crt"),
        &file("app.crt"),
        &file("ca.crt"),
        "-o",
        "json",
    ]);
    let shown: serde_json::Value = serde_json::from_str(&text(&shown, 0)).unwrap();
    assert_eq!(shown[0]["name"], "n1");
    assert_eq!(shown[0]["kind"], "node");
    assert_eq!(shown[0]["key"], "fits");
    assert_eq!(shown[0]["days_left"], 365);
    assert_eq!(shown[1]["uses"], serde_json::json!(["client"]));
    assert_eq!(shown[2]["kind"], "ca");

    // A node serves with the files, including renewed ones.
    let renewed = text(
        &tls(&["renew", "--dir", &given, "--node", "n1", "--days", "30"]),
        0,
    );
    assert!(
        renewed.contains("n1.crt") && !renewed.contains("n2.crt"),
        "{renewed}"
    );
    assert_ne!(before, std::fs::read(dir.join("n1.crt")).unwrap());
    let node = cluster.node_mut(0);
    node.set_secure();
    for (key, name) in [
        ("cert", "n1.crt"),
        ("key", "n1.key"),
        ("client_ca", "ca.crt"),
        ("peer_cert", "n1.crt"),
        ("peer_key", "n1.key"),
        ("peer_ca", "ca.crt"),
    ] {
        node.set("tls", key, &format!("{:?}", file(name)));
    }
    node.start();
    let (ca, cert, key) = (file("ca.crt"), file("app.crt"), file("app.key"));
    let own = ["--cacert", &ca, "--cert", &cert, "--key", &key];
    let url = cluster.node(0).url();
    seqd_tests::wait::until("an ID", seqd_tests::cluster::READY, || {
        let id = binary::run(&[&own[..], &["-e", &url, "id"]].concat());
        id.status.success().then_some(())
    });
    let unknown = text(&tls(&["renew", "--dir", &given, "--node", "n9"]), 3);
    assert!(unknown.contains("n9.crt does not exist"), "{unknown}");
}

#[test]
fn tls_inspect_exits_with_7_for_unusable_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(folder.path(), "tls");
    certificates.issue_node("n1", for_seconds(-5));
    certificates.issue_node("n2", for_seconds(3600));
    let key = std::fs::read_to_string(certificates.path("n1.key")).unwrap();
    certificates.write("n2.key", &key);
    let path = |name: &str| certificates.path(name).display().to_string();
    let expired = text(&tls(&["inspect", &path("n1.crt")]), 7);
    assert!(expired.contains("expired on 2"), "{expired}");
    let other = text(&tls(&["inspect", &path("n2.crt")]), 7);
    assert!(other.contains("is another certificate's"), "{other}");
    let none = text(&tls(&["inspect", &path("n2.key")]), 1);
    assert!(none.contains("has no certificate"), "{none}");
    let names = text(
        &tls(&["init", "--dir", &path("x"), "--nodes", "a=b:7401"]),
        2,
    );
    assert!(names.contains("without a port"), "{names}");
    let twice = text(
        &tls(&["init", "--dir", &path("x"), "--nodes", "a=b,a=c"]),
        2,
    );
    assert!(twice.contains("a is listed twice"), "{twice}");
    assert!(!certificates.path("x").exists());
}
