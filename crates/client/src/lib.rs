//! A typed client of seqd's HTTP interface.
//!
//! A request goes to the first endpoint; it goes on to the next only where that is certainly
//! harmless: no connection came about, or the answer is `retryable`. Whatever was sent and not
//! answered is reported as such and never sent again ([`Error::OutcomeUnknown`]).

#![warn(missing_docs)]

mod client;
mod connect;
mod download;
mod endpoint;
mod error;
mod operations;

pub use client::{Client, Options};
pub use download::Download;
pub use endpoint::{Endpoint, parse_endpoints};
pub use error::{Attempt, Error};
pub use operations::Created;
pub use seqd_api as api;
