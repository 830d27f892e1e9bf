//! `soak rolling`: every node of a cluster is restarted under load, behind HAProxy.

use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::rolling::{RollingRun, run_rolling_restarts};
use seqd_tests::{balancer, skips};

use super::arguments::Arguments;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    if skips::ends("rolling restarts", balancer::unavailable()) {
        return Err(Violation::new("balancer", "haproxy is needed"));
    }
    arguments.allow("--rounds --drain-ms --check-ms");
    let ms = |name: &str, default| Duration::from_millis(arguments.value(name, default));
    let run = RollingRun {
        rounds: arguments.value("--rounds", 10),
        drain: ms("--drain-ms", 5000),
        check_every: ms("--check-ms", 1000),
    };
    let requests = run_rolling_restarts(&run)?;
    println!("{} rounds, {requests} requests, 0 failed", run.rounds);
    Ok(())
}
