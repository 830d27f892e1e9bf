//! Checks the numbers of all clients: none repeats and, where an order is promised, a number that
//! was returned before a request was sent is smaller than each number of that request.
//!
//! The check of the order is exact and stores only one number. All clients run on one thread, so
//! the largest number that was returned before a request is known when the request is sent.
//!
//! The check for repeats stores runs of numbers. Numbers of a sequence, and IDs of one tick, merge
//! to one run each. Above [`RUNS`] runs the check stops, and the findings state how many numbers
//! were compared. It runs on a thread of its own.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use serde::Serialize;

use super::numbers::{Numbers, Run};

/// The largest number of stored runs: 64 MiB.
pub(crate) const RUNS: usize = 4 << 20;

/// The runs that a client thread gathers before it passes them on: 512 KiB, the time between two
/// wake-ups of the other thread.
const GATHERED: usize = 32 << 10;

/// The gathered batches that may wait for the other thread: 8 MiB. If that thread falls further
/// behind, numbers are dropped without a comparison, because the measurement must not wait.
const BATCHES: usize = 16;

/// The numbers that a message quotes.
const EXAMPLES: usize = 5;

/// The findings of a target.
#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Findings {
    /// Numbers that were compared.
    pub(crate) checked: u64,
    /// Numbers that were not compared, because a limit was reached.
    pub(crate) unchecked: u64,
    /// Numbers that had been returned before.
    pub(crate) repeats: u64,
    pub(crate) repeat_examples: Vec<String>,
    /// Responses with a number that does not follow all numbers returned before the request. `None`
    /// if no order is promised.
    pub(crate) order_violations: Option<u64>,
    pub(crate) order_examples: Vec<String>,
}

impl Findings {
    /// Returns whether a number repeated or an order was violated.
    pub(crate) fn is_violated(&self) -> bool {
        self.repeats > 0 || self.order_violations.is_some_and(|count| count > 0)
    }
}

/// The largest number that was returned before a request was sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Before(Option<i64>);

/// The order over all clients.
#[derive(Debug, Default)]
struct Order {
    is_descending: bool,
    furthest: Option<i64>,
    violations: u64,
    examples: Vec<String>,
}

impl Order {
    /// Maps a descending order to an ascending one.
    fn ascending(&self, ends: Run) -> Run {
        if !self.is_descending {
            return ends;
        }
        Run {
            low: !ends.high,
            high: !ends.low,
        }
    }

    fn answered(&mut self, before: Before, ends: Run) {
        let ends = self.ascending(ends);
        if let Some(before) = before.0.filter(|before| ends.low <= *before) {
            self.violations += 1;
            if self.examples.len() < EXAMPLES {
                let shown = |number: i64| if self.is_descending { !number } else { number };
                self.examples
                    .push(format!("{} after {}", shown(ends.low), shown(before)));
            }
        }
        self.furthest = self.furthest.max(Some(ends.high));
    }
}

/// The stored runs, and the runs that are not merged with them yet.
#[derive(Debug)]
struct Repeats {
    /// The distance of two neighbours: runs at this distance merge.
    step: i64,
    most: usize,
    /// Disjoint and sorted.
    runs: Vec<Run>,
    pending: Vec<Run>,
    findings: Findings,
}

impl Repeats {
    fn new(step: i64, most: usize) -> Self {
        Self {
            step: step.saturating_abs().max(1),
            most,
            runs: Vec::new(),
            pending: Vec::new(),
            findings: Findings::default(),
        }
    }

    fn add(&mut self, runs: &[Run]) {
        let numbers: u64 = runs.iter().map(|run| run.count(self.step)).sum();
        if self.runs.len() > self.most {
            self.findings.unchecked += numbers;
            return;
        }
        self.findings.checked += numbers;
        self.pending.extend_from_slice(runs);
        // A merge is linear in the stored runs, so a quarter of them pays for it.
        if self.pending.len() >= GATHERED.max(self.runs.len() / 4) {
            self.settle();
        }
    }

    /// Merges the pending runs.
    fn settle(&mut self) {
        self.pending.sort_unstable();
        let stored = std::mem::take(&mut self.runs);
        let pending = std::mem::take(&mut self.pending);
        let mut merged: Vec<Run> = Vec::with_capacity(stored.len() + pending.len() / 4);
        let mut left = stored.into_iter().peekable();
        let mut right = pending.into_iter().peekable();
        loop {
            let run = match (left.peek(), right.peek()) {
                (Some(one), Some(other)) if one <= other => left.next(),
                (_, Some(_)) => right.next(),
                (_, None) => left.next(),
            };
            let Some(run) = run else { break };
            let last = merged.last().copied();
            match last.filter(|last| run.low <= last.high.saturating_add(self.step)) {
                Some(last) => {
                    if run.low <= last.high {
                        self.found(Run {
                            low: run.low,
                            high: run.high.min(last.high),
                        });
                    }
                    if let Some(end) = merged.last_mut() {
                        end.high = end.high.max(run.high);
                    }
                }
                None => merged.push(run),
            }
        }
        self.runs = merged;
    }

    fn found(&mut self, run: Run) {
        self.findings.repeats += run.count(self.step);
        if self.findings.repeat_examples.len() < EXAMPLES {
            self.findings.repeat_examples.push(run.low.to_string());
        }
    }

    fn finish(mut self) -> Findings {
        self.settle();
        self.findings
    }
}

/// Both checks of one target.
pub(crate) struct Checker {
    order: Option<Order>,
    gathered: Vec<Run>,
    /// Numbers that were dropped because the other thread fell behind.
    dropped: u64,
    step: i64,
    batches: SyncSender<Vec<Run>>,
    thread: JoinHandle<Findings>,
}

impl Checker {
    /// A checker for numbers at this distance. If `is_ordered`, also their order is checked.
    pub(crate) fn new(step: i64, is_ordered: bool) -> Self {
        let (batches, received): (_, Receiver<Vec<Run>>) = sync_channel(BATCHES);
        let mut repeats = Repeats::new(step, RUNS);
        let thread = thread::spawn(move || {
            for batch in received {
                repeats.add(&batch);
            }
            repeats.finish()
        });
        Self {
            order: is_ordered.then(|| Order {
                is_descending: step < 0,
                ..Order::default()
            }),
            gathered: Vec::new(),
            dropped: 0,
            step,
            batches,
            thread,
        }
    }

    /// Called when a request is sent.
    pub(crate) fn before(&self) -> Before {
        Before(self.order.as_ref().and_then(|order| order.furthest))
    }

    /// Called when its response has arrived.
    pub(crate) fn answered(&mut self, before: Before, numbers: &Numbers) {
        if let (Some(order), Some(ends)) = (&mut self.order, numbers.ends()) {
            order.answered(before, ends);
        }
        let follows = |end: i64, begin: i64| end.checked_add(self.step) == Some(begin);
        for run in &numbers.runs {
            match self.gathered.last_mut() {
                Some(last) if self.step > 0 && follows(last.high, run.low) => last.high = run.high,
                Some(last) if self.step < 0 && follows(last.low, run.high) => last.low = run.low,
                _ => self.gathered.push(*run),
            }
        }
        if self.gathered.len() >= GATHERED {
            let batch = std::mem::take(&mut self.gathered);
            if let Err(TrySendError::Full(batch)) = self.batches.try_send(batch) {
                self.dropped += batch.iter().map(|run| run.count(self.step)).sum::<u64>();
            }
        }
    }

    /// Returns the findings after all numbers were compared.
    pub(crate) fn finish(self) -> Findings {
        // An error means that the thread has ended by a panic, which `join` reports.
        let _ = self.batches.send(self.gathered);
        drop(self.batches);
        let mut findings = self.thread.join().unwrap_or_default();
        findings.unchecked += self.dropped;
        if let Some(order) = self.order {
            findings.order_violations = Some(order.violations);
            findings.order_examples = order.examples;
        }
        findings
    }
}

#[cfg(test)]
mod tests;
