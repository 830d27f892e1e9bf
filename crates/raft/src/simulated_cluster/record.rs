//! The events of a run: its story, and the entries and leaders of every node. Violations of the
//! invariants that must always hold are detected here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use seqd_net::Lock;
use seqd_state::idgen::IdRun;
use tokio::time::Instant;

use super::history::Op;
use super::ids::Ids;
use crate::platform::scope::{Appended, Applied, Observer, Window};

pub(super) struct Record {
    began: Instant,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    lines: Vec<String>,
    /// The applied entry of each index, which must be the same on every node.
    applied: BTreeMap<u64, (usize, Applied)>,
    /// The entry of each index and term, with the node whose log had it first.
    appended: BTreeMap<(u64, u64), (usize, Appended)>,
    ids: Ids,
    /// The leader of each term.
    elected: BTreeMap<u64, u64>,
    ops: Vec<Op>,
    violation: Option<Violation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) check: &'static str,
    pub(super) what: String,
}

impl Violation {
    pub(super) fn new(check: &'static str, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { check, what }
    }
}

impl Record {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            state: Lock::default(),
        })
    }

    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn note(&self, line: impl std::fmt::Display) {
        let at = self.now().as_secs_f64();
        self.state.lock().lines.push(format!("{at:>10.4} {line}"));
    }

    pub(super) fn begin(&self, op: Op) -> usize {
        let number = {
            let mut state = self.state.lock();
            state.ops.push(op);
            state.ops.len() - 1
        };
        let op = self.state.lock().ops[number].clone();
        self.note(format!("#{number} {op}"));
        number
    }

    pub(super) fn end(&self, number: usize, got: super::history::Got) {
        self.note(format!("#{number} = {got}"));
        let now = self.now();
        let mut state = self.state.lock();
        let op = &mut state.ops[number];
        op.returned = Some(now);
        op.got = got;
    }

    pub(super) fn violate(&self, violation: Violation) {
        self.note(format!("VIOLATION {}: {}", violation.check, violation.what));
        self.state.lock().violation.get_or_insert(violation);
    }

    pub(super) fn violation(&self) -> Option<Violation> {
        self.state.lock().violation.clone()
    }

    pub(super) fn minted(&self, node: usize, lease: u64, run: &IdRun) {
        let judged = self.state.lock().ids.minted(node, lease, run);
        if let Err(violation) = judged {
            self.violate(violation);
        }
    }

    /// The number of minted IDs.
    pub(super) fn ids(&self) -> usize {
        self.state.lock().ids.count()
    }

    pub(super) fn ops(&self) -> Vec<Op> {
        self.state.lock().ops.clone()
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.state.lock().lines.clone()
    }

    /// The highest term, and the number of applied entries.
    pub(super) fn extent(&self) -> (u64, u64) {
        let state = self.state.lock();
        let term = state.elected.keys().next_back().copied().unwrap_or(0);
        (term, state.applied.len() as u64)
    }
}

impl Observer for Record {
    fn applied(&self, node: usize, entry: Applied) {
        let mut state = self.state.lock();
        let (first, known) = *state.applied.entry(entry.index).or_insert((node, entry));
        drop(state);
        if known != entry {
            let Applied { index, .. } = entry;
            self.violate(Violation::new(
                "equal states",
                format!(
                    "entry {index} is of term {} with digest {:032x} on n{}, and of term {} with \
                     digest {:032x} on n{}",
                    known.term,
                    known.digest,
                    first + 1,
                    entry.term,
                    entry.digest,
                    node + 1
                ),
            ));
        }
    }

    fn granted(&self, windows: &[Window]) {
        let judged = self.state.lock().ids.granted(windows);
        if let Err(violation) = judged {
            self.violate(violation);
        }
    }

    /// Two logs that share an entry of one index and term must be equal up to it. This entry and
    /// the term before it must therefore be the same in each, and so on downwards.
    fn appended(&self, node: usize, entry: Appended) {
        let Appended { index, term, .. } = entry;
        let mut state = self.state.lock();
        let key = (index, term);
        let (first, known) = *state.appended.entry(key).or_insert((node, entry));
        drop(state);
        if known != entry {
            self.violate(Violation::new(
                "log matching",
                format!(
                    "n{} has {known:?} in its log, and n{} {entry:?}",
                    first + 1,
                    node + 1
                ),
            ));
        }
    }

    fn elected(&self, node: usize, term: u64, leader: u64) {
        let known = {
            let mut state = self.state.lock();
            let is_new = !state.elected.contains_key(&term);
            let known = *state.elected.entry(term).or_insert(leader);
            drop(state);
            if is_new {
                self.note(format!("node {leader} leads in term {term}"));
            }
            known
        };
        if known != leader {
            self.violate(Violation::new(
                "one leader per term",
                format!(
                    "in term {term} node {known} leads, and for n{} it is node {leader}",
                    node + 1
                ),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_that_differ_below_an_equal_entry_do_not_match() {
        let record = crate::simulated_cluster::run::in_virtual_time(async { Record::new() });
        let entry = Appended {
            index: 7,
            term: 3,
            term_before: Some(2),
            bytes: 1,
        };
        record.appended(0, entry);
        record.appended(1, entry);
        // An entry of another term replaces the first one.
        record.appended(1, Appended { term: 4, ..entry });
        assert_eq!(record.violation(), None);
        let term_before = Some(1);
        record.appended(
            2,
            Appended {
                term_before,
                ..entry
            },
        );
        let found = record.violation().map(|violation| violation.check);
        assert_eq!(found, Some("log matching"));
    }
}
