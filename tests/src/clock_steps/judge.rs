//! The figures of a run, and its checks.

use std::collections::BTreeMap;
use std::time::Duration;

use super::driver::Driver;
use super::duty::{Stop, stops};
use super::streams::StreamRecord;
use super::{LONGEST_STOP, RESTARTED};
use crate::checkers::{Violation, require};
use crate::generators::unique;
use crate::history::At;
use crate::report::{Counts, Report, Times};

/// The time before a violation whose events are printed.
const BEFORE: Duration = Duration::from_secs(30);

/// A request may stay without a response if it was sent this long before the end of a process, or
/// after the process began to respond.
const AROUND: Duration = Duration::from_millis(500);

pub(super) fn judge(driver: &Driver, told: Vec<StreamRecord>, report: &mut Report) {
    let end = driver.timeline.at();
    println!("  {} steps; {:?}", driver.clocks.steps, driver.faults);
    let (named, moved) = (driver.named.iter().copied(), driver.moved.iter().copied());
    let (named, moved) = (Times::of(named), Times::of(moved));
    println!("  a wrong clock named by both others after {named}");
    println!("  another leads after {moved}");
    let mut by_layout: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut refused: BTreeMap<&str, Counts> = BTreeMap::new();
    for mut told in told {
        let ids = by_layout.entry(told.layout.clone()).or_default();
        ids.append(&mut told.ids);
        report.checked(told.violation.take().map_or(Ok(()), Err));
        report.checked(answered(driver, &told));
        let stops = stops(&told.served, driver.duties_of(told.node), LONGEST_STOP, end);
        report.checked(served(driver, &told, &stops));
        let longest = |of: fn(&&Stop) -> bool| stops.iter().filter(of).map(Stop::length).max();
        let stop = longest(|stop| !stop.is_return);
        let returned = longest(|stop| stop.is_return && stop.limit < RESTARTED);
        let restarted = longest(|stop| stop.is_return && stop.limit >= RESTARTED);
        println!(
            "  {}: longest stop {stop:.2?}, return {returned:.2?}, after a start {restarted:.2?}",
            told.name
        );
        let whom = told.node.map_or("generators", |_| "nodes");
        for (code, count) in told.refused {
            *refused.entry(whom).or_default().entry(code).or_default() += count;
        }
    }
    println!("  refused by {refused:?}");
    for (layout, ids) in by_layout {
        if let Some(count) = report.checked(unique(ids)) {
            println!("  {count} IDs of {layout}, no duplicate");
        }
    }
}

/// A node whose process runs responds to every request.
fn answered(driver: &Driver, told: &StreamRecord) -> Result<(), Violation> {
    for (sent, seen) in &told.unanswered {
        let is_down = |(node, from, to): &(usize, At, At)| {
            Some(*node) == told.node && sent.since(*to) <= AROUND && seen >= from
        };
        let detail = format!("{}: sent at {sent:?}, seen at {seen:?}", told.name);
        let is_down = driver.downs.iter().any(is_down);
        require(is_down, "a node that runs answers", detail)?;
    }
    Ok(())
}

fn served(driver: &Driver, told: &StreamRecord, stops: &[Stop]) -> Result<(), Violation> {
    let mut late = stops.iter().filter(|stop| stop.is_late());
    let Some(first) = late.next() else {
        return Ok(());
    };
    story(driver, told, first);
    let (name, more) = (&told.name, late.count());
    let detail = format!(
        "{name} gave no IDs for {:.2?}: {first:?}, {more} more",
        first.length()
    );
    Err(Violation::new("a node whose clock is right serves", detail))
}

/// Prints the events before and during a stop.
fn story(driver: &Driver, told: &StreamRecord, late: &Stop) {
    let from = At(late.from.0.saturating_sub(BEFORE.as_nanos() as u64));
    let is_within = |at: At| from <= at && at <= late.to;
    let notes = driver.notes.iter().filter(|note| is_within(note.at));
    let mut lines: Vec<(At, String)> = notes.map(|note| (note.at, note.text.clone())).collect();
    let met = told.changes.iter().filter(|(at, _)| is_within(*at));
    lines.extend(met.map(|(at, what)| (*at, format!("{} meets: {what}", told.name))));
    lines.sort();
    for (at, text) in lines {
        println!("{:10.3}  {text}", at.0 as f64 / 1e9);
    }
    for node in 0..3 {
        let log = std::fs::read(driver.cluster.node(node).stderr_file()).unwrap_or_default();
        let before = driver.notes.iter().rev().find(|note| note.at <= from);
        let after = driver.notes.iter().find(|note| note.at >= late.to);
        let begin = before.map_or(0, |note| note.logs[node] as usize);
        let end = after.map_or(log.len(), |note| note.logs[node] as usize);
        println!("--- log of n{} ---", node + 1);
        println!(
            "{}",
            String::from_utf8_lossy(log.get(begin..end).unwrap_or_default())
        );
    }
}
