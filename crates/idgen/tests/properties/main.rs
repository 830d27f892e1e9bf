//! The guarantees of the crate, tested from outside: against naive models with random scripts, and
//! as named scenarios. A failing property prints its seed and the smallest failing script.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may fail loudly"
)]

mod agreement;
mod chunks;
mod exhaustion;
mod explain;
mod generator;
mod guard;
mod incidents;
mod layout;
mod progression;
mod segment;
mod spread;
mod threads;

use proptest::test_runner::Config;
use seqd_idgen::{FieldOrder, FirstSequence, Layout, LayoutSpec};

/// Sets the number of random scripts of a property.
fn cases(cases: u32) -> Config {
    Config {
        cases,
        ..Config::default()
    }
}

/// Returns a layout that is small enough for scripts to reach its limits.
fn small_layout(tick_ms: u32, time_bits: u8, sequence_bits: u8) -> LayoutSpec {
    LayoutSpec {
        name: "small".to_owned(),
        epoch_ms: 10_000,
        tick_ms,
        time_bits,
        datacenter_bits: 0,
        worker_bits: 2,
        sequence_bits,
        order: FieldOrder::TickWorkerSequence,
        first_sequence: FirstSequence::Zero,
    }
}

fn layout(spec: LayoutSpec) -> Layout {
    Layout::new(spec).unwrap()
}
