//! Reports the state of this node: to its peers, and to users while the node waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use seqd_raft::{NodeReport, Phase, Raft};
use tokio::time::{MissedTickBehavior, interval};

use crate::clock_steps::ClockSteps;
use crate::minting::Minters;
use crate::services::HealthService;

/// The interval at which the report is renewed. Peers receive it every second, so it is at most a
/// quarter of a second old when it is sent.
const EVERY: Duration = Duration::from_millis(250);

/// The number of reports per second.
const TICKS_PER_SECOND: usize = 4;

/// The interval at which the terminal shows why the node is not running.
const WAITING_EVERY: Duration = Duration::from_secs(5);

pub(crate) async fn keep_fresh(raft: Raft, minters: Arc<Minters>, health: Arc<HealthService>) {
    let mut steps = ClockSteps::default();
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut minted = VecDeque::from([0]);
    loop {
        ticks.tick().await;
        if let Some(step_ms) = steps.look(|| health.clock.wall()) {
            tracing::warn!(
                step_ms,
                "the wall clock was set: it moved against the monotonic clock"
            );
        }
        minted.push_back(minters.minted());
        if minted.len() > TICKS_PER_SECOND {
            let before = minted.pop_front().unwrap_or_default();
            let now = minted.back().copied().unwrap_or_default();
            minters.measured(now.saturating_sub(before));
        }
        raft.set_report(NodeReport {
            workers: minters.held(),
            more_workers: minters.more_held(),
            ids_per_second: minters.ids_per_second(),
            ready: health.readiness().is_ready(),
            draining: health.is_stopping(),
        });
    }
}

/// Prints why the node waits, every five seconds until it runs. With text logs this is a plain line
/// on stderr at any log level, because a user who has just typed the command needs it. With JSON
/// logs it is a log line.
pub(crate) async fn print_waiting(health: Arc<HealthService>, is_for_people: bool) {
    let mut ticks = interval(WAITING_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        match health.phase() {
            Phase::Waiting { reason } if is_for_people => eprintln!("{reason}"),
            Phase::Waiting { reason } => tracing::warn!("{reason}"),
            Phase::Running | Phase::Stopped(_) => return,
        }
    }
}
