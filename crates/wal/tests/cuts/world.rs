//! One world: a disk, a log on it, and a series of its lives, all from one seed.
//!
//! A life opens the log, checks the state it finds, makes calls, and ends with a power cut during
//! some operation, a kill, an error of the disk, or a close. The next life continues with the
//! remains. Cuts also occur in openings, rolls and removals.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seqd_disk::Disk;
use seqd_disk::simulated::{Call, Dice, Failure, Fault, Operation, Outcome, SimulatedDisk};
use seqd_wal::{Pump, Record, Wal, WalOptions};

use crate::model::{Model, Notes};

/// The number of lives of each world.
const LIVES: u64 = 20;

/// The lengths of entries, of which the first ones are drawn most often.
const LENS: [u64; 7] = [40, 700, 8, 1500, 200, 0, 5000];

/// The largest number of calls per life.
const CALLS: u64 = 40;

/// The largest number of entries per call.
const RECORDS: u64 = 3;

/// A power failure occurs within one of these ranges of a life's operations.
const CUT_WITHIN: [(u64, u64); 4] = [(1, 8), (7, 12), (1, 40), (1, 80)];

/// The faults of a world, which tests plant.
#[derive(Clone)]
pub(crate) struct Plan {
    /// `true` if calls receive errors of the disk.
    pub(crate) errors: bool,
    /// Selects the operations that return `Ok` without being performed. It receives the content of
    /// the batch that is being written.
    pub(crate) lie: Option<fn(&Operation, &Carried) -> bool>,
    /// The layer between the log and the disk.
    pub(crate) seam: fn(SimulatedDisk) -> Arc<dyn Disk>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            errors: true,
            lie: None,
            seam: |disk| Arc::new(disk),
        }
    }
}

/// The queued operations when a batch is written.
#[derive(Default)]
pub(crate) struct Carried {
    pub(crate) vote: AtomicBool,
    pub(crate) truncate: AtomicBool,
}

/// Counts of events: a simulation in which the tested events never occur proves nothing.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct Seen {
    pub(crate) cuts: u64,
    pub(crate) cuts_in_open: u64,
    pub(crate) kills: u64,
    pub(crate) closes: u64,
    pub(crate) errors: u64,
    pub(crate) torn: u64,
    pub(crate) batches: u64,
    pub(crate) rolls: u64,
    pub(crate) removals: u64,
    pub(crate) answered: u64,
    /// A fingerprint of all operations of all lives.
    pub(crate) fingerprint: u64,
}

impl Seen {
    pub(crate) fn add(&mut self, other: Self) {
        self.cuts += other.cuts;
        self.cuts_in_open += other.cuts_in_open;
        self.kills += other.kills;
        self.closes += other.closes;
        self.errors += other.errors;
        self.torn += other.torn;
        self.batches += other.batches;
        self.rolls += other.rolls;
        self.removals += other.removals;
        self.answered += other.answered;
        self.fingerprint = self.fingerprint.rotate_left(7) ^ other.fingerprint;
    }
}

struct World<'a> {
    plan: &'a Plan,
    dice: Dice,
    disk: SimulatedDisk,
    segment_bytes: u64,
    notes: Notes,
    carried: Arc<Carried>,
    /// The number of the next value, so that no two values are equal.
    unique: u64,
    seen: Seen,
    history: Vec<LogItem>,
}

/// A part of the report of a failure. It is formatted only then.
enum LogItem {
    Words(String),
    Operations(Vec<Operation>),
}

impl fmt::Display for LogItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => writeln!(f, "{words}"),
            Self::Operations(operations) => operations
                .iter()
                .try_for_each(|operation| writeln!(f, "{operation}")),
        }
    }
}

/// Runs a world. An error contains the seed and the operations that led to it.
pub(crate) fn run(seed: u64, plan: &Plan) -> Result<Seen, String> {
    let mut dice = Dice::new(seed);
    let segment_bytes = [1024, 4096, 16384][dice.below(3) as usize];
    let mut world = World {
        plan,
        dice,
        disk: SimulatedDisk::holding("/data"),
        segment_bytes,
        notes: Notes::of(Model::default(), 0..=0),
        carried: Arc::default(),
        unique: 0,
        seen: Seen::default(),
        history: Vec::new(),
    };
    if let Some(lie) = plan.lie {
        let carried = Arc::clone(&world.carried);
        world
            .disk
            .set_lie(move |operation| lie(operation, &carried));
    }
    for life in 0..LIVES {
        world.log(format!("--- life {life}"));
        if let Err(what) = world.life() {
            world
                .history
                .push(LogItem::Operations(world.disk.operations()));
            let history: String = world.history.iter().map(ToString::to_string).collect();
            return Err(format!("seed {seed}: {what}\n{history}"));
        }
        // The cause of a failure is in the lives directly before it.
        let old = world.history.len().saturating_sub(300);
        world.history.drain(..old);
    }
    Ok(world.seen)
}

impl World<'_> {
    fn life(&mut self) -> Result<(), String> {
        if self.dice.chance(12) {
            let (first, last) = CUT_WITHIN[self.dice.below(CUT_WITHIN.len() as u64) as usize];
            let at = first + self.dice.below(last + 1 - first);
            self.disk.cut_at(at);
        }
        if self.plan.errors && self.dice.chance(3) {
            self.plant_error();
        }
        let seeds = Dice::new(self.dice.roll());
        let options = WalOptions {
            segment_bytes: self.segment_bytes,
            max_batch_bytes: 3000,
            disk: (self.plan.seam)(self.disk.clone()),
            segment_seeds: seeds_of(seeds),
            ..WalOptions::new("/data/wal")
        };
        match Wal::open_manual(options) {
            Err(error) => self.refused(&error)?,
            // The power failed while old segments were removed, so nothing can be read.
            Ok(_) if self.disk.is_off() => self.leave(),
            Ok((wal, recovered, pump)) => {
                self.notes = self.notes.judge(&wal, &recovered)?;
                self.seen.torn += u64::from(recovered.torn.is_some());
                for _ in 0..self.dice.below(CALLS) {
                    self.call(&wal, &pump)?;
                    if wal.failed().is_some() {
                        break;
                    }
                }
                self.end(wal, &pump)?;
            }
        }
        Ok(())
    }

    /// An open failed. Only a disk failure is a valid reason.
    fn refused(&mut self, error: &seqd_wal::WalError) -> Result<(), String> {
        let excused = matches!(error, seqd_wal::WalError::Io { .. });
        if !excused || !self.disk_failed() {
            return Err(format!("a log that only crashed is refused: {error}"));
        }
        self.seen.cuts_in_open += u64::from(self.disk.is_off());
        self.leave();
        Ok(())
    }

    fn disk_failed(&self) -> bool {
        let failed = |operation: &Operation| operation.outcome == Outcome::Failed;
        self.disk.is_off() || self.disk.is_read_only() || self.disk.operations().iter().any(failed)
    }

    fn plant_error(&mut self) {
        let (call, failure) = [
            (Call::SyncData, Failure::InputOutput),
            (Call::SyncAll, Failure::InputOutput),
            (Call::SyncDir, Failure::InputOutput),
            (Call::Write, Failure::InputOutput),
            (Call::Write, Failure::NoSpace),
            (
                Call::Write,
                Failure::ShortWrite(self.dice.below(700) as usize),
            ),
            (Call::Reserve, Failure::NoSpace),
            (Call::Rename, Failure::InputOutput),
            (Call::Remove, Failure::InputOutput),
        ][self.dice.below(9) as usize];
        let after = self.dice.below(12);
        self.disk.plant(Fault::on(call, failure).after(after));
        self.log(format!("planted: {call:?} {failure:?} after {after}"));
    }

    fn call(&mut self, wal: &Wal, pump: &Pump) -> Result<(), String> {
        match self.dice.below(32) {
            0..=11 => self.append(wal),
            12..=13 => self.vote(wal),
            14 => {
                let last = self.notes.committed.end() + 1;
                self.notes.committed = *self.notes.committed.start()..=last;
                wal.save_committed(last.to_le_bytes().to_vec());
                self.log(format!("committed {last}"));
            }
            15..=16 => self.truncate(wal),
            17..=18 => self.purge(wal),
            19 => {
                pump.write_witness();
                if wal.failed().is_none() {
                    self.notes.committed =
                        *self.notes.committed.end()..=*self.notes.committed.end();
                }
            }
            20..=21 => self.read(wal)?,
            _ => self.step(wal, pump),
        }
        Ok(())
    }

    fn bytes(&mut self) -> Vec<u8> {
        let most = 1 + self.dice.below(LENS.len() as u64);
        let len = LENS[self.dice.below(most) as usize] as usize;
        self.unique += 1;
        // The number is at the end: values of the same length have the same beginning, and so do
        // their sectors.
        let mut bytes = vec![0x2e; len];
        let number = self.unique.to_le_bytes();
        match len.checked_sub(number.len()) {
            Some(at) => bytes[at..].copy_from_slice(&number),
            None => bytes = number.to_vec(),
        }
        bytes
    }

    fn append(&mut self, wal: &Wal) {
        let mut model = self.notes.last().clone();
        let mut records = Vec::new();
        for _ in 0..1 + self.dice.below(RECORDS) {
            let bytes = self.bytes();
            let index = model.next;
            model.append(&bytes);
            records.push(Record { index, bytes });
        }
        self.log(format!(
            "append {} entries from {}",
            records.len(),
            records[0].index
        ));
        wal.append(records, self.notes.add(model));
    }

    fn vote(&mut self, wal: &Wal) {
        let vote = self.bytes();
        let mut model = self.notes.last().clone();
        model.vote = Some(vote.clone());
        self.carried.vote.store(true, Ordering::Relaxed);
        self.log(format!("vote #{}", self.unique));
        wal.save_vote(vote, self.notes.add(model));
    }

    fn truncate(&mut self, wal: &Wal) {
        let mut model = self.notes.last().clone();
        let from = model
            .next
            .saturating_sub(self.dice.below(8))
            .max(model.first());
        model.truncate(from);
        self.carried.truncate.store(true, Ordering::Relaxed);
        self.log(format!("truncate from {from}"));
        wal.truncate_after(from.checked_sub(1), self.notes.add(model));
    }

    fn purge(&mut self, wal: &Wal) {
        let mut model = self.notes.last().clone();
        // Sometimes beyond the end, as after an installed snapshot.
        let reach = if self.dice.chance(2) { 60 } else { 12 };
        let upto = model.first() + self.dice.below(reach);
        let meta = self.bytes();
        model.purge(upto, meta.clone());
        self.log(format!("purge {upto}"));
        wal.purge(upto, meta, self.notes.add(model));
    }

    /// Queued entries must be readable like synced ones.
    fn read(&mut self, wal: &Wal) -> Result<(), String> {
        let model = self.notes.last();
        let from = model.first() + self.dice.below(20);
        let records = match wal.read(from..u64::MAX, usize::MAX) {
            Ok(records) => records,
            Err(_) if self.disk.is_off() => return Ok(()),
            Err(error) => return Err(format!("a read from {from} on failed: {error}")),
        };
        let expected = model.entries.range(from..);
        let found = records
            .iter()
            .map(|record| (&record.index, &record.bytes[..]));
        if expected.map(|(index, bytes)| (index, &bytes[..])).eq(found) {
            Ok(())
        } else {
            Err(format!("a read from {from} on answers {records:?}"))
        }
    }

    fn step(&mut self, wal: &Wal, pump: &Pump) {
        let answered = self.notes.answered();
        if pump.step() {
            self.log(format!("step, {} answered", self.notes.answered()));
        }
        if self.notes.answered() > answered {
            // The mark was written with the batch.
            let last = *self.notes.committed.end();
            self.notes.committed = last..=last;
        }
        if wal.stats().queued_bytes == 0 {
            self.carried.vote.store(false, Ordering::Relaxed);
            self.carried.truncate.store(false, Ordering::Relaxed);
        }
    }

    fn end(&mut self, wal: Wal, pump: &Pump) -> Result<(), String> {
        if wal.failed().is_none() && self.dice.chance(4) {
            let closed = wal.close();
            if closed.is_ok() {
                if !self.notes.all_answered() {
                    return Err("a close left calls unanswered".into());
                }
                let last = *self.notes.committed.end();
                self.notes.committed = last..=last;
                self.seen.closes += 1;
            }
            self.log(format!("close: {closed:?}"));
        } else if self.dice.chance(8) {
            pump.run();
        }
        if wal.failed().is_some() && !self.disk_failed() {
            return Err(format!(
                "the log stopped without a cause: {:?}",
                wal.failed()
            ));
        }
        let stats = wal.stats();
        self.seen.batches += stats.batches;
        self.leave();
        // The process is dead: the drop of the handle must have no effect.
        drop(wal);
        Ok(())
    }

    /// The end of a process, with or without its machine.
    fn leave(&mut self) {
        let operations = self.disk.operations();
        let count = |call| {
            operations
                .iter()
                .filter(|operation| operation.call == call && operation.outcome == Outcome::Done)
                .count() as u64
        };
        self.seen.rolls += count(Call::Rename);
        self.seen.removals += count(Call::Remove);
        self.seen.answered += self.notes.answered() as u64;
        self.seen.errors += u64::from(self.disk_failed() && !self.disk.is_off());
        self.seen.fingerprint = self.seen.fingerprint.rotate_left(7) ^ self.disk.fingerprint();
        self.history.push(LogItem::Operations(operations));
        let machine_died = self.disk.is_off() || self.disk.is_read_only();
        let old = if machine_died || self.dice.chance(10) {
            self.seen.cuts += 1;
            self.log("the power is cut");
            let left = self.disk.cut(&mut self.dice);
            std::mem::replace(&mut self.disk, left)
        } else {
            self.seen.kills += 1;
            self.log("the process is killed");
            let left = self.disk.killed();
            std::mem::replace(&mut self.disk, left)
        };
        old.switch_off();
        self.carried.vote.store(false, Ordering::Relaxed);
        self.carried.truncate.store(false, Ordering::Relaxed);
    }

    fn log(&mut self, words: impl Into<String>) {
        self.history.push(LogItem::Words(words.into()));
    }
}

/// Seeds of segments that are reproducible with the world.
fn seeds_of(dice: Dice) -> Arc<dyn Fn() -> io::Result<u32> + Send + Sync> {
    let dice = std::sync::Mutex::new(dice);
    Arc::new(move || {
        let mut dice = dice
            .lock()
            .map_err(|_| io::Error::other("a seed drawn after a panic"))?;
        Ok(dice.roll() as u32)
    })
}
