//! The replicated state machine: commands, outcomes, `apply`, and the records with their bytes.
//!
//! A group of nodes applies the same entries in the same order and so comes to the same state, row
//! for row and byte for byte. Nothing here reads a clock, waits, or touches a disk or a socket:
//! time comes in each entry, and where rows are kept is for others to decide.
//!
//! - [`State::apply`] turns an [`Entry`] of [`Command`]s into [`Outcome`]s;
//! - the reads of [`State`] see what was applied;
//! - [`State::drain_changes`], [`State::rows`] and [`State::from_rows`] are its bytes, and
//!   [`State::digest`] their fingerprint;
//! - [`encode`] and [`decode`] are the one codec of everything that is stored or sent;
//! - [`Level`] is up to where the formats of a cluster have come.

mod apply;
mod census;
mod cluster;
pub mod codec;
mod context;
mod deadlines;
mod domains;
mod entry;
mod foreign;
mod layouts;
mod level;
mod newtypes;
#[cfg(any(test, feature = "test-next-level"))]
pub mod notes;
mod restore;
mod row;
mod rows;
mod sequences;
mod stamp;
mod state;
mod table;
mod tables;
mod text;
mod v1;
mod workers;

pub use census::{Census, Counted, Counts};
pub use cluster::commands::{
    AllocateNodeId, ClusterCommand, ClusterOutcome, ClusterRefusal, Found, FoundingError,
    MAX_FOUNDER_ID, MAX_FOUNDERS, MAX_PEER_SKEW_MS, MAX_WINDOW_MS,
};
pub use cluster::nodes::{AddedNode, NodeRecord, RegisteredStart};
pub use cluster::restoration::{MAX_STAMP_MS, RestorationRecord};
pub use cluster::settings::{MIN_WINDOW_TICKS, Settings};
pub use codec::{CodecError, Versioned, decode, encode};
pub use deadlines::MAX_PASSED_PER_ENTRY;
pub use domains::{Command, Outcome, Refusal};
pub use entry::{EncodedEntry, Entry, EntryError, MAX_COMMANDS_PER_ENTRY, check_command};
pub use level::{Level, LogPosition};
pub use newtypes::{
    ClusterMs, Digest, Epoch, GrantToken, LeaseId, MAX_SEQUENCE_NAME_BYTES, NodeId, Revision,
    SequenceName, SequenceNameError,
};
pub use restore::{Raise, RaisedSequence, Restoration, RestorationError};
pub use row::{Changes, Row, RowChange, RowError, row_hash};
pub use rows::StateLoader;
/// The crate of ticks, layouts and progressions, for those who know it through the state alone.
pub use seqd_idgen as idgen;
pub use sequences::commands::{
    MAX_STRICT_COUNT, NextGrant, NextRequest, SegmentGrant, SequenceCommand, SequenceOutcome,
    SequenceRefusal, ValueRange,
};
pub use sequences::definition::{
    DefinitionError, MAX_GRANT_SIZE, MAX_SEGMENT_TARGET_MS, SegmentSizes, SequenceDefinition,
    SequenceMode,
};
pub use sequences::grants::{MAX_RANGES_PER_NEXT, Run, SequenceRecord};
pub use stamp::Stamp;
pub use state::State;
pub use table::Count;
pub use text::{TextField, TextRefusal};
pub use v1::EntryV1;
pub use workers::commands::{
    Holder, LeaseGrant, TakeLease, WorkerCommand, WorkerOutcome, WorkerRefusal,
};
pub use workers::leases::{LeaseView, WorkerRecord};
