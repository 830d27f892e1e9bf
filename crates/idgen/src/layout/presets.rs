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

/// A name, then epoch, tick, and the bits of time, datacenter, worker, sequence.
struct Preset(&'static str, u64, u32, [u8; 4], FieldOrder, FirstSequence);

const PRESETS: [Preset; 6] = {
    use FieldOrder::{TickSequenceWorker, TickWorkerSequence};
    use FirstSequence::{RandomBelow, Zero};
    [
        Preset(
            "default",
            EPOCH_2026_MS,
            1,
            [41, 0, 10, 12],
            TickWorkerSequence,
            Zero,
        ),
        Preset(
            "twitter",
            EPOCH_TWITTER_MS,
            1,
            [41, 5, 5, 12],
            TickWorkerSequence,
            Zero,
        ),
        Preset(
            "leaf",
            EPOCH_TWITTER_MS,
            1,
            [41, 0, 10, 12],
            TickWorkerSequence,
            RandomBelow(100),
        ),
        Preset(
            "sonyflake",
            EPOCH_2025_MS,
            10,
            [39, 0, 16, 8],
            TickSequenceWorker,
            Zero,
        ),
        Preset(
            "js53",
            EPOCH_2026_MS,
            1,
            [41, 0, 5, 7],
            TickWorkerSequence,
            Zero,
        ),
        // Full since 2024-11-20: it decodes, and minting with it is refused.
        Preset(
            "uid-generator",
            EPOCH_2016_05_20_MS,
            1000,
            [28, 0, 22, 13],
            TickWorkerSequence,
            Zero,
        ),
    ]
};

impl Layout {
    /// The preset of that name, if there is one.
    pub fn preset(name: &str) -> Option<Self> {
        PRESETS.iter().find(|preset| preset.0 == name).map(build)
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
    let Preset(name, epoch_ms, tick_ms, bits, order, first_sequence) = preset;
    let [time_bits, datacenter_bits, worker_bits, sequence_bits] = *bits;
    Layout::new(LayoutSpec {
        name: (*name).to_owned(),
        epoch_ms: *epoch_ms,
        tick_ms: *tick_ms,
        time_bits,
        datacenter_bits,
        worker_bits,
        sequence_bits,
        order: *order,
        first_sequence: *first_sequence,
    })
    .expect("a preset is a valid layout")
}
