//! The harness. It starts real `seqd server` processes on free loopback ports with temporary
//! folders, injects faults, records the outcomes of requests on one monotonic clock, and checks the
//! history.
//!
//! Both the stories in `tests/stories` and the longer runs of the `soak` binary use it. It uses the
//! product only from outside: the binary, its configuration file, its HTTP interface, its exit
//! codes and its folders; and the `client` crate, like a program outside the cluster. Only the
//! [model] is different: it calls the code of minting and of the replicated state, and starts no
//! process.
//!
//! A run under faults has four parts: [loads] and [clients], the fault plan in [strikes], the
//! [checkers], and one [report].
//!
//! A run ends and removes everything it created, even if it fails. Processes are ended through the
//! handle that started them, never by name.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a harness: a panic with a message is how a test fails"
)]

pub mod asker;
pub mod balancer;
pub mod binary;
pub mod callers;
pub mod certificates;
pub mod checkers;
pub mod clients;
pub mod clock;
pub mod clock_steps;
pub mod cluster;
pub mod connection;
pub mod damage;
pub mod disk_use;
pub mod echo;
pub mod failover;
pub mod faults;
pub mod generators;
pub mod guards;
pub mod history;
pub mod http;
pub mod key_load;
pub mod keyed_calls;
pub mod lease_watch;
pub mod like_postgres;
pub mod link_faults;
pub mod link_runs;
pub mod links;
pub mod load;
pub mod loads;
pub mod lock_runs;
pub mod loop_disk;
pub mod memory;
pub mod mixed;
pub mod model;
pub mod node;
pub mod node_peaks;
pub mod objects;
pub mod payments;
pub mod permits;
pub mod ports;
pub mod postgres;
pub mod power;
pub mod python;
pub mod report;
pub mod resp;
pub mod rolling;
pub mod runs;
pub mod runtime;
pub mod seed;
pub mod sequence_load;
mod server;
pub mod skips;
pub mod strikes;
pub mod takeover;
pub mod wait;
pub mod workload;
