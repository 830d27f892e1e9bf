//! TLS: the behaviour towards clients of a node with a certificate, and of one without.

use std::process::Output;
use std::time::Duration;

use seqd_net::tls::issue::Subject;
use seqd_tests::certificates::{Certificates, DAY, Secures as _, days};
use seqd_tests::cluster::Cluster;
use seqd_tests::{binary, http, wait};

/// The time for several polls of the files on a busy machine.
const TAKEN: Duration = Duration::from_secs(60);

/// A cluster of one node that serves clients over TLS.
fn secured() -> (Cluster, Certificates) {
    let mut cluster = Cluster::planned(1);
    let certificates = Certificates::new(cluster.folder(), "certificates");
    certificates.issue_node("n1", days(365));
    certificates.serve_clients(cluster.node_mut(0), "n1");
    (cluster, certificates)
}

fn run(endpoint: &str, certificates: &[&str], arguments: &[&str]) -> Output {
    binary::run(&[&["-e", endpoint], certificates, arguments].concat())
}

#[track_caller]
fn fails(output: Output, part: &str) {
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{words}");
    assert!(words.contains(part), "{part:?} in: {words}");
}

#[test]
fn clients_reach_a_node_over_tls_or_receive_the_reason() {
    let (mut cluster, certificates) = secured();
    let client = Subject::Client {
        name: "app".to_owned(),
    };
    certificates.issue("app", &client, days(365));
    cluster = cluster.ready();
    let (url, address) = (cluster.node(0).url(), cluster.address(0));
    let ca = certificates.ca().display().to_string();

    let trusting = ["--cacert", ca.as_str()];
    let id = run(&url, &trusting, &["id"]);
    assert!(id.status.success(), "{id:?}");
    // With a CA, TLS is the default if no scheme is given.
    assert!(run(&address, &trusting, &["status"]).status.success());

    let stranger = Certificates::new(cluster.folder(), "stranger");
    let strange = stranger.ca().display().to_string();
    let unknown = run(&url, &["--cacert", &strange], &["id"]);
    fails(
        unknown,
        "its certificate is not signed by a CA that is trusted here",
    );

    let renamed = url.replace("127.0.0.1", "127.0.0.2");
    let other = run(&renamed, &trusting, &["id"]);
    let other = String::from_utf8_lossy(&other.stderr).into_owned();
    // The test does not depend on whether another process listens there.
    assert!(
        !other.contains("NotValid"),
        "no names of the library: {other}"
    );

    let plain = http::get(&format!("http://{address}/v1/id")).reply();
    let plain = plain.refused(400, "invalid-argument");
    assert!(
        plain.detail().contains("this port requires TLS"),
        "{}",
        plain.body
    );
    let refused = run(&format!("http://{address}"), &[], &["id"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{words}");
    assert!(words.contains("use https://"), "{words}");

    // While TLS is switched on, clients have both addresses of a node. Nothing was processed.
    let body: serde_json::Value = serde_json::from_str(&plain.body).expect("a problem");
    assert_eq!(body["tls_required"], true, "{body}");
    let both = format!("http://{address},https://{address}");
    for arguments in [&["seq", "create", "a"][..], &["id"]] {
        let served = run(&both, &trusting, arguments);
        assert!(served.status.success(), "{served:?}");
    }

    // From now on clients must present a certificate.
    certificates.set(cluster.node_mut(0), "client_ca", "ca.crt");
    cluster.node_mut(0).stop();
    cluster.node_mut(0).start();
    let (cert, key) = (certificates.path("app.crt"), certificates.path("app.key"));
    let (cert, key) = (cert.display().to_string(), key.display().to_string());
    let known = [&trusting[..], &["--cert", &cert, "--key", &key]].concat();
    let served = || run(&url, &known, &["id"]).status.success();
    wait::until("served with a certificate", TAKEN, || {
        served().then_some(())
    });
    let without = run(&url, &trusting, &["id"]);
    fails(without, "it requires a client's certificate");
}

#[test]
fn a_client_that_uses_tls_with_a_plain_node_gets_an_error() {
    let cluster = Cluster::started(1);
    let url = cluster.node(0).url().replace("http://", "https://");
    let certificates = Certificates::new(cluster.folder(), "certificates");
    let ca = certificates.ca().display().to_string();
    fails(
        run(&url, &["--cacert", &ca], &["id"]),
        "it does not speak TLS",
    );
}

#[test]
fn a_renewed_certificate_counts_without_a_restart_and_a_broken_one_does_not() {
    let (mut cluster, certificates) = secured();
    cluster = cluster.ready();
    let url = cluster.node(0).url();
    let expiry = || {
        let text = http::get(&format!("{url}/metrics")).reply().ok().body;
        let name = "seqd_tls_certificate_expiry_timestamp_seconds{use=\"client\"} ";
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.expect("the metric").parse::<f64>().expect("a number") as i64
    };
    let before = expiry();
    certificates.issue_node("n1", days(300));
    let renewed = wait::until("the new certificate", TAKEN, || {
        Some(expiry()).filter(|found| *found != before)
    });
    assert!(
        (before - renewed - 65 * DAY).abs() < 3600,
        "{before} {renewed}"
    );
    certificates.write("n1.key", "no key");
    let told = || {
        let text = cluster.node(0).stderr();
        text.contains("the previous one stays in force")
            .then_some(())
    };
    wait::until("a line about the broken key", TAKEN, told);
    assert_eq!(expiry(), renewed);
    assert!(http::get(&format!("{url}/v1/id")).reply().ok().status == 200);
}

#[test]
fn a_node_that_anybody_could_talk_to_does_not_start() {
    let mut cluster = Cluster::planned(1);
    let node = cluster.node_mut(0);
    let port = node.http_address().rsplit_once(':').unwrap().1.to_owned();
    node.set("http", "listen", &format!("\"0.0.0.0:{port}\""));
    node.start();
    assert_eq!(node.exit_within(TAKEN).code(), Some(2));
    let words = node.stderr();
    assert!(
        words.contains("serves other machines without TLS"),
        "{words}"
    );
    assert!(words.contains("SEQD_INSECURE=true"), "{words}");
    assert!(!node.data().exists(), "nothing was done");
}
