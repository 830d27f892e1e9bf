//! Making numbers that never repeat, without I/O: layouts, the generator and its fence, the clock
//! guard, progressions and the segment buffer.
//!
//! Nothing here reads a clock, waits, locks or knows a cluster: time is an argument, and a wait or
//! a refusal is an answer. So the crate is usable as a library by an external generator that holds
//! a worker lease.

mod generator;
mod id;
mod layout;
mod policy;
mod progression;
mod time;

pub use generator::{Generator, GeneratorError, IdRun, IdRunIter, Mint, Refusal};
pub use id::SnowflakeId;
pub use layout::{
    FieldOrder, FirstSequence, Layout, LayoutError, LayoutSpec, PackError, Parts, TickError,
    UnpackError, WorkerId,
};
pub use policy::{ClockPolicy, OnRollback};
pub use progression::{Progression, ProgressionError};
pub use time::{Tick, WallClock, WallMs};
