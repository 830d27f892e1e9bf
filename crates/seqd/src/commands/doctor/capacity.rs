//! Checks of everything that can run out: time fields and workers of layouts, sequences, and
//! limits.

use jiff::Timestamp;
use seqd_client::api::{Facts, LayoutLife, SequenceLeft};

use super::check::{Check, Finding, either};
use crate::display::{SECONDS_PER_DAY, seconds_to};

/// The thresholds for the time until a layout's time field is full, in days. Clients need months to
/// change their columns.
const LAYOUT_WARNS: i64 = 365;
const LAYOUT_FAILS: i64 = 30;

/// The thresholds for the time until the workers run out at the last day's growth, in days.
const WORKERS_WARN: i64 = 30;
const WORKERS_FAIL: i64 = 2;

/// The threshold for the part of the workers that clients can still lease.
const FEW_WORKERS: f64 = 0.1;

/// The thresholds for the used part of a limit.
const NEAR_LIMIT: f64 = 0.8;
const AT_LIMIT: f64 = 0.95;

pub(super) fn layouts(facts: &Facts, now: Timestamp) -> Check {
    let layouts = &facts.cluster.layouts;
    let findings = layouts.iter().filter_map(|layout| {
        let days = days_to(&layout.exhausted_at, now)?;
        either(
            (days < LAYOUT_FAILS, days < LAYOUT_WARNS),
            format!(
                "layout {} ends at {}, in {days} days",
                layout.name, layout.exhausted_at
            ),
            "create a layout with a later epoch or more time bits (seqd layout create), and move \
             the clients to it",
        )
    });
    let first = layouts
        .iter()
        .filter_map(|it| days_to(&it.exhausted_at, now))
        .min();
    Check::of(
        "layouts",
        "a layout whose time field is full issues no more IDs",
        findings,
        format!("the first ends in {} years", first.unwrap_or(0) / 365),
    )
}

fn days_to(time: &str, now: Timestamp) -> Option<i64> {
    seconds_to(time, now).map(|seconds| seconds.div_euclid(SECONDS_PER_DAY))
}

pub(super) fn workers(facts: &Facts, now: Timestamp) -> Check {
    let layouts = &facts.cluster.layouts;
    let findings = layouts.iter().flat_map(|layout| workers_of(layout, now));
    let used: Vec<String> = layouts
        .iter()
        .map(|it| {
            format!(
                "{} {}/{}",
                it.name, it.workers_assigned, it.workers_capacity
            )
        })
        .collect();
    Check::of(
        "workers",
        "a node or a generator without a worker issues no IDs",
        findings,
        used.join(", "),
    )
}

fn workers_of(layout: &LayoutLife, now: Timestamp) -> Vec<Finding> {
    let (used, left) = (layout.workers_assigned, layout.workers_free_for_clients);
    let remedy = "find generators that lease a worker at each start instead of renewing theirs \
                  (seqd worker list), or use a layout with more workers";
    let part = f64::from(left) / (f64::from(used) + f64::from(left)).max(1.0);
    let mut findings: Vec<Finding> = either(
        (left == 0, part <= FEW_WORKERS),
        format!(
            "layout {}: {used} of {} workers are leased, and clients can lease {left} more",
            layout.name, layout.workers_capacity
        ),
        remedy,
    )
    .into_iter()
    .collect();
    let none_left = layout.workers_exhausted_at.as_deref();
    findings.extend(none_left.and_then(|at| days_to(at, now)).and_then(|days| {
        either(
            (days < WORKERS_FAIL, days < WORKERS_WARN),
            format!(
                "layout {}: no worker is left for clients in {days} days",
                layout.name
            ),
            remedy,
        )
    }));
    findings
}

pub(super) fn sequences(facts: &Facts) -> Check {
    let findings = facts.sequences.iter().filter_map(|sequence| {
        let left = sequence.remaining_ratio;
        either(
            (left < SequenceLeft::ALMOST_NOTHING, true),
            format!("{} has {:.1} % left", sequence.name, left * 100.0),
            format!(
                "raise its limit if the column permits it: seqd seq update {} --max VALUE (--min \
                 VALUE if it descends)",
                sequence.name
            ),
        )
    });
    Check::of(
        "sequences",
        "an exhausted sequence refuses every request",
        findings,
        "every sequence has more than a tenth of its values left",
    )
}

pub(super) fn limits(facts: &Facts) -> Check {
    let findings = facts.resources.iter().flat_map(|resource| {
        let part = |used: u64, of: u64| used as f64 / (of as f64).max(1.0);
        let used = part(resource.used, resource.limit);
        let whole = either(
            (used >= AT_LIMIT, used >= NEAR_LIMIT),
            format!(
                "{}: {} of {} are in use",
                resource.limit_key, resource.used, resource.limit
            ),
            format!(
                "delete what is no longer used, shorten the time that it is kept, or raise {} on \
                 every node",
                resource.limit_key
            ),
        );
        let tenant = resource.largest_tenant.as_deref().unwrap_or_default();
        let share = part(resource.largest, resource.share);
        let largest = either(
            (false, share >= AT_LIMIT && resource.largest > 0),
            format!(
                "{}: {tenant} holds {} of its share of {}",
                resource.limit_key, resource.largest, resource.share
            ),
            "its further requests are refused while others are served: find the client, or raise \
             limits.tenant_share",
        );
        whole.into_iter().chain(largest)
    });
    let shown = facts.resources.iter().map(|it| {
        let name = it.limit_key.trim_start_matches("limits.");
        format!("{name} {}/{}", it.used, it.limit)
    });
    Check::of(
        "limits",
        "above a limit, requests that create something are refused",
        findings,
        shown.collect::<Vec<_>>().join(", "),
    )
}
