//! A layout: defines how tick, worker and sequence share the 63 bits of an ID, and the epoch of its
//! ticks.
//!
//! A layout is validated once and never changes. Values that do not fit are refused, never masked.
//! It reads no clock: `tick_at` is arithmetic on a reading.

mod explain;
mod presets;

use std::sync::Arc;

pub use explain::Remainders;

use crate::id::SnowflakeId;
use crate::time::{Tick, WallMs};

/// The number of a worker in its layout: the whole field, including the datacenter bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u32);

/// The order of the fields, from the highest bit to the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldOrder {
    /// `tick | worker | sequence`, the usual order.
    TickWorkerSequence,
    /// `tick | sequence | worker`, the order of Sonyflake.
    TickSequenceWorker,
}

/// The first sequence number of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FirstSequence {
    /// Always 0.
    Zero,
    /// A number below this bound that differs from tick to tick, so that IDs taken at a low rate
    /// are distributed over shards by remainder. Lower sequence numbers are not used in that tick.
    RandomBelow(u32),
    /// Drawn from all sequences in each fresh tick, so that IDs taken at a low rate are distributed
    /// over any number of shards. It is 0 in a tick that follows a completely used one, so that a
    /// worker at its limit loses no ID. A batch that opens a tick is placed so that it fits
    /// completely.
    Spread,
}

/// The definition of a layout. Two layouts with equal definitions but different names are
/// different.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LayoutSpec {
    /// 1 to 128 characters of `[A-Za-z0-9._:-]`, the first alphanumeric.
    pub name: String,
    /// The wall-clock time at which tick 0 begins, in milliseconds.
    pub epoch_ms: u64,
    /// The length of a tick: 1, 10 or 1000 milliseconds.
    pub tick_ms: u32,
    /// Bits of the tick.
    pub time_bits: u8,
    /// Upper bits of the worker field that contain the datacenter. 0 if the layout has none.
    pub datacenter_bits: u8,
    /// Lower bits of the worker field, below the datacenter bits.
    pub worker_bits: u8,
    /// Bits of the sequence.
    pub sequence_bits: u8,
    /// The order of the fields.
    pub order: FieldOrder,
    /// The first sequence of a tick.
    pub first_sequence: FirstSequence,
}

/// The reason why a definition is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The name violates its rule.
    #[error("a layout name is 1 to 128 of [A-Za-z0-9._:-], the first alphanumeric; got {0:?}")]
    Name(String),
    /// The length of the tick is not 1, 10 or 1000 ms.
    #[error("a tick is 1, 10 or 1000 ms; got {0}")]
    TickLength(u32),
    /// The width of a field is out of range.
    #[error("{field} must be {least} to {most} bits; got {bits}")]
    FieldBits {
        /// The field.
        field: &'static str,
        /// The requested width.
        bits: u32,
        /// The smallest width.
        least: u32,
        /// The largest width.
        most: u32,
    },
    /// The fields together exceed 63 bits; the sign bit must be zero.
    #[error("the fields take {0} bits; an ID has 63 bits besides its zero sign bit")]
    TotalBits(u32),
    /// The last tick ends after the largest signed 64-bit time in milliseconds.
    #[error("the time field ends past the last representable millisecond")]
    EndsTooLate,
    /// The bound of the first sequence is 0 or above the number of sequences.
    #[error("the first sequence is drawn below 1 to {most}; got {bound}")]
    FirstSequence {
        /// The requested bound.
        bound: u32,
        /// The number of sequences of a tick.
        most: u32,
    },
}

/// The reason why a wall-clock time has no tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TickError {
    /// The time is before the layout's epoch.
    #[error("the time is before the layout's epoch")]
    BeforeEpoch,
    /// The time is at or after the end of the time field.
    #[error("the layout's time field is full")]
    TimeFull,
}

/// The reason why parts cannot form an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// The tick does not fit its field.
    #[error("tick {} is above the layout's last, {}", .tick.0, .max.0)]
    Tick {
        /// The requested tick.
        tick: Tick,
        /// The last tick of the layout.
        max: Tick,
    },
    /// The worker does not fit its field.
    #[error("worker {} is not below {workers}", .worker.0)]
    Worker {
        /// The requested worker.
        worker: WorkerId,
        /// The number of workers.
        workers: u32,
    },
    /// The sequence does not fit its field.
    #[error("sequence {sequence} is not below {sequences}")]
    Sequence {
        /// The requested sequence.
        sequence: u32,
        /// The number of sequences per tick.
        sequences: u32,
    },
}

/// The number is not an ID of this layout: it has bits outside the layout, possibly the sign bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{id} is not an ID of this layout: the layout uses {bits} bits, and the number has other bits \
     set"
)]
pub struct UnpackError {
    /// The number.
    pub id: SnowflakeId,
    /// The number of low bits that the layout uses.
    pub bits: u32,
}

/// The parts of an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parts {
    /// Ticks since the layout's epoch.
    pub tick: Tick,
    /// The worker, including the datacenter bits.
    pub worker: WorkerId,
    /// The sequence number within the tick.
    pub sequence: u32,
}

/// The positions of the fields. Types that pack many IDs copy it.
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
/// Invariants, established by `new`:
/// - time, worker field and sequence have at least one bit each, and at most 63 together;
/// - so `(tick + 1) << sequence_bits` fits 63 bits, which the word of the generator depends on;
/// - the end of the last tick is a time that fits 63 bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    spec: Arc<LayoutSpec>,
    geometry: Geometry,
}

impl Layout {
    /// Validates a definition.
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
        // At most 31 bits, so that the number of workers or sequences also fits a u32.
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

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Returns the definition.
    pub fn spec(&self) -> &LayoutSpec {
        &self.spec
    }

    /// Packs an ID from its parts. Fails if a part does not fit its field.
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

    /// Unpacks an ID. Fails if the number has bits outside the layout, including the sign bit.
    pub fn unpack(&self, id: SnowflakeId) -> Result<Parts, UnpackError> {
        let g = &self.geometry;
        let bits = self.bits();
        if id.get() >> bits != 0 {
            return Err(UnpackError { id, bits });
        }
        // Both fields have at most 31 bits, so the casts are lossless.
        let field = |shift: u32, width: u32| ((id.get() >> shift) & ((1 << width) - 1)) as u32;
        Ok(Parts {
            tick: Tick(id.get() >> g.time_shift),
            worker: WorkerId(field(g.worker_shift, g.field_bits)),
            sequence: field(g.sequence_shift, g.sequence_bits),
        })
    }

    /// Returns the tick that contains a wall-clock time.
    pub fn tick_at(&self, at: WallMs) -> Result<Tick, TickError> {
        self.geometry.tick_at(at)
    }

    /// Returns the wall-clock time at which a tick begins. The tick after the last one begins at
    /// [`exhausted_at`](Self::exhausted_at). For later ticks, which no layout uses, the result
    /// saturates.
    pub fn wall_at(&self, tick: Tick) -> WallMs {
        self.geometry.wall_at(tick)
    }

    /// Returns the exclusive fence of a window whose last tick contains `until`: that tick plus
    /// one. If the time field has ended by then, it is one past the last tick. Before the epoch, it
    /// is 0, which is an empty window.
    pub fn fence_at(&self, until: WallMs) -> Tick {
        match self.tick_at(until) {
            Ok(tick) => Tick(tick.0 + 1),
            Err(TickError::TimeFull) => Tick(self.max_tick().0 + 1),
            Err(TickError::BeforeEpoch) => Tick(0),
        }
    }

    /// Returns the last tick that fits.
    pub fn max_tick(&self) -> Tick {
        self.geometry.max_tick()
    }

    /// Returns the end of the last tick. From then on the layout can only decode.
    pub fn exhausted_at(&self) -> WallMs {
        self.wall_at(Tick(self.max_tick().0 + 1))
    }

    /// Returns the number of workers, over all datacenters.
    pub fn workers(&self) -> u32 {
        1 << self.geometry.field_bits
    }

    /// Returns the number of IDs that one worker can mint per tick.
    pub fn sequences(&self) -> u32 {
        1 << self.geometry.sequence_bits
    }

    /// Returns the number of IDs that one worker can mint per second.
    pub fn ids_per_second(&self) -> u64 {
        u64::from(self.sequences()) * (1000 / self.geometry.tick_ms)
    }

    /// Returns the number of low bits that an ID of this layout uses.
    pub fn bits(&self) -> u32 {
        self.geometry.time_bits + self.geometry.time_shift
    }

    /// Returns the datacenter of a worker, if the layout has datacenters.
    pub fn datacenter_of(&self, worker: WorkerId) -> Option<u32> {
        (self.spec.datacenter_bits > 0).then(|| worker.0 >> self.spec.worker_bits)
    }

    /// Returns the number of a worker within its datacenter, or the whole number if there are no
    /// datacenters.
    pub fn worker_in_datacenter(&self, worker: WorkerId) -> u32 {
        worker.0 & ((1 << self.spec.worker_bits) - 1)
    }

    /// Returns the first and the last worker of a datacenter, or `None` if the layout does not have
    /// this datacenter.
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

    /// Joins parts that the caller has checked.
    pub(crate) fn join(&self, tick: Tick, worker: WorkerId, sequence: u32) -> u64 {
        (tick.0 << self.time_shift)
            | (u64::from(worker.0) << self.worker_shift)
            | (u64::from(sequence) << self.sequence_shift)
    }
}

/// The longest name in bytes. It fits a URL, a metric label and a table column.
pub const MAX_NAME_BYTES: usize = 128;

/// Returns whether a layout, a sequence or a node may have this name: 1 to [`MAX_NAME_BYTES`]
/// characters of `[A-Za-z0-9._:-]`, the first a letter or a digit.
///
/// The replicated state is checked by this function, so it may be changed only together with the
/// cluster's level.
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
