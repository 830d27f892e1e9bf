//! The clients' port: one way in and one way out for every request.
//!
//! A request passes the [`gate`], is read once into an [`ask::Ask`], answered by its handler, and
//! counted. Handlers know nothing of headers, bodies or metrics; they get values and give values.

pub(crate) mod accept;
pub(crate) mod answer;
pub(crate) mod ask;
mod gate;
mod meter;
pub(crate) mod refusals;
pub(crate) mod routes;
pub(crate) mod server;

pub(crate) use gate::RequestIds;
