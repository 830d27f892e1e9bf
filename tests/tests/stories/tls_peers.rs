//! TLS between nodes: a certificate opens the port of its own cluster, for its own node, as long as
//! it is valid. All certificates and their CA are replaced while clients are served.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use seqd_tests::certificates::{Certificates, Secures as _, days, for_seconds};
use seqd_tests::cluster::Cluster;
use seqd_tests::http;
use seqd_tests::wait::{self, SetsAtEnd};

/// The time limit of steps that take seconds on an idle machine: several polls of the files, or a
/// start.
const PATIENCE: Duration = Duration::from_secs(90);

/// Three nodes with certificates for clients and for each other. None is started.
fn secured() -> (Cluster, Certificates) {
    let mut cluster = Cluster::planned(3).patient();
    let certificates = Certificates::new(cluster.folder(), "certificates");
    certificates.secure(&mut cluster, days(365));
    (cluster, certificates)
}

/// Waits until a node's stderr contains all of these words.
#[track_caller]
fn wait_for_words(cluster: &Cluster, index: usize, words: &[&str]) {
    let node = cluster.node(index);
    let found = wait::within(PATIENCE, || {
        let text = node.stderr();
        let has_all = words.iter().all(|word| text.contains(word));
        has_all.then_some(())
    });
    assert!(found.is_some(), "{words:?} in:\n{}", node.tail());
}

#[test]
fn three_nodes_found_a_cluster_over_tls_and_continue_after_a_kill() {
    let (cluster, _certificates) = secured();
    let mut cluster = cluster.ready().with_order();
    let values: Vec<_> = (0..3)
        .map(|index| cluster.next(index, "order", 1))
        .collect();
    assert_eq!(values, [(1, 1), (2, 2), (3, 3)]);
    cluster.node_mut(2).kill();
    cluster.node_mut(2).start();
    cluster.wait_ready();
    assert_eq!(cluster.next(2, "order", 1), (4, 4));
}

#[test]
fn a_node_with_another_cluster_s_certificate_is_refused_and_both_sides_log_it() {
    let (mut cluster, _certificates) = secured();
    let foreign = Certificates::new(cluster.folder(), "foreign");
    foreign.issue_node("n3", days(365));
    foreign.meet_peers(cluster.node_mut(2), "n3");
    cluster.start_all();
    let unknown = "its certificate is not signed by a CA that is trusted here";
    wait_for_words(
        &cluster,
        0,
        &[
            "peers: the TLS handshake with",
            unknown,
            "waiting for quorum: seen 2/3 (",
        ],
    );
    wait_for_words(
        &cluster,
        2,
        &[
            "it does not trust the CA of this side's certificate",
            unknown,
            "seen 1/3",
        ],
    );
}

#[test]
fn a_joiner_that_no_peer_admits_logs_how_to_get_a_certificate() {
    let (mut cluster, _certificates) = secured();
    let joiner = cluster.add_stranger("n4");
    let foreign = Certificates::new(cluster.folder(), "foreign");
    foreign.issue_node("n4", days(365));
    foreign.meet_peers(cluster.node_mut(joiner), "n4");
    cluster.start_all();
    wait_for_words(
        &cluster,
        joiner,
        &[
            "waiting to be added: n4 is not among the configured peers",
            "its certificate is not signed by a CA that is trusted here",
            "tls.peer_ca",
            "`seqd tls add --node n4=HOST`",
        ],
    );
}

#[test]
fn the_right_certificate_of_another_node_is_refused_and_both_sides_log_it() {
    let (mut cluster, certificates) = secured();
    // A node of the same cluster, n9, at the address at which n1 and n2 expect n3.
    certificates.issue_node("n9", days(365));
    let peers: Vec<String> = cluster.peers();
    let other = cluster.node_mut(2);
    other.set("node", "name", "\"n9\"");
    let own = [&peers[0], &peers[1], &peers[2].replace("n3=", "n9=")];
    other.set("peer", "peers", &format!("{own:?}"));
    certificates.meet_peers(other, "n9");
    cluster.start_all();
    let named = "its certificate belongs to n9, but n3 is expected there";
    wait_for_words(
        &cluster,
        0,
        &["peers: the TLS handshake with", named, "seen 2/3 ("],
    );
    let told = "it rejects this side's certificate: it does not belong to the expected node";
    wait_for_words(&cluster, 2, &["peers' port: the TLS handshake with", told]);
}

#[test]
fn an_expired_certificate_is_refused_and_both_sides_log_it() {
    let (mut cluster, certificates) = secured();
    // The certificate is valid while its own node starts, and has expired when the others connect
    // to it.
    let seconds = 20;
    certificates.issue_node("n3", for_seconds(seconds));
    let expires = Instant::now() + Duration::from_secs(seconds.unsigned_abs() + 2);
    cluster.node_mut(2).start();
    wait::until("the certificate's end", PATIENCE, || {
        (Instant::now() > expires).then_some(())
    });
    cluster.node_mut(0).start();
    cluster.node_mut(1).start();
    wait_for_words(
        &cluster,
        0,
        &[
            "peers: the TLS handshake with",
            "its certificate expired on 2",
            "seen 2/3 (",
        ],
    );
    let told = "it rejects this side's certificate: it has expired";
    wait_for_words(&cluster, 2, &[told, "certificate expires in 0 days"]);
    // A node that is started with an expired certificate refuses by itself.
    cluster.node_mut(2).kill();
    cluster.node_mut(2).start();
    let ended = cluster.node_mut(2).exit_within(PATIENCE);
    assert_eq!(ended.code(), Some(2));
    wait_for_words(&cluster, 2, &["n3.crt: the certificate expired on 2"]);
}

#[test]
fn a_node_without_tls_logs_that_the_others_use_it() {
    let (mut cluster, _certificates) = secured();
    for key in ["peer_cert", "peer_key", "peer_ca"] {
        cluster.node_mut(2).unset("tls", key);
    }
    cluster.start_all();
    let told = "this node uses TLS with its peers, but the caller does not";
    wait_for_words(&cluster, 2, &["waiting for quorum", told]);
    let closed = "it closed the connection in the TLS handshake: check that its [tls] settings \
        match";
    wait_for_words(&cluster, 0, &[closed, "it does not speak TLS"]);
}

#[test]
fn certificates_and_their_ca_are_replaced_under_load_without_a_failed_request() {
    let (cluster, old) = secured();
    let cluster = cluster.ready().with_order();
    let new = Certificates::new(cluster.folder(), "new");
    let both = format!("{}{}", new.cert(), old.cert());
    let (stop, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    // Every other connection is a new one, so that each certificate in force is used.
    let ask = |path: &str, index: usize| {
        while !stop.load(Ordering::Relaxed) {
            let count = served.fetch_add(1, Ordering::Relaxed);
            let request = http::post(&cluster.url(index, path));
            let request = match count % 2 {
                0 => request.header("connection", "close"),
                _ => request,
            };
            request.reply().ok();
        }
    };
    let times = |words: &str, index: usize| cluster.node(index).stderr().matches(words).count();
    let taken = |count: usize| {
        for index in 0..3 {
            wait::until("new files in force", PATIENCE, || {
                let peer = times("tls: new peer certificate in force", index);
                (peer >= count).then_some(())
            });
        }
    };
    std::thread::scope(|scope| {
        let ask = &ask;
        for index in 0..3 {
            scope.spawn(move || ask("/v1/id", index));
            scope.spawn(move || ask("/v1/sequences/order/next", index));
        }
        // Ends the load even if a step below fails.
        let _end = SetsAtEnd(&stop);
        // First both CAs are trusted, then all certificates are replaced, then the old CA is
        // removed.
        old.write("ca.crt", &both);
        taken(1);
        for name in ["n1", "n2", "n3"] {
            new.issue_node(name, days(300));
            for kind in ["crt", "key"] {
                let file = format!("{name}.{kind}");
                let text = std::fs::read_to_string(new.path(&file)).unwrap();
                old.write(&file, &text);
            }
        }
        taken(2);
        old.write("ca.crt", new.cert());
        taken(3);
        let before = served.load(Ordering::Relaxed);
        wait::until("requests after that", PATIENCE, || {
            (served.load(Ordering::Relaxed) > before + 30).then_some(())
        });
    });
    // A restarted node connects to the others with only the new files.
    let mut cluster = cluster;
    cluster.node_mut(1).stop();
    cluster.node_mut(1).start();
    cluster.wait_ready();
    assert!(served.into_inner() > 100);
}
