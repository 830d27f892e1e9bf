//! A layout: how tick, worker and sequence share the 63 bits of an ID, and since when it counts.
//!
//! A layout is validated once and never changes. It refuses what does not fit and masks
//! nothing. It reads no clock: `tick_at` is arithmetic on a reading.

mod explain;
mod presets;

use std::sync::Arc;

pub use explain::Remainders;

use crate::id::SnowflakeId;
use crate::time::{Tick, WallMs};

/// The number of a worker in its layout: the whole field, datacenter bits included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u32);

/// The order of the fields, from the highest bit to the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldOrder {
    /// `tick | worker | sequence`: the usual order.
    TickWorkerSequence,
    /// `tick | sequence | worker`: Sonyflake's order.
    TickSequenceWorker,
}

/// The first sequence number of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FirstSequence {
    /// Always 0.
    Zero,
    /// Below this bound, different from tick to tick, so that IDs taken at a low rate spread over
    /// shards by remainder. The numbers below the first are not used in that tick.
    RandomBelow(u32),
    /// Drawn over all sequences in each fresh tick, so that IDs taken at a low rate spread over any
    /// number of shards; 0 in the tick behind one that was used to its end, so that a worker at its
    /// limit loses none. A batch that opens a tick is placed so that it fits whole.
    Spread,
}

/// What defines a layout. Two layouts with equal definitions but different names are different.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LayoutSpec {
    /// 1 to 128 of `[A-Za-z0-9._:-]`, the first alphanumeric.
    pub name: String,
    /// The wall-clock time at which tick 0 begins, in milliseconds.
    pub epoch_ms: u64,
    /// The length of a tick: 1, 10 or 1000 milliseconds.
    pub tick_ms: u32,
    /// Bits of the tick.
    pub time_bits: u8,
    /// Upper bits of the worker field that name a datacenter; 0 where the layout has none.
    pub datacenter_bits: u8,
    /// Bits of the worker field below the datacenter's.
    pub worker_bits: u8,
    /// Bits of the sequence.
    pub sequence_bits: u8,
    /// The order of the fields.
    pub order: FieldOrder,
    /// Where the sequence of a tick begins.
    pub first_sequence: FirstSequence,
}

/// Why a definition is not a layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The name breaks its rule.
    #[error("a layout name is 1 to 128 of [A-Za-z0-9._:-], the first alphanumeric; got {0:?}")]
    Name(String),
    /// The tick is of another length than 1, 10 or 1000 ms.
    #[error("a tick is 1, 10 or 1000 ms; got {0}")]
    TickLength(u32),
    /// A field is missing or too wide.
    #[error("{field} takes {least} to {most} bits; got {bits}")]
    FieldBits {
        /// Which field.
        field: &'static str,
        /// Its width as asked.
        bits: u32,
        /// The least width.
        least: u32,
        /// The greatest width.
        most: u32,
    },
    /// The fields do not fit beside a zero sign bit.
    #[error("the fields take {0} bits; an ID has 63 beside its zero sign bit")]
    TotalBits(u32),
    /// The last tick ends past the last millisecond that a signed 64-bit time can hold.
    #[error("the time field ends past the last representable millisecond")]
    EndsTooLate,
    /// The bound of the first sequence is 0 or above the number of sequences.
    #[error("the first sequence is drawn below 1 to {most}; got {bound}")]
    FirstSequence {
        /// The bound as asked.
        bound: u32,
        /// The number of sequences of a tick.
        most: u32,
    },
}

/// Why a wall-clock time has no tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TickError {
    /// The time lies before the layout's epoch.
    #[error("the time lies before the layout's epoch")]
    BeforeEpoch,
    /// The time lies at or after the end of the time field.
    #[error("the layout's time field is full")]
    TimeFull,
}

/// Why parts do not make an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// The tick does not fit its field.
    #[error("tick {} is above the layout's last, {}", .tick.0, .max.0)]
    Tick {
        /// The tick as asked.
        tick: Tick,
        /// The last one of the layout.
        max: Tick,
    },
    /// The worker does not fit its field.
    #[error("worker {} is not below {workers}", .worker.0)]
    Worker {
        /// The worker as asked.
        worker: WorkerId,
        /// How many there are.
        workers: u32,
    },
    /// The sequence does not fit its field.
    #[error("sequence {sequence} is not below {sequences}")]
    Sequence {
        /// The sequence as asked.
        sequence: u32,
        /// How many there are in a tick.
        sequences: u32,
    },
}

/// A number that is not an ID of this layout: it has bits (perhaps the sign bit) outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{id} is not an ID of this layout: it uses {bits} bits and the number has others set")]
pub struct UnpackError {
    /// The number.
    pub id: SnowflakeId,
    /// How many low bits the layout uses.
    pub bits: u32,
}

/// The parts of an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parts {
    /// Ticks since the layout's epoch.
    pub tick: Tick,
    /// The worker, datacenter bits included.
    pub worker: WorkerId,
    /// The sequence number within the tick.
    pub sequence: u32,
}

/// Places of the fields, copied into whatever packs many IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Geometry {
    pub(crate) epoch_ms: u64,
    pub(crate) tick_ms: u64,
    pub(crate) time_bits: u32,
    pub(crate) field_bits: u32,
    pub(crate) sequence_bits: u32,
    time_shift: u32,
    worker_shift: u32,
    pub(crate) sequence_shift: u32,
}

/// A validated layout. Cloning it copies a few words and one reference count.
///
/// Invariants, all held by `new`:
/// - time, worker field and sequence have at least one bit each, and 63 at most together;
/// - so `(tick + 1) << sequence_bits` fits 63 bits, which the generator's word relies on;
/// - the end of the last tick is a time that fits 63 bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    spec: Arc<LayoutSpec>,
    geometry: Geometry,
}

impl Layout {
    /// Checks a definition.
    pub fn new(spec: LayoutSpec) -> Result<Self, LayoutError> {
        if !is_name(&spec.name) {
            return Err(LayoutError::Name(spec.name));
        }
        if !matches!(spec.tick_ms, 1 | 10 | 1000) {
            return Err(LayoutError::TickLength(spec.tick_ms));
        }
        let time_bits = u32::from(spec.time_bits);
        let field_bits = u32::from(spec.datacenter_bits) + u32::from(spec.worker_bits);
        let sequence_bits = u32::from(spec.sequence_bits);
        // 31 bits, so that the number of workers or sequences is a u32 as well.
        check_bits("time", time_bits, 1, 61)?;
        check_bits("the worker field", field_bits, 1, 31)?;
        check_bits("the sequence", sequence_bits, 1, 31)?;
        let total = time_bits + field_bits + sequence_bits;
        if total > 63 {
            return Err(LayoutError::TotalBits(total));
        }
        let end = (1u128 << time_bits) * u128::from(spec.tick_ms) + u128::from(spec.epoch_ms);
        if end > i64::MAX as u128 {
            return Err(LayoutError::EndsTooLate);
        }
        if let FirstSequence::RandomBelow(bound) = spec.first_sequence {
            let most = 1 << sequence_bits;
            if bound == 0 || bound > most {
                return Err(LayoutError::FirstSequence { bound, most });
            }
        }
        let (worker_shift, sequence_shift) = match spec.order {
            FieldOrder::TickWorkerSequence => (sequence_bits, 0),
            FieldOrder::TickSequenceWorker => (0, field_bits),
        };
        let geometry = Geometry {
            epoch_ms: spec.epoch_ms,
            tick_ms: u64::from(spec.tick_ms),
            time_bits,
            field_bits,
            sequence_bits,
            time_shift: field_bits + sequence_bits,
            worker_shift,
            sequence_shift,
        };
        Ok(Self {
            spec: Arc::new(spec),
            geometry,
        })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The definition.
    pub fn spec(&self) -> &LayoutSpec {
        &self.spec
    }

    /// Makes an ID of its parts; refuses what does not fit.
    pub fn pack(
        &self,
        tick: Tick,
        worker: WorkerId,
        sequence: u32,
    ) -> Result<SnowflakeId, PackError> {
        if tick > self.max_tick() {
            return Err(PackError::Tick {
                tick,
                max: self.max_tick(),
            });
        }
        if worker.0 >= self.workers() {
            return Err(PackError::Worker {
                worker,
                workers: self.workers(),
            });
        }
        if sequence >= self.sequences() {
            return Err(PackError::Sequence {
                sequence,
                sequences: self.sequences(),
            });
        }
        Ok(SnowflakeId::from_u64(
            self.geometry.join(tick, worker, sequence),
        ))
    }

    /// Takes an ID apart; refuses a number that has bits outside the layout, the sign bit too.
    pub fn unpack(&self, id: SnowflakeId) -> Result<Parts, UnpackError> {
        let g = &self.geometry;
        let bits = self.bits();
        if id.get() >> bits != 0 {
            return Err(UnpackError { id, bits });
        }
        // Both fields have at most 31 bits, so the casts lose nothing.
        let field = |shift: u32, width: u32| ((id.get() >> shift) & ((1 << width) - 1)) as u32;
        Ok(Parts {
            tick: Tick(id.get() >> g.time_shift),
            worker: WorkerId(field(g.worker_shift, g.field_bits)),
            sequence: field(g.sequence_shift, g.sequence_bits),
        })
    }

    /// The tick that holds a wall-clock time.
    pub fn tick_at(&self, at: WallMs) -> Result<Tick, TickError> {
        self.geometry.tick_at(at)
    }

    /// The wall-clock time at which a tick begins. The tick after the last one begins at
    /// [`exhausted_at`](Self::exhausted_at); ticks further out, which no layout hands out, end at
    /// the greatest number.
    pub fn wall_at(&self, tick: Tick) -> WallMs {
        self.geometry.wall_at(tick)
    }

    /// The exclusive fence of a window that covers the tick at `until` and ends with it: one past
    /// that tick; past the last tick where the time field ends earlier; 0, the empty window,
    /// before the epoch.
    pub fn fence_at(&self, until: WallMs) -> Tick {
        match self.tick_at(until) {
            Ok(tick) => Tick(tick.0 + 1),
            Err(TickError::TimeFull) => Tick(self.max_tick().0 + 1),
            Err(TickError::BeforeEpoch) => Tick(0),
        }
    }

    /// The last tick that fits.
    pub fn max_tick(&self) -> Tick {
        self.geometry.max_tick()
    }

    /// When the last tick ends. From then on the layout only decodes.
    pub fn exhausted_at(&self) -> WallMs {
        self.wall_at(Tick(self.max_tick().0 + 1))
    }

    /// How many workers the whole field numbers, over all datacenters.
    pub fn workers(&self) -> u32 {
        1 << self.geometry.field_bits
    }

    /// How many IDs one worker can take in one tick.
    pub fn sequences(&self) -> u32 {
        1 << self.geometry.sequence_bits
    }

    /// How many IDs one worker can take in a second.
    pub fn ids_per_second(&self) -> u64 {
        u64::from(self.sequences()) * (1000 / self.geometry.tick_ms)
    }

    /// How many low bits of a number an ID of this layout uses.
    pub fn bits(&self) -> u32 {
        self.geometry.time_bits + self.geometry.time_shift
    }

    /// The datacenter that a worker belongs to, where the layout has datacenters.
    pub fn datacenter_of(&self, worker: WorkerId) -> Option<u32> {
        (self.spec.datacenter_bits > 0).then(|| worker.0 >> self.spec.worker_bits)
    }

    /// A worker's number within its datacenter; the whole number where there are none.
    pub fn worker_in_datacenter(&self, worker: WorkerId) -> u32 {
        worker.0 & ((1 << self.spec.worker_bits) - 1)
    }

    /// The numbers of one datacenter's workers, first and last; `None` if the layout has no such
    /// datacenter.
    pub fn workers_of_datacenter(&self, datacenter: u32) -> Option<(WorkerId, WorkerId)> {
        if self.spec.datacenter_bits == 0 || datacenter >> self.spec.datacenter_bits != 0 {
            return None;
        }
        let first = datacenter << self.spec.worker_bits;
        Some((
            WorkerId(first),
            WorkerId(first + ((1 << self.spec.worker_bits) - 1)),
        ))
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }
}

impl Geometry {
    pub(crate) fn max_tick(&self) -> Tick {
        Tick((1 << self.time_bits) - 1)
    }

    pub(crate) fn tick_at(&self, at: WallMs) -> Result<Tick, TickError> {
        let since_ms =
            at.0.checked_sub(self.epoch_ms)
                .ok_or(TickError::BeforeEpoch)?;
        let tick = Tick(since_ms / self.tick_ms);
        if tick > self.max_tick() {
            Err(TickError::TimeFull)
        } else {
            Ok(tick)
        }
    }

    pub(crate) fn wall_at(&self, tick: Tick) -> WallMs {
        WallMs(
            tick.0
                .saturating_mul(self.tick_ms)
                .saturating_add(self.epoch_ms),
        )
    }

    /// Joins parts that were checked by the caller.
    pub(crate) fn join(&self, tick: Tick, worker: WorkerId, sequence: u32) -> u64 {
        (tick.0 << self.time_shift)
            | (u64::from(worker.0) << self.worker_shift)
            | (u64::from(sequence) << self.sequence_shift)
    }
}

/// The most bytes of a name: what fits a URL, a metric label and a table's column.
pub const MAX_NAME_BYTES: usize = 128;

/// Whether a layout, a sequence or a node may have this name: 1 to [`MAX_NAME_BYTES`] of
/// `[A-Za-z0-9._:-]`, the first a letter or a digit.
///
/// Replicated state is checked by it: it can be changed only together with the cluster's level.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
    name.len() <= MAX_NAME_BYTES
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(inner)
}

fn check_bits(field: &'static str, bits: u32, least: u32, most: u32) -> Result<(), LayoutError> {
    if (least..=most).contains(&bits) {
        Ok(())
    } else {
        Err(LayoutError::FieldBits {
            field,
            bits,
            least,
            most,
        })
    }
}
