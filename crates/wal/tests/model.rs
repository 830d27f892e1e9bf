//! The log against a plain model, under random calls, closings, kills and power cuts.
//!
//! The model is what a log is without files: a map, a vote, a purge mark. After each call it is
//! noted once more; after a crash the log must be one of those notes, and none older than the
//! last call that was answered.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on, fails"
)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use seqd_disk::simulated::{Dice, SimulatedDisk};
use seqd_wal::{Done, Record, Recovered, Wal, WalOptions};
use support::{disk, entries, eventually, options};

#[derive(Debug, Clone)]
enum Step {
    /// Lengths of the entries of one call.
    Append(Vec<usize>),
    Vote(u64),
    Committed(u64),
    /// Removes this many from the end.
    Truncate(u64),
    /// Removes this many from the front, or more than there are.
    Purge(u64),
    /// Waits for all answers.
    Settle,
    /// A clean stop and a start.
    Reopen,
    /// The process dies; what it wrote is still to be read.
    Kill,
    /// The machine dies; each unsynced sector survives or not, by this seed.
    PowerCut(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => prop::collection::vec(0..400_usize, 1..5).prop_map(Step::Append),
        1 => prop::collection::vec(3000..9000_usize, 1..2).prop_map(Step::Append),
        3 => any::<u64>().prop_map(Step::Vote),
        2 => any::<u64>().prop_map(Step::Committed),
        3 => (0..12_u64).prop_map(Step::Truncate),
        3 => (0..40_u64).prop_map(Step::Purge),
        3 => Just(Step::Settle),
        1 => Just(Step::Reopen),
        1 => Just(Step::Kill),
        2 => any::<u64>().prop_map(Step::PowerCut),
    ]
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    entries: BTreeMap<u64, Vec<u8>>,
    next: u64,
    vote: Option<Vec<u8>>,
    purged: Option<(u64, Vec<u8>)>,
}

impl Model {
    fn of(wal: &Wal, recovered: &Recovered) -> Self {
        let entries: BTreeMap<_, _> = entries(wal).into_iter().collect();
        assert_eq!(
            recovered.last,
            entries.last_key_value().map(|(i, b)| (*i, b.clone()))
        );
        assert_eq!(recovered.first_index, wal.first_index());
        assert_eq!(
            entries.keys().next().copied().unwrap_or(wal.next_index()),
            wal.first_index()
        );
        let purged = recovered.purged.clone();
        Self {
            entries,
            next: wal.next_index(),
            vote: recovered.vote.clone(),
            purged,
        }
    }

    fn truncate(&mut self, from: u64) {
        self.entries.split_off(&from);
        self.next = from;
    }

    fn purge(&mut self, upto: u64, meta: Vec<u8>) {
        self.entries = self.entries.split_off(&(upto + 1));
        self.next = self.next.max(upto + 1);
        self.purged = Some((upto, meta));
    }
}

/// A log, its model, and the notes that a crash may lead back to.
struct Run {
    disk: SimulatedDisk,
    wal: Wal,
    notes: Vec<Model>,
    committed: Vec<Option<Vec<u8>>>,
    answered: Arc<AtomicUsize>,
    unique: u64,
}

impl Run {
    fn start(disk: SimulatedDisk) -> (Self, Recovered) {
        let quick = WalOptions {
            witness_after: Duration::from_millis(1),
            ..options(&disk)
        };
        let (wal, recovered) = Wal::open(quick).expect("a log that only crashed opens");
        let notes = vec![Model::of(&wal, &recovered)];
        let committed = vec![recovered.committed.clone()];
        let answered = Arc::default();
        (
            Self {
                disk,
                wal,
                notes,
                committed,
                answered,
                unique: 0,
            },
            recovered,
        )
    }

    fn model(&self) -> Model {
        self.notes.last().unwrap().clone()
    }

    fn note(&mut self, model: Model) -> Done {
        self.notes.push(model);
        let (place, answered) = (self.notes.len() - 1, Arc::clone(&self.answered));
        Box::new(move |result| {
            result.unwrap();
            let before = answered.swap(place, Ordering::SeqCst);
            assert_eq!(before + 1, place, "answers come in the order of the calls");
        })
    }

    fn settle(&self) {
        let all = self.notes.len() - 1;
        eventually("all is answered", || {
            self.answered.load(Ordering::SeqCst) == all
        });
        assert_eq!(self.wal.synced_index(), self.last_index());
    }

    fn last_index(&self) -> Option<u64> {
        let model = self.notes.last().unwrap();
        let any = !model.entries.is_empty() || model.purged.is_some();
        any.then(|| model.next - 1)
    }

    fn call(&mut self, step: &Step) {
        let mut model = self.model();
        self.unique += 1;
        match step {
            Step::Append(lens) => {
                let mut records = Vec::new();
                for len in lens {
                    let mut bytes = self.unique.to_le_bytes().to_vec();
                    bytes.resize(*len, self.unique as u8);
                    model.entries.insert(model.next, bytes.clone());
                    records.push(Record {
                        index: model.next,
                        bytes,
                    });
                    model.next += 1;
                }
                let done = self.note(model);
                self.wal.append(records, done);
            }
            Step::Vote(vote) => {
                model.vote = Some(vote.to_le_bytes().to_vec());
                let done = self.note(model);
                self.wal.save_vote(vote.to_le_bytes().to_vec(), done);
            }
            Step::Committed(mark) => {
                self.committed.push(Some(mark.to_le_bytes().to_vec()));
                self.wal.save_committed(mark.to_le_bytes().to_vec());
            }
            Step::Truncate(count) => {
                let first = model.entries.keys().next().copied().unwrap_or(model.next);
                let from = model.next.saturating_sub(*count).max(first);
                model.truncate(from);
                let done = self.note(model);
                self.wal.truncate_after(from.checked_sub(1), done);
            }
            Step::Purge(count) => {
                let first = model.entries.keys().next().copied().unwrap_or(model.next);
                let meta = self.unique.to_le_bytes().to_vec();
                model.purge(first + count, meta.clone());
                let done = self.note(model);
                self.wal.purge(first + count, meta, done);
            }
            _ => unreachable!("not a call"),
        }
        assert_eq!(self.wal.next_index(), self.model().next);
    }

    /// Starts again from an image that was taken after `answered` calls had been answered.
    fn crash(self, image: SimulatedDisk, answered: usize) -> Self {
        drop(self.wal);
        let (again, recovered) = Self::start(image);
        let found = again.model();
        let possible = &self.notes[answered..];
        assert!(
            possible.contains(&found),
            "after {answered} of {} calls were answered: {found:?} is none of {possible:?}",
            self.notes.len() - 1
        );
        assert!(self.committed.contains(&recovered.committed));
        again
    }

    fn go(mut self, step: &Step) -> Self {
        match step {
            Step::Settle => self.settle(),
            Step::Reopen => {
                self.wal.close().unwrap();
                self.settle();
                let (again, recovered) = Self::start(self.disk.kept());
                assert_eq!(again.model(), self.model());
                assert_eq!(Some(&recovered.committed), self.committed.last());
                assert_eq!(recovered.torn, None);
                return again;
            }
            Step::Kill => {
                let answered = self.answered.load(Ordering::SeqCst);
                let image = self.disk.killed();
                return self.crash(image, answered);
            }
            Step::PowerCut(seed) => {
                let answered = self.answered.load(Ordering::SeqCst);
                let image = self.disk.cut(&mut Dice::new(*seed));
                return self.crash(image, answered);
            }
            call => self.call(call),
        }
        self
    }
}

proptest! {
    #[test]
    fn a_log_is_what_the_model_says_whatever_dies(steps in prop::collection::vec(step(), 1..120)) {
        let (mut run, _) = Run::start(disk());
        for step in &steps {
            run = run.go(step);
        }
        run.settle();
        let entries: BTreeMap<_, _> = entries(&run.wal).into_iter().collect();
        prop_assert_eq!(entries, run.model().entries);
        run.go(&Step::Reopen);
    }
}
