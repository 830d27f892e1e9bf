//! Loads: clients that issue one kind of operation and record the results, and the check of that
//! record; and a run of a load under a fault plan.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::checkers::Violation;
use crate::cluster::Cluster;
use crate::history::Timeline;
use crate::report::Report;
use crate::strikes::{SERVES, Strikes};
use crate::wait::SetsAtEnd;

pub trait Load: Sync {
    /// The record of the clients.
    type Book: Send;

    /// Blocks until the clients are done, or until `over` is set.
    fn run(&self, addresses: &[String], timeline: Timeline, over: &AtomicBool) -> Self::Book;

    /// Judges the record. All nodes serve and have the same state.
    fn judge(
        &self,
        book: Self::Book,
        cluster: &mut Cluster,
        strikes: &Strikes,
        report: &mut Report,
    );
}

/// Runs a load on a ready cluster under faults, for the given time and at least one round, or until
/// it is done. Then judges both.
pub fn under_faults(
    load: &impl Load,
    mut cluster: Cluster,
    mut strikes: Strikes,
    length: Option<Duration>,
) -> Result<(), Violation> {
    let (addresses, over) = (cluster.addresses(), AtomicBool::new(false));
    let (timeline, begun) = (strikes.timeline, Instant::now());
    let (book, struck) = std::thread::scope(|scope| {
        let clients = scope.spawn(|| load.run(&addresses, timeline, &over));
        let end = SetsAtEnd(&over);
        let struck = strikes.strike_while(&mut cluster, |rounds| {
            let has_time = length.is_none_or(|length| rounds == 0 || begun.elapsed() < length);
            has_time && !clients.is_finished()
        });
        drop(end);
        (clients.join().expect("the clients"), struck)
    });
    let mut report = Report::default();
    println!("  the load took {:.1?}", begun.elapsed());
    strikes.judge(&mut report);
    struck?;
    let all: Vec<usize> = (0..cluster.size()).collect();
    cluster.wait_ready_of(&all, SERVES);
    cluster.wait_same_state(&all);
    load.judge(book, &mut cluster, &strikes, &mut report);
    report.verdict()
}
