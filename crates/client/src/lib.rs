//! A typed client of seqd's HTTP interface.
//!
//! A request is sent to the endpoint of the last good response, initially to the first endpoint of
//! the list. It is sent to the next endpoint only if that is certainly harmless: no connection was
//! established, the response is `retryable`, or a request that changes nothing received no response
//! within its share of the time. A request that changes something is sent only to a node that has
//! responded recently, at least to `/livez`. If it then receives no response, that is reported as
//! [`Error::OutcomeUnknown`], and it is never sent again.
//!
//! An [`IdGenerator`] (or [`blocking::IdGenerator`]) mints IDs in this process with a worker leased
//! from the cluster, without a request per ID. A [`SequenceAllocator`] (or
//! [`blocking::SequenceAllocator`]) draws the values of a segment sequence in the same way.
//!
//! Layers, lowest first. A module imports only from its own layer and from those below it:
//!
//! - `boot_clock`, `definition`, `error`, `system_clock`: clocks, and what a call returns
//! - `connect`, `endpoint`, `nonce`, `pace`: one endpoint and its connection; pauses
//! - `round`: the order in which endpoints are tried
//! - `client`: requests
//! - `allocator`, `generator`, `hold`, `once`, `operations`, `verify`: typed calls, values and IDs
//!   made in this process, locks held by it
//! - `blocking`, `download`, `locks`: the same without async, and what spans several calls
//! - `vectors`: the file that the libraries in other languages run

#![warn(missing_docs)]

mod allocator;
pub mod blocking;
mod boot_clock;
mod client;
mod connect;
mod definition;
mod download;
mod endpoint;
mod error;
mod generator;
mod hold;
mod locks;
mod nonce;
mod once;
mod operations;
mod pace;
mod round;
mod system_clock;
#[cfg(test)]
mod vectors;
mod verify;

pub use allocator::{
    AllocateError, AllocatorOptions, AllocatorStatus, Chunk, Closed, MAX_TAKE, SequenceAllocator,
};
pub use boot_clock::{BootTime, sleep_until};
pub use client::{Client, Options, Traced};
pub use definition::{UnknownLayout, layout_of};
pub use download::Download;
pub use endpoint::{Endpoint, parse_endpoints};
pub use error::{Attempt, Error};
pub use generator::{GenerateError, GeneratorOptions, IdGenerator, MAX_COUNT, NotReleased, Status};
pub use hold::{LockError, LockGuard, LockLost, LockOptions};
pub use once::{Once, OnceError, OnceOptions, Turn};
pub use operations::{Created, DryRun};
pub use seqd_api as api;
pub use seqd_idgen as idgen;
pub use seqd_net::tls::ClientFiles;
pub use system_clock::SystemClock;
pub use verify::{Finding, Verifier, VerifierError};
