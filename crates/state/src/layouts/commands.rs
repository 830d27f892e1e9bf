//! The command that creates a layout, its outcome and its refusals.

use seqd_guards::is_out;
use seqd_idgen::{Layout, WallMs};
use serde::{Deserialize, Serialize};

use super::LayoutRecord;
use crate::codec::frame::{FrameRow, FrameTable, row};
use crate::table::Table;

/// The maximum number of layouts. Each node keeps a lease for each layout in which it mints, and
/// requests a later fence six times a minute.
pub const MAX_LAYOUTS: usize = 256;

/// The minimum time for which a new layout's time field must last. If it ends within a day,
/// `time_bits`, `tick_ms` or the epoch is a mistake, and no ID of the layout would be of use.
const MIN_LIFE_MS: u64 = 24 * 3_600_000;

/// A change of the layouts. Creation is the only one: a layout never changes and is never removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum LayoutCommand {
    Create {
        #[serde(with = "crate::foreign::layout")]
        layout: Layout,
    },
}

/// The result of a [`LayoutCommand`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LayoutOutcome {
    Created {
        /// `false` if an equal layout existed.
        created: bool,
    },
}

/// The reason why a [`LayoutCommand`] changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum LayoutRefusal {
    #[error("the layout {name} exists with another definition, and a layout never changes")]
    Exists { name: String },
    #[error(
        "the epoch ({epoch_ms} ms) is after the cluster's clock ({} ms): no IDs could be minted",
        .wall_ms.0
    )]
    EpochAhead {
        /// The layout's epoch, in Unix milliseconds.
        epoch_ms: u64,
        #[serde(with = "crate::foreign::WallMsDef")]
        wall_ms: WallMs,
    },
    #[error("there are {MAX_LAYOUTS} layouts, which is the maximum of a cluster")]
    TooMany,
    #[error(
        "the time field is full at {} ms, and a new layout must last a day past the cluster's clock \
         ({} ms): give it more time_bits, longer ticks or a later epoch",
        .full.0,
        .wall_ms.0
    )]
    Full {
        /// The time at which the time field is full.
        #[serde(with = "crate::foreign::WallMsDef")]
        full: WallMs,
        #[serde(with = "crate::foreign::WallMsDef")]
        wall_ms: WallMs,
    },
}

impl FrameTable for LayoutCommand {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0601), // Create
    ];
}

impl FrameTable for LayoutOutcome {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0641), // Created
    ];
}

impl FrameTable for LayoutRefusal {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0681), // Exists
        row(0x0682), // EpochAhead
        row(0x0683), // TooMany
        row(0x0684), // Full
    ];
}

impl Table<LayoutRecord> {
    pub(crate) fn apply(
        &mut self,
        wall_ms: WallMs,
        command: &LayoutCommand,
    ) -> Result<LayoutOutcome, LayoutRefusal> {
        let LayoutCommand::Create { layout } = command;
        let spec = layout.spec();
        let existing = self.named(&spec.name);
        if let Some(existing) = existing.filter(|_| !is_out!(LayoutKept)) {
            if existing == layout {
                return Ok(LayoutOutcome::Created { created: false });
            }
            let name = spec.name.clone();
            return Err(LayoutRefusal::Exists { name });
        }
        if spec.epoch_ms > wall_ms.0 {
            return Err(LayoutRefusal::EpochAhead {
                epoch_ms: spec.epoch_ms,
                wall_ms,
            });
        }
        let full = layout.exhausted_at();
        if full.0 < wall_ms.0.saturating_add(MIN_LIFE_MS) {
            return Err(LayoutRefusal::Full { full, wall_ms });
        }
        if self.len() >= MAX_LAYOUTS {
            return Err(LayoutRefusal::TooMany);
        }
        let record = LayoutRecord {
            layout: layout.clone(),
        };
        self.put(spec.name.clone(), record);
        Ok(LayoutOutcome::Created { created: true })
    }
}

#[cfg(test)]
mod tests {
    use seqd_idgen::{FieldOrder, FirstSequence, LayoutSpec};

    use super::*;

    fn create(number: usize, epoch_ms: u64, time_bits: u8) -> LayoutCommand {
        let layout = Layout::new(LayoutSpec {
            name: format!("l{number:03}"),
            epoch_ms,
            tick_ms: 1,
            time_bits,
            datacenter_bits: 0,
            worker_bits: 8,
            sequence_bits: 8,
            order: FieldOrder::TickWorkerSequence,
            first_sequence: FirstSequence::Spread,
        });
        LayoutCommand::Create {
            layout: layout.unwrap(),
        }
    }

    #[test]
    fn a_layout_never_changes() {
        let mut layouts = Table::<LayoutRecord>::default();
        let created = |created| Ok(LayoutOutcome::Created { created });
        assert_eq!(layouts.apply(WallMs(9), &create(1, 5, 40)), created(true));
        let changed = layouts.apply(WallMs(9), &create(1, 5, 41));
        let kept = layouts.named("l001").unwrap();
        assert_eq!(kept.spec().time_bits, 40, "a layout was changed");
        assert_eq!(layouts.apply(WallMs(9), &create(1, 5, 40)), created(false));
        let name = "l001".to_owned();
        assert_eq!(changed, Err(LayoutRefusal::Exists { name }));
    }

    #[test]
    fn a_layout_whose_time_field_ends_within_a_day_is_refused() {
        let mut layouts = Table::<LayoutRecord>::default();
        // 2^27 ms last 37 hours from the epoch.
        let end = WallMs(5 + (1 << 27));
        let wall_ms = WallMs(end.0 - MIN_LIFE_MS);
        let later = WallMs(wall_ms.0 + 1);
        let refused = layouts.apply(later, &create(1, 5, 27));
        let full = |full, wall_ms| Err(LayoutRefusal::Full { full, wall_ms });
        assert_eq!(refused, full(end, later), "a layout that is nearly full");
        // Full for a long time: one bit of milliseconds.
        let one_bit = layouts.apply(later, &create(1, 5, 1));
        assert_eq!(one_bit, full(WallMs(7), later), "a layout that is full");
        let created = layouts.apply(wall_ms, &create(1, 5, 27)).unwrap();
        assert_eq!(created, LayoutOutcome::Created { created: true });
        // A repeated request returns the existing layout.
        let again = layouts.apply(later, &create(1, 5, 27)).unwrap();
        assert_eq!(again, LayoutOutcome::Created { created: false });
    }

    #[test]
    fn a_layout_begins_before_the_clock_and_there_are_so_many_at_most() {
        let mut layouts = Table::<LayoutRecord>::default();
        let (epoch_ms, wall_ms) = (10, WallMs(9));
        let ahead = layouts.apply(wall_ms, &create(0, epoch_ms, 40));
        assert_eq!(ahead, Err(LayoutRefusal::EpochAhead { epoch_ms, wall_ms }));
        for number in 0..MAX_LAYOUTS {
            layouts.apply(wall_ms, &create(number, 5, 40)).unwrap();
        }
        let one_more = layouts.apply(wall_ms, &create(MAX_LAYOUTS, 5, 40));
        assert_eq!(one_more, Err(LayoutRefusal::TooMany));
        let equal = layouts.apply(wall_ms, &create(3, 5, 40)).unwrap();
        assert_eq!(equal, LayoutOutcome::Created { created: false });
    }
}
