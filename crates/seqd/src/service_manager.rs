//! Messages to systemd: the node serves, is alive, or stops. Without systemd they do nothing.
//!
//! `READY=1` means that the node listens, not that it is ready: the first node of a cluster has to
//! be started before there is a quorum. `/readyz` reports readiness.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::runtime::Handle;
use tokio::time::{MissedTickBehavior, interval};

/// The number of pings within the watchdog timeout of systemd, so that one may be late.
const PINGS: u32 = 3;

/// Reports that the node serves, and then sends pings. Returns at once if systemd expects no pings,
/// otherwise never.
///
/// Each ping is sent from the clients' runtime after a task has run on the runtime of consensus.
/// The pings therefore end if either runtime no longer runs tasks. A hung disk does not end the
/// pings: another node leads until the disk responds, and a restart would not help.
pub(crate) async fn started(consensus: Handle) {
    send(&[NotifyState::Ready]);
    let Some(patience) = sd_notify::watchdog_enabled() else {
        return;
    };
    let mut ticks = interval((patience / PINGS).max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if consensus.spawn(async {}).await.is_err() {
            return;
        }
        send(&[NotifyState::Watchdog]);
    }
}

/// Reports that the node stops, and requests the time that the stop may take.
pub(crate) fn stopping(patience: Duration) {
    // A second more, so that the node ends by itself.
    let micros = (patience + Duration::from_secs(1)).as_micros();
    let micros = u32::try_from(micros).unwrap_or(u32::MAX);
    send(&[
        NotifyState::Stopping,
        NotifyState::ExtendTimeoutUsec(micros),
    ]);
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("cannot notify systemd (NOTIFY_SOCKET): {error}");
    }
}
