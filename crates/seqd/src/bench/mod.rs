//! A load generator that measures requests for numbers, and checks the numbers.
//!
//! All clients run on the calling thread, with one task for each, so that a machine with two cores
//! keeps one for the server. Two further threads need little processor time: one gives the start
//! signals of an open loop, the other compares numbers.
//!
//! Layers, lowest first. A module imports only from its own layer and from those below it:
//!
//! - `numbers`, `schedule`: the numbers of a response, and the times of an open loop
//! - `check`, `connection`: repeats and order, and one keep-alive connection
//! - `client`, `figures`: one client and its requests, and what is counted
//! - `load`: many clients for one round
//! - `ratio`: two targets in alternating rounds

mod check;
mod client;
mod connection;
mod figures;
mod load;
mod numbers;
mod ratio;
mod schedule;

pub(crate) use check::{Findings, RUNS};
pub(crate) use client::{Action, LockCycle};
pub(crate) use connection::{Connector, Prepared, Server, method};
pub(crate) use figures::{Figures, Latencies};
pub(crate) use load::{Halt, Round, Target};
pub(crate) use numbers::{JsonPath, Read};
pub(crate) use ratio::{Pairs, Ratios, Spread};
