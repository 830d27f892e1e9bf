//! What this node says of itself: to its peers, and to people while it waits.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use seqd_raft::{Phase, Report};
use tokio::time::{MissedTickBehavior, interval};

use crate::app::App;
use crate::readiness::Readiness;

/// How often the report is renewed. Peers are told each second; a quarter of that keeps what they
/// hear young.
const EVERY: Duration = Duration::from_millis(250);

/// Reports in a second.
const TICKS_PER_SECOND: usize = 4;

/// How often the terminal is told why the node is not running.
const WAITING_EVERY: Duration = Duration::from_secs(5);

/// The workers that this node holds, by layout.
pub(crate) fn workers(app: &App) -> BTreeMap<String, u32> {
    let held = app.minters.all().into_iter().filter_map(|minter| {
        let window = minter.window()?;
        Some((minter.layout().name().to_owned(), window.worker.0))
    });
    held.collect()
}

/// Keeps the report to the peers fresh.
pub(crate) async fn tell_peers(app: Arc<App>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut minted = VecDeque::from([0]);
    loop {
        ticks.tick().await;
        minted.push_back(
            app.minters
                .all()
                .iter()
                .map(|minter| minter.minted())
                .sum::<u64>(),
        );
        if minted.len() > TICKS_PER_SECOND {
            let before = minted.pop_front().unwrap_or_default();
            let now = minted.back().copied().unwrap_or_default();
            app.ids_per_second
                .store(now.saturating_sub(before), Ordering::Relaxed);
        }
        app.raft.set_report(Report {
            workers: workers(&app),
            ready: Readiness::of(&app, false).is_ready(),
            draining: app.is_stopping(),
        });
    }
}

/// Prints why the node waits, every five seconds until it runs. A plain line on stderr: it is what
/// somebody who has just typed the command needs to read, whatever the log's level.
pub(crate) async fn print_waiting(app: Arc<App>) {
    let mut ticks = interval(WAITING_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        match app.phase() {
            Phase::Waiting { reason } => eprintln!("{reason}"),
            Phase::Running | Phase::Stopped(_) => return,
        }
    }
}
