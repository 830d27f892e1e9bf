//! The rows of a store that is opened, on their way into the state.
//!
//! Of a large state reading is most of a start, and taking rows in a good part of the rest. So one
//! thread reads from the first row on and one from the last row back until they meet, and a third
//! takes in what they hand over.

use std::io;
use std::mem;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::sled_store::guarded;
use super::{StateStore, TakeRows, Tally};

/// Rows are handed over about this many bytes at a time, and so many times ahead.
const PARCEL_BYTES: usize = 64 << 10;
const PARCELS_AHEAD: usize = 8;

/// What becomes of the rows.
#[derive(Default)]
pub(super) struct Intake<R> {
    pub(super) tally: Tally,
    pub(super) rows: R,
    /// A row that is no record is told only of rows that are what was recorded.
    pub(super) not_taken: Option<io::Error>,
}

impl<R: TakeRows> Intake<R> {
    fn row(&mut self, key: &[u8], value: &[u8]) {
        let hash = self.tally.add(key, value);
        if self.not_taken.is_none() {
            self.not_taken = self.rows.hashed_row(key, value, hash).err();
        }
    }
}

/// Takes the rows in on this thread, in key order.
pub(super) fn here<R: TakeRows>(store: &dyn StateStore) -> io::Result<Intake<R>> {
    let mut intake = Intake::default();
    store.stream(&mut |key, value| {
        intake.row(key, value);
        Ok(())
    })?;
    Ok(intake)
}

/// Takes the rows in on three threads, in no order.
pub(super) fn on_threads<R: TakeRows>(store: &dyn StateStore) -> io::Result<Intake<R>> {
    let claims = Mutex::new(Claims::default());
    let gone = || io::Error::other("a thread that reads rows or takes them in has ended");
    thread::scope(|scope| {
        let (send, arrived) = mpsc::sync_channel::<Parcel>(PARCELS_AHEAD);
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let taker = spawn("checkpoint-rows").spawn_scoped(scope, move || {
            let mut intake = Intake::default();
            for parcel in arrived {
                parcel.unpack(|key, value| intake.row(key, value));
            }
            intake
        })?;
        let from_last = Reader::new(End::Last, &claims, send.clone());
        let from_last = spawn("checkpoint-back")
            .spawn_scoped(scope, move || guarded("reading", || from_last.read(store)))?;
        let from_first = Reader::new(End::First, &claims, send).read(store);
        from_last.join().map_err(|_| gone())??;
        from_first?;
        taker.join().map_err(|_| gone())
    })
}

/// Rows that are handed over together, in the order in which they were read.
#[derive(Default)]
struct Parcel {
    bytes: Vec<u8>,
    /// The lengths of each row's key and value.
    lengths: Vec<(usize, usize)>,
}

impl Parcel {
    fn pack(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.lengths.push((key.len(), value.len()));
    }

    fn unpack(&self, mut visit: impl FnMut(&[u8], &[u8])) {
        let mut rest = self.bytes.as_slice();
        for (key, value) in &self.lengths {
            let (row, behind) = rest.split_at(key + value);
            let (key, value) = row.split_at(*key);
            visit(key, value);
            rest = behind;
        }
    }

    /// Drops the first row whose key `is_over` and all behind it; whether there was one.
    fn end_before(&mut self, is_over: impl Fn(&[u8]) -> bool) -> bool {
        let mut at = 0;
        for (row, (key, value)) in self.lengths.iter().enumerate() {
            if is_over(&self.bytes[at..at + key]) {
                self.bytes.truncate(at);
                self.lengths.truncate(row);
                return true;
            }
            at += key + value;
        }
        false
    }

    fn last_key(&self) -> Option<&[u8]> {
        let (key, value) = self.lengths.last()?;
        let at = self.bytes.len() - key - value;
        Some(&self.bytes[at..at + key])
    }
}

/// Where a reader begins.
#[derive(Clone, Copy)]
enum End {
    First,
    Last,
}

/// How far the two readers have come. A row is handed over by whoever claims it first, so each is
/// handed over once: what is claimed is a piece from the first row on and one up to the last.
#[derive(Default)]
struct Claims {
    /// The last key of the piece that begins with the first row.
    from_first: Option<Vec<u8>>,
    /// The first key of the piece that ends with the last row.
    from_last: Option<Vec<u8>>,
}

impl Claims {
    /// Leaves in a parcel what nobody has claimed; whether the other piece was met.
    fn claim(&mut self, end: End, parcel: &mut Parcel) -> bool {
        let (own, other) = match end {
            End::First => (&mut self.from_first, &self.from_last),
            End::Last => (&mut self.from_last, &self.from_first),
        };
        let has_met = other.as_deref().is_some_and(|other| {
            parcel.end_before(|key| match end {
                End::First => key >= other,
                End::Last => key <= other,
            })
        });
        if let Some(key) = parcel.last_key() {
            *own = Some(key.to_owned());
        }
        has_met
    }
}

/// One of the two readers.
struct Reader<'a> {
    end: End,
    claims: &'a Mutex<Claims>,
    send: SyncSender<Parcel>,
    parcel: Parcel,
    has_met: bool,
}

impl<'a> Reader<'a> {
    fn new(end: End, claims: &'a Mutex<Claims>, send: SyncSender<Parcel>) -> Self {
        Self {
            end,
            claims,
            send,
            parcel: Parcel::default(),
            has_met: false,
        }
    }

    /// Reads until the other reader is met, or all was read.
    fn read(mut self, store: &dyn StateStore) -> io::Result<()> {
        let end = self.end;
        let mut visit = |key: &[u8], value: &[u8]| self.row(key, value);
        let walked = match end {
            End::First => store.stream(&mut visit),
            End::Last => store.stream_back(&mut visit),
        };
        if self.has_met {
            return Ok(());
        }
        walked?;
        self.hand_over()
    }

    fn row(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.parcel.pack(key, value);
        if self.parcel.bytes.len() >= PARCEL_BYTES {
            self.hand_over()?;
        }
        if self.has_met {
            return Err(io::Error::other("the other reader was met"));
        }
        Ok(())
    }

    fn hand_over(&mut self) -> io::Result<()> {
        let mut parcel = mem::take(&mut self.parcel);
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_met = claims.claim(self.end, &mut parcel);
        drop(claims);
        let gone = |_| io::Error::other("the thread that takes rows in has ended");
        self.send.send(parcel).map_err(gone)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use seqd_disk::simulated::Dice;

    use super::*;

    /// What is left of a parcel of the keys of `numbers`, and whether the other reader was met.
    fn claimed(claims: &mut Claims, end: End, numbers: &[u64]) -> (Vec<u64>, bool) {
        let mut parcel = Parcel::default();
        for number in numbers {
            parcel.pack(&number.to_be_bytes(), b"value");
        }
        let has_met = claims.claim(end, &mut parcel);
        let mut left = Vec::new();
        parcel.unpack(|key, value| {
            assert_eq!(value, b"value");
            left.push(u64::from_be_bytes(key.try_into().unwrap()));
        });
        (left, has_met)
    }

    #[test]
    fn each_row_is_claimed_by_one_reader_however_they_take_turns() {
        for seed in 0..2_000 {
            let mut dice = Dice::new(seed);
            let all = dice.below(40);
            let mut claims = Claims::default();
            let (mut first, mut last) = (0, all);
            let (mut first_met, mut last_met) = (false, false);
            let mut taken: BTreeMap<u64, u32> = BTreeMap::new();
            while (!first_met && first < all) || (!last_met && last > 0) {
                let size = 1 + dice.below(6);
                let is_first = dice.chance(8);
                let (left, has_met) = if is_first && !first_met && first < all {
                    let numbers: Vec<u64> = (first..all.min(first + size)).collect();
                    first += numbers.len() as u64;
                    let (left, has_met) = claimed(&mut claims, End::First, &numbers);
                    first_met = has_met;
                    (left, has_met)
                } else if !is_first && !last_met && last > 0 {
                    let numbers: Vec<u64> = (last.saturating_sub(size)..last).rev().collect();
                    last -= numbers.len() as u64;
                    let (left, has_met) = claimed(&mut claims, End::Last, &numbers);
                    last_met = has_met;
                    (left, has_met)
                } else {
                    continue;
                };
                assert!(has_met || !left.is_empty(), "seed {seed}");
                for number in left {
                    *taken.entry(number).or_default() += 1;
                }
            }
            let once: BTreeMap<u64, u32> = (0..all).map(|number| (number, 1)).collect();
            assert_eq!(taken, once, "seed {seed}");
        }
    }
}
