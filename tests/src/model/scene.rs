//! The bounds of a check: its participants, its length, and the number of each kind of event.

use super::sights::Sight;
use seqd_idgen::{ClockPolicy, FieldOrder, FirstSequence, Layout, LayoutSpec, OnRollback};

/// The number of events of each kind that may still happen. Most numbers are small, because every
/// event multiplies the states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Left {
    /// Requests for a lease.
    pub takes: u8,
    pub extends: u8,
    pub releases: u8,
    /// IDs, one at a time.
    pub mints: u8,
    /// Proposals that do not reach the log at once, or at all, or whose answers do not come back.
    pub late: u8,
    /// Proposals in flight that reach the log twice.
    pub repeats: u8,
    /// Threads that stop between reading the clock and minting.
    pub pauses: u8,
    /// Steps of a clock.
    pub steps: u8,
    pub restarts: u8,
    /// Second processes on a copy of node 1's disk.
    pub twins: u8,
    /// 1 for a backup and its restore.
    pub backups: u8,
    /// Requests for a segment of the sequence.
    pub grants: u8,
    /// Values that are used.
    pub values: u8,
    /// Tails that are returned.
    pub returns: u8,
}

/// A bounded world.
#[derive(Clone, Debug)]
pub struct Scene {
    pub name: &'static str,
    /// The number of nodes. Their starts are registered when the check begins.
    pub nodes: usize,
    /// `true` if an external generator takes part.
    pub external: bool,
    /// `true` if the holders have two workers to choose from. Otherwise they contend for one.
    pub two_workers: bool,
    /// The time at which the check ends, in milliseconds, which are ticks.
    pub last_ms: u64,
    /// The time by which the backup is restored, in milliseconds. A later restore gives the same
    /// states at later times.
    pub restored_by_ms: u64,
    /// The steps of clocks, in milliseconds.
    pub clock_steps: &'static [i64],
    /// The offsets of the clocks of leaders that take no other part, in milliseconds.
    pub leaders_off_ms: &'static [i64],
    /// The largest offset to which a clock may be set, in milliseconds.
    pub most_off_ms: i64,
    /// The possible offsets of the external generator's clock when the check begins, in
    /// milliseconds ahead.
    pub external_off_ms: &'static [i64],
    /// The agreed skew between peers, in milliseconds.
    pub skew_ms: u64,
    pub on_rollback: OnRollback,
    pub left: Left,
    /// The sights that must occur.
    pub sights: &'static [Sight],
}

/// The shortest window of a layout: three ticks.
pub(super) const WINDOW_MS: u64 = 3;

/// The number of values in a segment.
pub(super) const SEGMENT: u64 = 2;

/// The number of values that a restore skips: more than a check can grant.
pub(super) const MARGIN: u64 = 8;

pub(super) const LAYOUT: &str = "few-ticks";

pub(super) const SEQUENCE: &str = "order";

impl Scene {
    /// Ticks of one millisecond from epoch 0, so that a tick is a time; two workers, each in its
    /// own datacenter, and two IDs per tick.
    pub(super) fn layout(&self) -> Layout {
        let spec = LayoutSpec {
            name: LAYOUT.to_owned(),
            epoch_ms: 0,
            tick_ms: 1,
            time_bits: 4,
            datacenter_bits: 1,
            worker_bits: 0,
            sequence_bits: 1,
            order: FieldOrder::TickWorkerSequence,
            first_sequence: FirstSequence::Zero,
        };
        Layout::new(spec).expect("fields that fit")
    }

    /// The datacenter that holders request.
    pub(super) fn datacenter(&self) -> Option<u32> {
        (!self.two_workers).then_some(0)
    }

    pub(super) fn policy(&self) -> ClockPolicy {
        ClockPolicy {
            on_rollback: self.on_rollback,
            ..ClockPolicy::default()
        }
    }

    /// The scenes with one more event, for each kind of event that this scene has.
    #[must_use]
    pub fn larger(&self) -> Vec<(&'static str, Self)> {
        let of = |(kind, count): Kind| {
            let mut scene = self.clone();
            let count = count(&mut scene.left);
            let has = *count > 0;
            *count += u8::from(has);
            has.then_some((kind, scene))
        };
        KINDS.into_iter().filter_map(of).collect()
    }
}

/// A kind of event, and its remaining number.
type Kind = (&'static str, fn(&mut Left) -> &mut u8);

/// The kinds of which a larger scene can have one more. There is at most one backup.
const KINDS: [Kind; 13] = [
    ("takes", |left| &mut left.takes),
    ("extends", |left| &mut left.extends),
    ("releases", |left| &mut left.releases),
    ("mints", |left| &mut left.mints),
    ("late", |left| &mut left.late),
    ("repeats", |left| &mut left.repeats),
    ("pauses", |left| &mut left.pauses),
    ("steps", |left| &mut left.steps),
    ("restarts", |left| &mut left.restarts),
    ("twins", |left| &mut left.twins),
    ("grants", |left| &mut left.grants),
    ("values", |left| &mut left.values),
    ("returns", |left| &mut left.returns),
];

const BASE: Scene = Scene {
    name: "",
    nodes: 1,
    external: true,
    two_workers: false,
    last_ms: 6,
    restored_by_ms: 0,
    clock_steps: &[],
    leaders_off_ms: &[0],
    most_off_ms: 0,
    external_off_ms: &[0],
    skew_ms: 0,
    on_rollback: OnRollback::Refuse,
    left: Left {
        takes: 0,
        extends: 0,
        releases: 0,
        mints: 0,
        late: 0,
        repeats: 0,
        pauses: 0,
        steps: 0,
        restarts: 0,
        twins: 0,
        backups: 0,
        grants: 0,
        values: 0,
        returns: 0,
    },
    sights: &[],
};

/// All scenes, as `cargo test` runs them.
#[must_use]
pub fn scenes() -> Vec<Scene> {
    vec![
        messages(),
        releases(),
        clocks(),
        starts(),
        restore(),
        segments(),
    ]
}

/// Proposals and answers that are lost, late and repeated.
#[must_use]
pub(super) fn messages() -> Scene {
    Scene {
        name: "messages",
        last_ms: 4,
        left: Left {
            takes: 2,
            extends: 1,
            mints: 2,
            late: 1,
            repeats: 1,
            ..BASE.left
        },
        sights: &[
            Sight::MintedByTwoHolders,
            Sight::ExtendAfterAnotherGrant,
            Sight::HolderBesideAnother,
            Sight::LeaseLost,
        ],
        ..BASE
    }
}

/// Workers that are released by a holder with a thread in the middle of a batch.
#[must_use]
pub(super) fn releases() -> Scene {
    Scene {
        name: "releases",
        last_ms: 3,
        left: Left {
            takes: 2,
            releases: 1,
            mints: 3,
            late: 1,
            repeats: 1,
            pauses: 1,
            ..BASE.left
        },
        sights: &[Sight::MintedByTwoHolders, Sight::WokenAfterClose],
        ..BASE
    }
}

/// Clocks that step forward and back, including that of the leader, which stamps the entries.
#[must_use]
pub(super) fn clocks() -> Scene {
    Scene {
        name: "clocks",
        last_ms: 4,
        clock_steps: &[-3, 3],
        most_off_ms: 3,
        on_rollback: OnRollback::Continue,
        left: Left {
            takes: 2,
            extends: 1,
            mints: 3,
            steps: 2,
            ..BASE.left
        },
        sights: &[
            Sight::MintedByTwoHolders,
            Sight::ClockBehindLastTick,
            Sight::HolderBesideAnother,
        ],
        ..BASE
    }
}

/// Restarts, and a second process on a copy of the disk.
#[must_use]
pub(super) fn starts() -> Scene {
    Scene {
        name: "starts",
        external: false,
        two_workers: true,
        last_ms: 2,
        left: Left {
            takes: 2,
            extends: 1,
            mints: 2,
            late: 1,
            restarts: 1,
            twins: 1,
            ..BASE.left
        },
        sights: &[Sight::StartBesideAnother],
        ..BASE
    }
}

/// A backup that is restored after every process of the old cluster has ended, with an external
/// generator that continues. Leaders' clocks are right within the agreed skew, as a restore
/// requires. The external generator's clock is as far ahead as leaders accept, or further.
#[must_use]
pub(super) fn restore() -> Scene {
    Scene {
        name: "restore",
        two_workers: true,
        last_ms: 8,
        restored_by_ms: 1,
        leaders_off_ms: &[-1, 1],
        external_off_ms: &[3, 6],
        skew_ms: 1,
        left: Left {
            takes: 2,
            extends: 1,
            mints: 1,
            backups: 1,
            ..BASE.left
        },
        sights: &[Sight::MintedAfterRestore, Sight::HolderOfBeforeRestore],
        ..BASE
    }
}

/// Segments of a sequence and their tails, with late and repeated messages and a restore.
#[must_use]
pub(super) fn segments() -> Scene {
    Scene {
        name: "segments",
        nodes: 2,
        external: true,
        last_ms: 0,
        skew_ms: 1,
        left: Left {
            grants: 3,
            values: 2,
            returns: 1,
            late: 1,
            repeats: 1,
            backups: 1,
            ..BASE.left
        },
        sights: &[Sight::MarkFell, Sight::ReturnAfterAnotherGrant],
        ..BASE
    }
}
