//! The replicated state machine: commands, outcomes, `apply`, and the records with their bytes.
//!
//! Replicas that apply the same entries in the same order have the same state, byte for byte.
//! Nothing in this crate reads a clock, waits, or touches a disk or a socket: each entry carries
//! its time.
//!
//! - [`State::apply`] applies the [`Command`]s of an [`Entry`] and returns their [`Outcome`]s.
//! - [`State::drain_changes`], [`State::rows`] and [`State::from_rows`] write and read the state as
//!   rows of bytes. [`State::digest`] is a fingerprint of the rows.
//! - [`encode`] and [`decode`] are the single codec of everything stored or sent.
//! - [`Level`] is the newest format that a cluster may write.
//!
//! Layers, lowest first. A module imports only from its own layer and from those below it:
//!
//! - `foreign`, `level`, `newtypes`: numbers and names with a meaning
//! - `codec`, `stamp`, `tenant`: bytes of values, and the time of an entry
//! - `row`, `text`, `table`: a table of records, and its rows
//! - `access`, `cluster`, `layouts`, `sequences`, `context`: records without an expiry, and their
//!   commands
//! - `deadlines`, `domains`, `keys`, `locks`, `notes`, `state`, `tables`, `tokens`, `waits`,
//!   `workers`: records that expire, and all tables together
//! - `check`, `entry`, `reserve`, `restore`, `rows`: entries, and the state as rows
//! - `apply`, `census`, `windows`: changes, counts, and a leader's draws from its grants

mod access;
mod apply;
mod census;
mod check;
mod cluster;
pub mod codec;
mod context;
mod deadlines;
mod domains;
mod entry;
mod foreign;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(test)]
#[path = "../../../tests/fuzz/kept.rs"]
mod kept;
mod keys;
mod layouts;
mod level;
mod locks;
mod newtypes;
#[cfg(feature = "test-next-level")]
pub mod notes;
mod reserve;
mod restore;
mod row;
mod rows;
mod sequences;
mod stamp;
mod state;
mod table;
mod tables;
mod tenant;
#[cfg(test)]
mod testing;
mod text;
mod tokens;
mod waits;
mod windows;
mod workers;

pub use access::{
    AccessCommand, AccessOutcome, AccessRecord, AccessRefusal, MAX_PER_SECOND, MAX_PERMISSIONS,
    MAX_PREFIX_BYTES, MAX_TOKENS, Permission, Scope, TokenHash,
};
pub use census::{Census, Counted, Counts};
pub use cluster::commands::{
    AllocateNodeId, ClusterCommand, ClusterOutcome, ClusterRefusal, Found, FoundingError,
};
pub use cluster::nodes::{AddedNode, NodeRecord, RegisteredStart};
pub use cluster::restoration::RestorationRecord;
pub use cluster::secret::SecretKey;
pub use cluster::settings::Settings;
pub use codec::{CodecError, Versioned, decode, encode};
pub use domains::{Command, Outcome, Refusal};
pub use entry::{
    EncodedEntry, Entry, EntryError, MAX_COMMANDS_PER_ENTRY, MAX_ENTRY_BYTES, check_command,
};
pub use keys::commands::{
    BeginKey, KeyCommand, KeyOutcome, KeyRefusal, MAX_CLAIM_TTL_MS, MAX_KEY_BYTES_IN_ALL, MAX_KEYS,
    MAX_REMOVED, MAX_TTL_MS, MIN_CLAIM_TTL_MS, MIN_TTL_MS,
};
pub use keys::record::{
    KeyClaim, KeyName, KeyRecord, KeySpace, MAX_ANSWER_BYTES, MAX_FINGERPRINT_BYTES, MAX_KEY_BYTES,
    MAX_NONCE_BYTES, MAX_RESULT_BYTES, RESERVED_RESULT_BYTES,
};
pub use layouts::commands::{LayoutCommand, LayoutOutcome, LayoutRefusal, MAX_LAYOUTS};
pub use level::{Level, LogPosition};
pub use locks::commands::{
    AcquireLock, BrokenHold, LockCommand, LockOutcome, LockProblem, LockRefusal, MAX_BROKEN_NAMED,
    MAX_CLAIMS, MAX_LOCK_DELAY_MS, MAX_LOCK_TTL_MS, MAX_LOCK_WAIT_MS, MAX_LOCKS, MIN_LOCK_TTL_MS,
};
pub use locks::names::{
    Attempt, FencingToken, LockName, LockNameError, MAX_LOCK_NAME_BYTES, MAX_LOCK_OWNER_BYTES,
    Nonce,
};
pub use locks::record::{
    Claim, LockHolder, LockRecord, LockWaiter, MAX_ATTEMPTS, MAX_HOLDERS, MAX_WAITERS,
};
pub use locks::tally::LockCounts;
pub use locks::view::{ClaimView, LockView};
pub use newtypes::{
    AccessId, ClusterMs, Digest, Epoch, GrantToken, LeaseId, NodeId, Revision, SequenceName,
    SequenceNameError,
};
pub use restore::{Raise, RaisedSequence, Restoration, RestorationError};
pub use row::{Changes, Row, RowChange, RowError, Undrained, row_hash};
pub use rows::StateLoader;
pub use seqd_idgen as idgen;
pub use sequences::commands::{
    NextGrant, NextRequest, SegmentGrant, SequenceCommand, SequenceOutcome, SequenceRefusal,
    ValueRange,
};
pub use sequences::definition::{
    Bound, BoundError, DefinitionChange, DefinitionError, MAX_GRANT_SIZE, SegmentSizes,
    SequenceDefinition, SequenceMode,
};
pub use sequences::record::{Run, SequenceRecord};
pub use stamp::Stamp;
pub use state::{Origin, State};
pub use tenant::{Held, Holdings, Share, Tenant};
pub use text::{TextField, TextRefusal};
pub use tokens::commands::{
    MAX_ISSUED, MAX_ONE_TIME, OneTimeCommand, OneTimeOutcome, OneTimeRefusal,
};
pub use tokens::record::{OneTimeId, OneTimeRecord, OneTimeUse};
pub use waits::Wait;
pub use windows::{
    Draw, DrawFrom, DrawResult, Drawn, MAX_TIMESTAMPS, TIMESTAMP_COUNTER_BITS, Windows,
};
pub use workers::commands::{
    Holder, LeaseGrant, TakeLease, WorkerCommand, WorkerOutcome, WorkerRefusal,
};
pub use workers::past::MAX_PAST_LEASES;
pub use workers::record::{LeaseView, WorkerRecord};
pub use workers::room::{LayoutUse, MAX_WORKERS_KNOWN};
