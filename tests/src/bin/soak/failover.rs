//! The time from the loss of the leader to the next acknowledged strict value: its process is
//! killed or stopped, its links are cut, or its host is silent.

use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::failover::{LOSSES, cluster, lose_leader};
use seqd_tests::links;
use seqd_tests::report::{Report, Times};
use seqd_tests::strikes::Strike;

use crate::arguments::Arguments;

/// The median of three etcd nodes after `kill -9`, measured on two cores.
const KILLED: Duration = Duration::from_millis(1100);

/// The limits for a silent leader: the median, the maximum, and the time until a pending request is
/// answered.
const SILENT: Duration = Duration::from_millis(900);
const SILENT_MOST: Duration = Duration::from_millis(1500);
const TOLD_MOST: Duration = Duration::from_millis(1000);

/// The client counts of the idle rows and of the others.
const CLIENTS: [usize; 2] = [1, 64];

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--runs --nodes --loss");
    if let Some(why) = links::unavailable() {
        return Err(Violation::new("links", why));
    }
    let runs = arguments.value("--runs", 20);
    let nodes = arguments.value("--nodes", 3);
    let only = arguments.text("--loss");
    let mut report = Report::default();
    for (name, loss) in LOSSES {
        if only.is_none_or(|only| only == name) {
            for clients in CLIENTS {
                row(name, loss, nodes, clients, runs, &mut report)?;
            }
        }
    }
    report.verdict()
}

/// Losses of one kind, one after another, in one cluster.
fn row(
    name: &str,
    loss: Strike,
    nodes: usize,
    clients: usize,
    runs: usize,
    report: &mut Report,
) -> Result<(), Violation> {
    let mut cluster = cluster(nodes);
    let (mut next, mut told, mut terms) = (Vec::new(), Vec::new(), 0);
    for _ in 0..runs {
        let seen = lose_leader(&mut cluster, loss, clients)?;
        next.push(seen.next);
        told.extend(seen.told);
        terms += seen.terms;
    }
    let (next, told) = (Times::of(next), Times::of(told));
    println!("{name}, {nodes} nodes, {clients} clients: {terms} terms");
    println!("  next value {next}");
    println!("  under way, answered {told}");
    if loss == Strike::Killed {
        report.at_most("the next value after a kill", next.median(), KILLED);
    } else {
        report.at_most("the next value after silence", next.median(), SILENT);
        report.at_most("the next value after silence", next.most(), SILENT_MOST);
    }
    report.at_most("what was under way is answered", told.most(), TOLD_MOST);
    Ok(())
}
