//! Tests of properties that depend on several parts together.

mod addresses;
mod adds;
mod bad_sector;
mod behind;
mod cluster;
mod copies;
pub(crate) mod cut;
mod envelopes;
mod exports;
mod founders;
mod golden;
pub(crate) mod harness;
pub(crate) mod hung_disk;
mod leaderships;
mod levels;
pub(crate) mod members;
mod messages;
mod overdue;
mod peers_file;
mod refused_openings;
mod resume;
mod slow_link;
mod stop_reasons;
mod storage_suite;
mod superseded;
mod transfer;
