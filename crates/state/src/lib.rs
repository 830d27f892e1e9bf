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
//! - [`encode`] and [`decode`] are the one codec of everything that is stored or sent.

mod census;
mod cluster;
pub mod codec;
mod command;
mod entry;
mod foreign;
mod newtypes;
mod outcome;
mod refusal;
mod rows;
mod sequences;
mod state;
mod table;
mod text;
mod workers;

pub use census::{Census, Counted, Counts};
pub use codec::{CodecError, Versioned, decode, encode};
pub use command::{
    AllocateNodeId, Command, MAX_GRANT_SIZE, MAX_REQUESTS_PER_STRICT_NEXT, MAX_STRICT_COUNT,
    NextRequest, TakeLease,
};
pub use workers::leases::{Holder, LeaseView, WorkerRecord};
pub use newtypes::{
    ClusterMs, Digest, Epoch, GrantToken, LeaseId, MAX_SEQUENCE_NAME_BYTES, NodeId, Revision,
    SequenceName, SequenceNameError,
};
pub use cluster::nodes::{AddedNode, NodeRecord, RegisteredStart};
pub use outcome::{LeaseGrant, NextGrant, Outcome, Outcomes, SegmentGrant, ValueRange};
pub use refusal::Refusal;
pub use cluster::restoration::{
    MAX_STAMP_MS, Raise, RaisedSequence, Restoration, RestorationError, RestorationRecord,
};
pub use rows::{Changes, Row, RowChange, RowError, StateLoader, row_hash};
/// The crate of ticks, layouts and progressions, for those who know it through the state alone.
pub use seqd_idgen as idgen;
pub use sequences::{
    DefinitionError, MAX_RANGES_PER_NEXT, MAX_SEGMENT_TARGET_MS, Run, SegmentSizes,
    SequenceDefinition, SequenceMode, SequenceRecord,
};
pub use cluster::settings::{
    Found, FoundingError, MAX_FOUNDER_ID, MAX_FOUNDERS, MAX_PEER_SKEW_MS, MAX_WINDOW_MS,
    MIN_WINDOW_TICKS, Settings,
};
pub use entry::{Entry, MAX_COMMANDS_PER_ENTRY, Stamp};
pub use state::State;
pub use text::TextField;
