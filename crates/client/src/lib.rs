//! A typed client of seqd's HTTP interface.
//!
//! A request goes to the endpoint that answered well last, at first to the first of the list; it
//! goes on to the next only where that is certainly harmless: no connection came about, the answer
//! is `retryable`, or nothing came for a share of the time and the request changes nothing. What
//! changes something is sent only to a node that has answered lately, at least `/livez`; if it is
//! not answered then, that is reported and it is never sent again ([`Error::OutcomeUnknown`]).
//!
//! An [`IdGenerator`] (or [`blocking::IdGenerator`]) makes IDs in this process, with a worker that
//! it leases of the cluster: no request per ID.
//!
//! Layers, lowest first. A module imports only from its own layer and from those below it:
//!
//! - `boot_clock`, `definition`, `error`, `system_clock`: clocks, and what a call returns
//! - `connect`, `endpoint`, `nonce`: one endpoint and its connection
//! - `round`: the order in which endpoints are tried
//! - `client`: requests
//! - `generator`, `hold`, `once`, `operations`, `verify`: typed calls, IDs made in this process,
//!   locks held by it
//! - `blocking`, `download`, `locks`: the same without async, and what spans several calls

#![warn(missing_docs)]

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
mod round;
mod system_clock;
mod verify;

pub use boot_clock::{BootTime, sleep_until};
pub use client::{Client, Options};
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
