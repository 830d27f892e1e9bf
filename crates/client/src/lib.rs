//! A typed client of seqd's HTTP interface.
//!
//! A request goes to the endpoint that answered well last, at first to the first of the list; it
//! goes on to the next only where that is certainly harmless: no connection came about, the answer
//! is `retryable`, or nothing came for a share of the time and the request changes nothing. What
//! changes something is sent only to a node that has answered lately, at least `/livez`; if it is
//! not answered then, that is reported and it is never sent again ([`Error::OutcomeUnknown`]).

#![warn(missing_docs)]

mod changes;
mod client;
mod connect;
mod download;
mod dry_run;
mod endpoint;
mod error;
mod operations;
mod round;

pub use client::{Client, Options};
pub use download::Download;
pub use dry_run::DryRun;
pub use endpoint::{Endpoint, parse_endpoints};
pub use error::{Attempt, Error};
pub use operations::Created;
pub use seqd_api as api;
pub use seqd_tls::ClientFiles;
