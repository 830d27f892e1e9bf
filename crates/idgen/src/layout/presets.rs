//! The layouts that every cluster has from its first entry on.
//!
//! Their definitions are those of the systems they are named after, so that the IDs of these
//! systems can be decoded here and new IDs continue above them. A preset must never change, because
//! IDs minted with it exist.

use super::{FieldOrder, FirstSequence, Layout, LayoutSpec};

/// 2026-01-01T00:00:00Z.
const EPOCH_2026_MS: u64 = 1_767_225_600_000;
/// 2025-01-01T00:00:00Z.
const EPOCH_2025_MS: u64 = 1_735_689_600_000;
/// 2016-05-20T00:00:00Z. Baidu's default begins at midnight in China, this one at midnight UTC.
const EPOCH_2016_05_20_MS: u64 = 1_463_702_400_000;
/// The epoch of Twitter, 2010-11-04T01:42:54.657Z.
const EPOCH_TWITTER_MS: u64 = 1_288_834_974_657;

struct Preset {
    name: &'static str,
    epoch_ms: u64,
    tick_ms: u32,
    /// The widths of time, datacenter, worker and sequence.
    bits: [u8; 4],
    order: FieldOrder,
    first_sequence: FirstSequence,
}

/// A preset with ticks of a millisecond, the usual order of fields, and sequences from 0.
const fn usual(name: &'static str, epoch_ms: u64, bits: [u8; 4]) -> Preset {
    Preset {
        name,
        epoch_ms,
        tick_ms: 1,
        bits,
        order: FieldOrder::TickWorkerSequence,
        first_sequence: FirstSequence::Zero,
    }
}

const PRESETS: [Preset; 6] = [
    usual("default", EPOCH_2026_MS, [41, 0, 10, 12]),
    usual("twitter", EPOCH_TWITTER_MS, [41, 5, 5, 12]),
    Preset {
        first_sequence: FirstSequence::RandomBelow(100),
        ..usual("leaf", EPOCH_TWITTER_MS, [41, 0, 10, 12])
    },
    Preset {
        tick_ms: 10,
        order: FieldOrder::TickSequenceWorker,
        ..usual("sonyflake", EPOCH_2025_MS, [39, 0, 16, 8])
    },
    usual("js53", EPOCH_2026_MS, [41, 0, 5, 7]),
    // Full since 2024-11-20: it decodes, but minting with it is refused.
    Preset {
        tick_ms: 1000,
        ..usual("uid-generator", EPOCH_2016_05_20_MS, [28, 0, 22, 13])
    },
];

impl Layout {
    /// Returns the preset with this name.
    pub fn preset(name: &str) -> Option<Self> {
        PRESETS.iter().find(|preset| preset.name == name).map(build)
    }

    /// Returns all presets: default, twitter, leaf, sonyflake, js53, uid-generator.
    pub fn presets() -> Vec<Self> {
        PRESETS.iter().map(build).collect()
    }
}

#[expect(
    clippy::expect_used,
    reason = "the table is constant; a test builds every row of it"
)]
fn build(preset: &Preset) -> Layout {
    let [time_bits, datacenter_bits, worker_bits, sequence_bits] = preset.bits;
    Layout::new(LayoutSpec {
        name: preset.name.to_owned(),
        epoch_ms: preset.epoch_ms,
        tick_ms: preset.tick_ms,
        time_bits,
        datacenter_bits,
        worker_bits,
        sequence_bits,
        order: preset.order,
        first_sequence: preset.first_sequence,
    })
    .expect("a preset is a valid layout")
}
