//! The layouts that every cluster has from its first entry on.
//!
//! Their numbers are those of the systems they are named after, so that IDs from there decode here
//! and go on above. None of them may ever change: IDs made with them exist.

use super::{FieldOrder, FirstSequence, Layout, LayoutSpec};

/// 2026-01-01T00:00:00Z.
const EPOCH_2026_MS: u64 = 1_767_225_600_000;
/// 2025-01-01T00:00:00Z.
const EPOCH_2025_MS: u64 = 1_735_689_600_000;
/// 2016-05-20T00:00:00Z. Baidu's default starts at midnight in China; this one in UTC.
const EPOCH_2016_05_20_MS: u64 = 1_463_702_400_000;
/// Twitter's: 2010-11-04T01:42:54.657Z.
const EPOCH_TWITTER_MS: u64 = 1_288_834_974_657;

struct Preset {
    name: &'static str,
    epoch_ms: u64,
    tick_ms: u32,
    /// Of time, datacenter, worker, sequence.
    bits: [u8; 4],
    order: FieldOrder,
    first_sequence: FirstSequence,
}

/// Ticks of a millisecond, fields in the usual order, sequences from 0.
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
    // Full since 2024-11-20: it decodes, and minting with it is refused.
    Preset {
        tick_ms: 1000,
        ..usual("uid-generator", EPOCH_2016_05_20_MS, [28, 0, 22, 13])
    },
];

impl Layout {
    /// The preset of that name, if there is one.
    pub fn preset(name: &str) -> Option<Self> {
        PRESETS.iter().find(|preset| preset.name == name).map(build)
    }

    /// All presets: default, twitter, leaf, sonyflake, js53, uid-generator.
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
