//! Determines which members have applied a change. Until then, a member acts on the state before
//! the change.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::replica::Replica;

/// The time for which a response waits until the other members have applied the entry. It is longer
/// than the interval of one second at which each member reports its progress.
const CONFIRM_WAIT: Duration = Duration::from_millis(1200);

/// The pause between two checks of the members' reports.
const CONFIRM_LOOK: Duration = Duration::from_millis(20);

/// Waits up to [`CONFIRM_WAIT`] for the other members. Returns the members that have not confirmed
/// that they applied everything that this node has applied. If this node has applied the change and
/// `concerns_others` returns `false`, returns none without a wait.
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
