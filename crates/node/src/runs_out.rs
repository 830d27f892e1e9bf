//! Warns before the time field or the workers of a layout run out.
//!
//! The end of a time field is known from the beginning; during the last year, the log reports it
//! every day. The time until clients can lease no worker is an estimate from the growth of the number
//! of live leases within a day.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use seqd_idgen::{Layout, WallMs};
use seqd_net::Lock;
use seqd_state::LayoutUse;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::services::Parts;
use crate::times::rfc3339;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A layout that ends within this time is reported.
const NOTICE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The interval between two checks.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The interval between two stored counts of leases. The first count is made this long after the
/// start, because nodes that start together lease their workers within this time.
const COUNT_EVERY: Duration = Duration::from_secs(10 * 60);

/// The least time over which growth counts as a rate.
const LEAST_SPAN: Duration = Duration::from_secs(6 * 60 * 60);

/// The numbers of live leases of each layout over the last day.
#[derive(Debug, Default)]
pub(crate) struct WorkerCounts(Lock<BTreeMap<String, Counts>>);

#[derive(Debug)]
struct Counts {
    begun: Instant,
    /// Each with the time at which it was made, oldest first.
    kept: VecDeque<(Instant, u32)>,
}

impl WorkerCounts {
    /// Estimates the time until clients can lease no worker, from the growth of leases within a
    /// day. `None` if the leases did not grow or the counts cover too little time.
    pub(crate) fn run_out_in(&self, layout: &LayoutUse) -> Option<Duration> {
        let free = layout.free_for_clients;
        if free == 0 {
            return Some(Duration::ZERO);
        }
        let layouts = self.0.lock();
        let (since, before) = layouts.get(layout.layout.name())?.kept.front()?;
        let (span, grown) = (since.elapsed(), layout.assigned.checked_sub(*before)?);
        let is_known = grown > 0 && span >= LEAST_SPAN;
        is_known.then(|| span.saturating_mul(free) / grown)
    }

    fn note(&self, layout: &str, live: u32) {
        let now = Instant::now();
        let mut layouts = self.0.lock();
        let counts = layouts.entry(layout.to_owned()).or_insert_with(|| Counts {
            begun: now,
            kept: VecDeque::new(),
        });
        let last = counts.kept.back().map_or(counts.begun, |(at, _)| *at);
        if now.duration_since(last) >= COUNT_EVERY {
            counts.kept.push_back((now, live));
        }
        while let Some((at, _)) = counts.kept.front()
            && now.duration_since(*at) > DAY
        {
            counts.kept.pop_front();
        }
    }
}

/// The warning about a layout that ends within a year or has ended.
fn notice(layout: &Layout, now: WallMs) -> Option<String> {
    let (name, end) = (layout.name(), layout.exhausted_at());
    let left = Duration::from_millis(end.0.saturating_sub(now.0));
    if left.is_zero() {
        return Some(format!(
            "the time field of layout {name} has been full since {}: it issues no more IDs",
            rfc3339(end)
        ));
    }
    (left <= NOTICE).then(|| {
        let days = left.as_secs() / DAY.as_secs();
        format!(
            "the time field of layout {name} will be full at {}, in {days} days: it issues no IDs \
             after that; use another layout",
            rfc3339(end)
        )
    })
}

/// Counts leases and logs which layouts end. Never returns.
pub(crate) fn watch(parts: &Parts) -> impl Future<Output = ()> + use<> {
    let (raft, clock) = (parts.raft.clone(), Arc::clone(&parts.clock));
    let counts = Arc::clone(&parts.worker_counts);
    async move {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut logged = BTreeMap::<String, Instant>::new();
        loop {
            ticks.tick().await;
            for used in raft.state(|state| state.layouts_in_use()) {
                let (layout, name) = (&used.layout, used.layout.name());
                counts.note(name, used.assigned);
                let is_logged = logged.get(name).is_some_and(|at| at.elapsed() < DAY);
                if let Some(notice) = notice(layout, clock.wall()).filter(|_| !is_logged) {
                    tracing::warn!(layout = name, "{notice}");
                    logged.insert(name.to_owned(), Instant::now());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[test]
    fn the_log_reports_the_end_of_a_layout_within_a_year_and_after_it() {
        for layout in Layout::presets() {
            let end = layout.exhausted_at().0;
            let year = NOTICE.as_millis() as u64;
            let at = |ms: u64| notice(&layout, WallMs(ms));
            assert_eq!(at(end - year - 1), None);
            let early = at(end - year).unwrap();
            assert!(early.contains("in 365 days"), "{early}");
            let last = at(end - 1).unwrap();
            assert!(
                last.contains("in 0 days") && last.contains("will be full at"),
                "{last}"
            );
            let over = at(end).unwrap();
            assert!(over.contains("full since"), "{over}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn growing_leases_run_out_and_constant_ones_never() {
        let counts = WorkerCounts::default();
        let run_out_in = |layout: &str, assigned, free_for_clients| {
            counts.run_out_in(&LayoutUse {
                layout: Layout::preset(layout).unwrap(),
                assigned,
                free_for_clients,
            })
        };
        let mut live = 100;
        counts.note("default", live);
        // Nodes that start together do not count as growth.
        live += 50;
        for hour in 0..24 {
            for _ in 0..6 {
                advance(COUNT_EVERY).await;
                counts.note("default", live);
            }
            let left = run_out_in("default", live, 896 - live);
            assert_eq!(left, None, "hour {hour}");
        }
        for _ in 0..24 {
            for _ in 0..6 {
                advance(COUNT_EVERY).await;
                counts.note("default", live);
            }
            live += 10;
        }
        // 506 workers are free for clients, and 10 more are leased each hour.
        let left = run_out_in("default", live, 896 - live).unwrap();
        let hours = left.as_secs_f64() / 3600.0;
        assert!((48.0..54.0).contains(&hours), "{hours}");
        assert_eq!(run_out_in("leaf", 3, 893), None);
        assert_eq!(run_out_in("leaf", 896, 0), Some(Duration::ZERO));
    }
}
