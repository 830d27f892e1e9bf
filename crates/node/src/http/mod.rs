//! HTTP below the handlers: one way in and one way out for every request.
//!
//! A request presents its token ([`bearer`]), passes the [`gate`], is read once into a [`Request`],
//! is answered by the handler that the [`router`] finds, and is counted. This module depends on no
//! service.

mod bearer;
mod context;
pub(crate) mod etag;
mod foreign;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod gate;
mod hosts;
mod negotiate;
mod request;
mod request_key;
mod response;
mod router;
mod server;
mod slow;
mod stored;
mod stranger;
#[cfg(test)]
mod tests;
mod trace;

pub(crate) use context::Context;
pub(crate) use etag::ETag;
pub(crate) use foreign::{Foreign, with_route};
pub(crate) use gate::RequestIds;
pub(crate) use hosts::Hosts;
pub(crate) use request::{Bodies, Request};
pub(crate) use response::Response;
pub(crate) use router::{Call, Endpoint, Route, build};
pub(crate) use server::serve;
pub(crate) use slow::SlowLog;
pub(crate) use stored::Stored;
pub(crate) use stranger::Stranger;
