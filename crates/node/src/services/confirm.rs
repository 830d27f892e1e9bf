//! Determines which members have applied a change: until then they act on the state before it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::replica::Replica;

/// The time for which an answer waits until the other members have applied the entry; then it lists
/// the members that have not. Longer than the interval of one second at which each reports its
/// progress.
const CONFIRM_WAIT: Duration = Duration::from_millis(1200);

/// The pause between two checks of the members' reports.
const CONFIRM_LOOK: Duration = Duration::from_millis(20);

/// The members that have not confirmed that they applied everything this node has. Waits a moment
/// for them first. None are returned if this node has applied the change and `concerns_others` is
/// false of its state.
pub(super) async fn unconfirmed(
    replica: &dyn Replica,
    deadline: Instant,
    concerns_others: impl FnOnce() -> bool,
) -> Vec<String> {
    let until = deadline.min(Instant::now() + CONFIRM_WAIT);
    let is_here = replica.read(until).await.is_ok();
    if is_here && !concerns_others() {
        return Vec::new();
    }
    let own = replica.progress().applied;
    loop {
        let mut others = replica.progress().others;
        others.retain(|other| !is_here || other.applied.is_none_or(|applied| applied < own));
        let may_come = others.iter().any(|other| other.reachable);
        if !may_come || Instant::now() >= until {
            let mut missing: Vec<String> = others.into_iter().map(|other| other.name).collect();
            missing.sort();
            return missing;
        }
        sleep(CONFIRM_LOOK).await;
    }
}
