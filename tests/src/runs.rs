//! Runs that a story makes in seconds and the `soak` binary at length.

use std::time::Duration;

use serde_json::json;

use crate::checkers::{Violation, increasing, linearizable, lost, pauses, unique};
use crate::cluster::{Cluster, READY};
use crate::faults::Paused;
use crate::history::{Op, Timeline, Values, reasons, tally};
use crate::wait;
use crate::workload::{Route, Workload};

/// The longest time from the leader's death to the response to a request in flight: the request's
/// timeout of 3 s, plus a margin for a busy machine.
const IN_FLIGHT: Duration = Duration::from_secs(5);

/// The load of ID requests while each node in turn is killed and started again.
#[derive(Debug)]
pub struct IdRun {
    pub clients: usize,
    pub batch: u64,
    pub pause_ms: u64,
    pub victims: [usize; 3],
    /// Requests before, between and during the outages.
    pub stretch: usize,
    pub patience: Duration,
    /// The longest pause of a running node.
    pub longest_pause: Duration,
}

/// Checks that every ID is unique, that the IDs of each worker increase, and that no node pauses
/// while another is down. Returns the number of IDs.
pub fn ids_while_nodes_are_killed(run: &IdRun) -> Result<u64, Violation> {
    let mut cluster = Cluster::started(3);
    let timeline = Timeline::begin();
    let load = cluster.load(run.clients, Route::Fixed, run.batch, run.pause_ms);
    let workload = Workload::ids(load, timeline);
    workload.wait_for(run.stretch, run.patience);
    let mut outages = Vec::new();
    for victim in run.victims {
        let begin = timeline.at();
        cluster.node_mut(victim).kill();
        workload.wait_for(run.stretch, run.patience);
        cluster.node_mut(victim).start();
        let took = cluster.wait_ready_of(&[victim], READY);
        println!("n{}: killed, ready {took:?} after its start", victim + 1);
        workload.wait_for(run.stretch, run.patience);
        outages.push((victim, begin, timeline.at()));
    }
    let history = workload.finish();
    println!(
        "(ok, unknown, refused): {:?} {:?}",
        tally(&history),
        reasons(&history)
    );
    let minted = unique::numbers(&history)?;
    println!(
        "{minted} IDs, no duplicate, in {:?}",
        timeline.at().since(Default::default())
    );
    increasing::ids_per_worker(&history)?;
    for (victim, from, to) in outages {
        for node in (0..3).filter(|&node| node != victim) {
            let pause = pauses::check_node(&history, node, (from, to), run.longest_pause)?;
            let (up, down) = (node + 1, victim + 1);
            println!("n{up} while n{down} was down: longest pause {pause:?}");
        }
    }
    Ok(minted)
}

/// The load of a strict or an ordered sequence while leaders are killed.
#[derive(Debug)]
pub struct ValueRun {
    pub mode: &'static str,
    pub kills: u64,
    /// Values before and after each kill.
    pub between: usize,
    pub clients: usize,
}

impl ValueRun {
    /// A run with eight clients.
    pub fn new(mode: &'static str, kills: u64, between: usize) -> Self {
        Self {
            mode,
            kills,
            between,
            clients: 8,
        }
    }
}

/// Clients use a sequence while the leader is paused this many times until another node leads, with
/// `between` values before and after each pause. The values must be linearizable, and no
/// acknowledged value may be lost.
pub fn values_while_leaders_are_paused(
    mode: &str,
    pauses: usize,
    between: usize,
) -> Result<(), Violation> {
    let cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": mode}));
    let workload = Workload::order(&cluster, 8, Route::Roaming, 0);
    let mut paused = 0;
    for _ in 0..pauses {
        workload.wait_for(between, READY);
        paused = cluster.leader();
        let pause = Paused::new(cluster.node(paused));
        wait::until("another leader", READY, || {
            let view = cluster.node((paused + 1) % 3).cluster_view()?;
            (view["leader"].as_str()? != cluster.node(paused).name()).then_some(())
        });
        drop(pause);
    }
    workload.wait_for(between, READY);
    let history = workload.finish();
    println!("{:?} {:?}", tally(&history), reasons(&history));
    linearizable::strict(&history)?;
    let (next, _) = cluster.next(paused, "order", 1);
    none_lost(mode, &history, next)?;
    cluster.wait_same_state(&[0, 1, 2]);
    Ok(())
}

/// Checks that no acknowledged value is lost. A strict sequence has no gap without a request whose
/// response was lost; an ordered one may have gaps.
fn none_lost(mode: &str, history: &[Op<Values>], next: i64) -> Result<(), Violation> {
    match mode {
        "strict" => lost::strict(history, 1, next),
        _ => lost::none_above(history, next),
    }
}

/// Clients use a sequence while the leader is killed repeatedly, and then all nodes at once. The
/// values must be linearizable, no acknowledged value may be lost, and requests in flight must be
/// answered in time.
pub fn values_while_leaders_are_killed(run: &ValueRun) -> Result<(), Violation> {
    let (mode, between) = (run.mode, run.between);
    // At the rate of a machine that is busy with other tests.
    let patience = READY + Duration::from_millis(between as u64);
    let mut cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": mode}));
    let timeline = Timeline::begin();
    let load = cluster.load(run.clients, Route::Roaming, 1, 0);
    let workload = Workload::next(load, timeline, "order");
    let mut outages = Vec::new();
    for _ in 0..run.kills {
        workload.wait_for(between, patience);
        let leader = cluster.leader();
        let kill = timeline.at();
        cluster.node_mut(leader).kill();
        workload.wait_for(between, patience);
        outages.push((kill, timeline.at()));
        cluster.node_mut(leader).start();
        cluster.wait_ready();
    }
    workload.wait_for(between, patience);
    (0..3).for_each(|i| cluster.node_mut(i).kill());
    let history = workload.finish();
    cluster.start_all();
    cluster.wait_ready();
    let (next, _) = cluster.next(2, "order", 1);
    println!(
        "(ok, unknown, refused): {:?} {:?}",
        tally(&history),
        reasons(&history)
    );
    let count = linearizable::strict(&history)?;
    println!("{count} values, distinct and in real-time order");
    none_lost(mode, &history, next)?;
    println!("after kill -9 of all three the next value is {next}, above all acknowledged ones");
    for (kill, to) in outages {
        let in_flight = history
            .iter()
            .filter(|op| op.call <= kill && kill <= op.back);
        let late = in_flight
            .map(|op| op.back.since(kill))
            .max()
            .unwrap_or_default();
        let (pause, _) = pauses::longest_of_all(&history, kill, to);
        println!("leader killed: in flight answered {late:?} later at most, pause {pause:?}");
        if late > IN_FLIGHT {
            let detail = format!("a request in flight was answered {late:?} after the kill");
            return Err(Violation::new("bounded answers", detail));
        }
    }
    cluster.wait_same_state(&[0, 1, 2]);
    println!("all nodes show the same digest");
    Ok(())
}
