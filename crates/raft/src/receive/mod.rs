//! The peers' port: every message that another node may send is checked here and passed to its
//! handler.
//!
//! The port is open from the first moment of a start, so that nodes which are not yet part of a
//! cluster can answer each other's hellos.

mod cluster;
mod consensus;
mod routes;
mod service;
mod snapshot;

pub(crate) use self::service::Service;
