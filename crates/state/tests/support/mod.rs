//! Shared parts of this crate's tests: small builders, and a digest computed from all rows.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod commands;
pub(crate) mod lock_rules;
pub(crate) mod lock_steps;
pub(crate) mod lock_story;
pub(crate) mod mark;
pub(crate) mod scripts;
pub(crate) mod story;

use seqd_idgen::{Progression, WallMs};
use seqd_state::{
    ClusterMs, ClusterOutcome, Digest, Outcome, SegmentSizes, SequenceDefinition, SequenceMode,
    SequenceName, Stamp, State, row_hash,
};

/// 2026-01-01T00:00:00Z, the epoch of the layouts `default` and `js53`. For times counted from this
/// epoch, a tick of these layouts equals a time.
pub(crate) const EPOCH_MS: u64 = 1_767_225_600_000;

pub(crate) const WINDOW_MS: u64 = 30_000;
pub(crate) const SKEW_MS: u64 = 500;

/// Returns a stamp whose wall clock is counted from [`EPOCH_MS`].
pub(crate) fn stamp(wall: u64, cluster: u64) -> Stamp {
    Stamp {
        wall_ms: WallMs(EPOCH_MS + wall),
        cluster_ms: ClusterMs(cluster),
    }
}

pub(crate) fn name(text: &str) -> SequenceName {
    SequenceName::new(text).unwrap()
}

pub(crate) fn founded() -> State {
    let mut state = State::new();
    let outcome = commands::apply_one(&mut state, stamp(0, 0), commands::found());
    assert_eq!(outcome, Outcome::Cluster(ClusterOutcome::Founded));
    state
}

pub(crate) fn definition(mode: SequenceMode, progression: Progression) -> SequenceDefinition {
    let segment = SegmentSizes {
        target_ms: 60_000,
        min: 1_000,
        max: 1_000_000,
    };
    SequenceDefinition {
        mode,
        progression,
        segment,
        description: String::new(),
    }
}

pub(crate) fn counting(mode: SequenceMode) -> SequenceDefinition {
    definition(
        mode,
        Progression::with_defaults(None, None, None, None, false).unwrap(),
    )
}

/// Computes the digest by its definition, from all rows.
pub(crate) fn digest_of_rows(state: &State) -> Digest {
    Digest(state.rows().fold(0, |sum, (key, value)| {
        sum.wrapping_add(row_hash(&key, &value))
    }))
}
