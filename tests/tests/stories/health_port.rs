//! The health port, and a stop that is announced.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use seqd_tests::callers::guarded;
use seqd_tests::cluster::Cluster;
use seqd_tests::http::get;
use seqd_tests::ports::Port;
use seqd_tests::rolling::{RollingRun, run_rolling_restarts};
use seqd_tests::{balancer, skips};

/// The time for which a node announces its stop in a rolling restart.
const DRAIN: Duration = Duration::from_secs(2);

fn with_health(mut cluster: Cluster) -> (Cluster, Port) {
    let port = Port::free();
    let listen = format!("{:?}", port.address());
    cluster.node_mut(0).set("health", "listen", &listen);
    (cluster, port)
}

#[test]
fn the_health_port_needs_no_token_and_serves_nothing_else() {
    let (cluster, port) = with_health(Cluster::planned(1));
    let (_cluster, _file) = guarded(cluster);
    let ask = |path: &str| {
        let request = get(&format!("http://{}{path}", port.address()));
        // A balancer sends any name.
        request.header("host", "balancer.example").reply()
    };
    for path in ["/livez", "/readyz", "/readyz?for=ids", "/metrics"] {
        ask(path).ok();
    }
    for path in ["/v1/id", "/v1/cluster", "/version", "/v1/config"] {
        ask(path).refused(404, "not-found");
    }
}

#[test]
fn a_node_with_a_drain_fails_its_readiness_and_serves_on_before_it_stops() {
    const LONG_DRAIN: Duration = Duration::from_secs(5);
    let (cluster, port) = with_health(Cluster::planned(1));
    let drain = format!("\"{}s\"", LONG_DRAIN.as_secs());
    let mut cluster = cluster.with("http", "drain", &drain).ready();
    let begun = Instant::now();
    cluster.node_mut(0).signal(Signal::TERM);
    let mut served = 0;
    let mut announced = false;
    // A request in the last two seconds could outlast the drain on a busy machine.
    while begun.elapsed() < LONG_DRAIN - Duration::from_secs(2) {
        cluster.get(0, "/v1/id").ok();
        let ready = get(&format!("http://{}/readyz", port.address())).reply();
        announced |= ready.status == 503;
        served += 1;
        thread::sleep(Duration::from_millis(20));
    }
    assert!(announced && served > 5, "{served} served");
    let status = cluster
        .node_mut(0)
        .exit_within(LONG_DRAIN + Duration::from_secs(10));
    assert_eq!(status.code(), Some(0));
    assert!(begun.elapsed() >= LONG_DRAIN);
}

#[test]
fn a_rolling_restart_with_a_balancer_fails_no_request() {
    if skips::ends("a balancer", balancer::unavailable()) {
        return;
    }
    let run = RollingRun {
        rounds: 1,
        drain: DRAIN,
        check_every: Duration::from_millis(200),
    };
    let requests = run_rolling_restarts(&run).unwrap_or_else(|why| panic!("{why}"));
    assert!(requests > 100, "only {requests} requests");
}
