//! Rolling restarts behind a balancer, with clients that know only the balancer.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::balancer::{self, Balancer};
use crate::checkers::{Violation, linearizable, require, unique};
use crate::cluster::{Cluster, READY};
use crate::history::{History, Op, Timeline, reasons, tally};
use crate::wait;
use crate::workload::{Load, Route, Workload};

/// The load and the restarts.
#[derive(Debug)]
pub struct RollingRun {
    /// The number of times that every node is restarted.
    pub rounds: u64,
    /// `http.drain` of each node.
    pub drain: Duration,
    /// Time between two checks of the balancer. It no longer uses a node after two.
    pub check_every: Duration,
}

/// Restarts each node in turn under load. Every request must succeed at the first try, no number
/// repeats, and no acknowledged value is lost. Returns the number of requests.
pub fn run_rolling_restarts(run: &RollingRun) -> Result<usize, Violation> {
    let drain = format!("\"{}ms\"", run.drain.as_millis());
    // A pause of a busy machine must not end a leadership: only the restarts may.
    let mut cluster = Cluster::planned(3).with("http", "drain", &drain).patient();
    let health = balancer::with_health_ports(&mut cluster);
    let mut cluster = cluster.ready().with_order();
    let small = json!({"segment": {"min": 100, "max": 1000}});
    cluster.create_sequence(0, "tickets", &small);
    let balancer = Balancer::start(&cluster, health, run.check_every);
    let timeline = Timeline::begin();
    let load = Load {
        urls: vec![balancer.url()],
        ..cluster.load(4, Route::Fixed, 1, 2)
    };
    let ids = Workload::ids(load.clone(), timeline);
    let order = Workload::next(load.clone(), timeline, "order");
    let tickets = Workload::next(load, timeline, "tickets");
    for round in 1..=run.rounds {
        for node in 0..cluster.size() {
            let began = Instant::now();
            cluster.node(node).signal(rustix::process::Signal::TERM);
            let stopped = cluster.node_mut(node).exit_within(run.drain + READY);
            require(stopped.success(), "clean stop", stopped.to_string())?;
            let stopped = began.elapsed();
            cluster.node_mut(node).start();
            cluster.wait_ready_of(&[node], READY);
            wait::until("the balancer uses every node again", READY, || {
                (balancer.used() == Some(cluster.size())).then_some(())
            });
            let (name, back) = (cluster.node(node).name(), began.elapsed());
            println!(
                "round {round}: {name} stopped after {stopped:.1?}, used again after {back:.1?}"
            );
        }
    }
    let (ids, order, tickets) = (ids.finish(), order.finish(), tickets.finish());
    let sent = report("IDs", &ids) + report("strict", &order) + report("segment", &tickets);
    all_succeeded(&ids)?;
    all_succeeded(&order)?;
    all_succeeded(&tickets)?;
    unique::numbers(&ids)?;
    unique::numbers(&tickets)?;
    linearizable::strict(&order)?;
    Ok(sent)
}

fn report<T>(what: &str, history: &History<T>) -> usize {
    let (tally, reasons) = (tally(history), reasons(history));
    println!("{what} (ok, unknown, refused): {tally:?} {reasons:?}");
    history.len()
}

fn all_succeeded<T>(history: &History<T>) -> Result<(), Violation> {
    let failed = |op: &&Op<T>| op.answer().is_none();
    let failures = history.iter().filter(failed).count();
    let detail = format!(
        "{failures} of {} failed: {:?}",
        history.len(),
        reasons(history)
    );
    require(failures == 0, "every first try succeeds", detail)
}
