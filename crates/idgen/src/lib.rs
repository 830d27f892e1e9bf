//! Generates numbers that never repeat, without I/O: layouts, the generator and its fence, the
//! clock guard, progressions and the segment buffer.
//!
//! Nothing in this crate reads a clock, waits, locks or depends on a cluster: time is an argument,
//! and a wait or a refusal is a return value. An external generator that holds a worker lease can
//! therefore use the crate as a library.
//!
//! Layers, lowest first. A module imports only from its own layer and from those below it:
//!
//! - `time`, `policy`, `id`, `progression`, `segment`: times, IDs, and ranges of numbers
//! - `layout`, `generator`, `agreement`: the fields of an ID, minting, and clocks that agree
//! - `guard`: the effect of a clock step on minting

#![warn(missing_docs)]

mod agreement;
mod generator;
mod guard;
mod id;
mod layout;
mod policy;
mod progression;
mod segment;
mod time;

pub use agreement::{Agreed, Agreement, Line, Standing};
pub use generator::{Chunked, Generator, GeneratorError, IdRun, IdRunIter, Mint, MintOne, Refusal};
pub use guard::{
    ClockGuard, ClockVerdict, FORWARD_JUMP_CONFIRM, MARK_EVERY_MS, MARK_LEAD_MS, StoredMark,
};
pub use id::SnowflakeId;
pub use layout::{
    FieldOrder, FirstSequence, Layout, LayoutError, LayoutSpec, MAX_NAME_BYTES, PackError, Parts,
    Remainders, TickError, UnpackError, WorkerId, is_name,
};
pub use policy::{ClockPolicy, OnRollback};
pub use progression::{Progression, ProgressionError};
pub use segment::{
    Granted, IndexRange, RefillRequest, SegmentBuffer, SegmentPolicy, SegmentPolicyError, Tail,
    Take,
};
pub use time::{Tick, WallClock, WallMs};
