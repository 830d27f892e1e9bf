//! From the loss of the leader to the next acknowledged strict value: its process killed or
//! stopped, its links cut, its host silent.

use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::failover::{LOSSES, Loss, cluster, lose_leader};
use seqd_tests::links;

use crate::arguments::Arguments;
use seqd_tests::report::Times;

/// The median that three etcd nodes need after `kill -9`, measured on two cores.
const KILLED: Duration = Duration::from_millis(1100);

/// What silence may cost: the median, the most, and until a request that was under way is answered.
const SILENT: Duration = Duration::from_millis(900);
const SILENT_MOST: Duration = Duration::from_millis(1500);
const TOLD_MOST: Duration = Duration::from_millis(1000);

/// Clients of the idle rows and of the others.
const CLIENTS: [usize; 2] = [1, 64];

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow(&["--runs", "--nodes", "--loss"]);
    if let Some(why) = links::unavailable() {
        return Err(Violation::new("links", why));
    }
    let runs = arguments.value("--runs", 20);
    let nodes = arguments.value("--nodes", 3);
    let only = arguments.text("--loss");
    let mut worst = Ok(());
    for (name, loss) in LOSSES {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        for clients in CLIENTS {
            let verdict = row(name, loss, nodes, clients, runs);
            if let Err(violation) = &verdict {
                println!("    {violation}");
                worst = verdict;
            }
        }
    }
    worst
}

/// Losses of one kind, one after another, in one cluster.
fn row(name: &str, loss: Loss, nodes: usize, clients: usize, runs: usize) -> Result<(), Violation> {
    let mut cluster = cluster(nodes);
    let (mut next, mut told, mut terms) = (Vec::new(), Vec::new(), 0);
    for _ in 0..runs {
        let seen = lose_leader(&mut cluster, loss, clients)?;
        next.push(seen.next);
        told.extend(seen.told);
        terms += seen.terms;
    }
    let (next, told) = (Times::of(next), Times::of(told));
    println!(
        "{name:8} {nodes} nodes {clients:3} clients {runs:3} runs: next value least {:?} median {:?} \
         most {:?}; under way answered median {:?} most {:?}; {terms} terms",
        next.quantile(0.0),
        next.median(),
        next.quantile(1.0),
        told.median(),
        told.quantile(1.0),
    );
    let limits = match loss {
        Loss::Killed => [(next.median(), KILLED), (Duration::ZERO, KILLED)],
        Loss::Stopped | Loss::Cut | Loss::Silent => {
            [(next.median(), SILENT), (next.quantile(1.0), SILENT_MOST)]
        }
    };
    let told = (told.quantile(1.0), TOLD_MOST);
    let broken = limits
        .into_iter()
        .chain([told])
        .find(|(is, limit)| is > limit);
    match broken {
        None => Ok(()),
        Some((is, limit)) => {
            let detail =
                format!("{name}, {clients} clients: {is:?}, at most {limit:?} is demanded");
            Err(Violation::new("failover", detail))
        }
    }
}
