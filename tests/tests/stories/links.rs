//! Real nodes on links that are cut, slow, far and broken: a few of the faults that `soak links`
//! brings about at length, each for seconds.
//!
//! Where there can be no such links (see `seqd_tests::links`) a story prints that and ends.

use std::time::Duration;

use seqd_tests::failover::{LOSSES, cluster, lose_leader};
use seqd_tests::link_faults::LinkFault;
use seqd_tests::link_runs::{Figures, LONGEST_PAUSE, LinkRun};
use seqd_tests::{links, skips};

/// The time of a fault: longer than a heartbeat, an election and a request's timeout.
const LENGTH: Duration = Duration::from_secs(5);

/// Runs a fault of `soak links` on three nodes; nothing where there are no links.
fn three_nodes_under(fault: &str) -> Option<Figures> {
    if skips::ends(&format!("links {fault}"), links::unavailable()) {
        return None;
    }
    let run = LinkRun {
        nodes: 3,
        fault: LinkFault::named(fault).expect("a fault of the table"),
        length: LENGTH,
    };
    let (figures, verdict) = run.judged();
    let figures = figures.expect("figures of a fault that bit");
    println!("{figures}");
    assert_eq!(verdict, Ok(()), "{figures}");
    Some(figures)
}

#[test]
fn a_majority_goes_on_without_a_leader_that_is_cut_off() {
    if let Some(figures) = three_nodes_under("leader-alone") {
        assert!(figures.elections > 0 && figures.strict > 0, "{figures}");
    }
}

#[test]
fn a_follower_that_is_cut_off_deposes_nobody() {
    if let Some(figures) = three_nodes_under("follower-alone") {
        assert_eq!(figures.elections, 0, "{figures}");
        assert!(figures.strict > 0, "{figures}");
    }
}

#[test]
fn values_go_on_over_round_trips_of_50_ms() {
    if let Some(figures) = three_nodes_under("rtt-50") {
        assert_eq!(figures.elections, 0, "{figures}");
        assert!(figures.strict > 0, "{figures}");
    }
}

#[test]
fn values_go_on_when_followers_have_12_mbit_per_second() {
    if let Some(figures) = three_nodes_under("mbit-12") {
        assert_eq!(figures.elections, 0, "{figures}");
        assert!(figures.strict > 0, "{figures}");
    }
}

#[test]
fn values_go_on_when_a_follower_and_the_leader_get_resets() {
    if let Some(figures) = three_nodes_under("leader-and-one-reset") {
        assert!(figures.strict > 0, "{figures}");
    }
}

/// How fast it is, `soak failover` measures.
#[test]
fn a_leader_that_is_killed_stopped_cut_off_or_silent_is_replaced() {
    if skips::ends("links failover", links::unavailable()) {
        return;
    }
    let mut cluster = cluster(3);
    for (name, loss) in LOSSES {
        let seen = lose_leader(&mut cluster, loss, 8).unwrap();
        println!("{name}: {seen:?}");
        assert!(seen.terms > 0, "{name}: {seen:?}");
        let told = seen.told.unwrap_or_default();
        let late = seen.next.max(told);
        assert!(late <= LONGEST_PAUSE, "{name}: {seen:?}");
    }
}

#[test]
fn values_go_on_over_round_trips_of_100_ms_with_loss() {
    if let Some(figures) = three_nodes_under("rtt-100-loss-2") {
        assert!(figures.strict > 0, "{figures}");
    }
}
