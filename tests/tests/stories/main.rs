//! Tests with real processes, from the view of a user and of an operator in trouble.
//!
//! Each test starts its own cluster in a temporary folder and ends it. Their longer versions are
//! the commands of the `soak` binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "the helpers of stories are test code too: a panic with a message is how they fail"
)]

mod access;
mod addresses;
mod allocators;
mod api_description;
mod backup;
mod bench;
mod catch_up;
mod checkpoint;
mod client_holds;
mod clock;
mod clock_ahead;
mod clock_steps;
mod cluster;
mod common_stop;
mod compat;
mod copies;
mod cosid;
mod damaged_log;
mod damaged_snapshots;
mod deployment;
mod doctor;
mod door;
mod drain;
mod failing_disk;
mod fenced_objects;
mod fenced_service;
mod fencing;
mod folders;
mod generator_examples;
mod generators;
mod golden;
mod health_port;
mod held_commands;
mod ids;
mod imports;
mod key_races;
mod keys;
mod large_requests;
mod layouts;
mod leases;
mod like_postgres;
mod links;
mod lock_faults;
mod locks;
mod members;
mod memcached;
mod ordered;
mod pages;
mod payments;
mod peers_port;
mod power_cuts;
mod quorum;
mod redis;
mod redis_access;
mod redis_channels;
mod redis_refusals;
mod replacement;
mod revoked_tokens;
mod segments;
mod sequences;
mod several_workers;
mod slow_requests;
mod small_disks;
mod strict;
mod takeover;
mod tenants;
mod tls;
mod tls_command;
mod tls_peers;
mod tokens;
mod updates;
mod upgrade;
mod waiting;
