//! One of each command, refusal and outcome, for tests that cover all of them.

mod keys;
mod locks;

use seqd_idgen::{Progression, Tick, WallMs, WorkerId};
use seqd_state::{
    AccessCommand, AccessId, AccessOutcome, AccessRefusal, Bound, BoundError, ClusterCommand,
    ClusterOutcome, ClusterRefusal, Command, DefinitionChange, DefinitionError, Epoch,
    FoundingError, GrantToken, Holder, LayoutOutcome, LayoutRefusal, LeaseGrant, LeaseId, Level,
    LogPosition, NextGrant, NodeId, Outcome, Refusal, Revision, SecretKey, SegmentGrant,
    SequenceCommand, SequenceMode, SequenceOutcome, SequenceRefusal, TakeLease, TextField,
    TextRefusal, ValueRange, WorkerCommand, WorkerOutcome, WorkerRefusal,
};

use crate::support::commands::*;
use crate::support::{counting, definition, name};

pub(crate) fn commands() -> Vec<Command> {
    let order = || name("order");
    let layout = || "default".to_owned();
    let worker = WorkerId(17);
    let narrow = Progression::new(5, -3, -9, 8, true).unwrap();
    let mut all = vec![
        found(),
        join("n4", 0x0123_4567_89ab_cdef),
        start(NodeId(4), 7, u64::MAX),
        remove(NodeId(4)),
        Command::Workers(WorkerCommand::TakeLease(TakeLease {
            tenant: seqd_state::Tenant::OPERATOR,
            layout: layout(),
            owner: "n1".to_owned(),
            node: Some(NodeId(1)),
            boot: 7,
            fence: Tick(30_001),
            datacenter: Some(3),
        })),
        extend(layout(), worker, LeaseId(5), Tick(40_001)),
        release(layout(), worker, LeaseId(5), Some(Tick(39_999))),
        release(layout(), worker, LeaseId(5), None),
        create(order(), counting(SequenceMode::Segment)),
        create(
            name("eu:bill-2.x_1"),
            definition(SequenceMode::Strict, narrow),
        ),
        delete(order(), Some(Revision(2))),
        grant(order(), 1_000, Some(GrantToken(9))),
        return_tail(order(), GrantToken(10), 1_234),
        advance(order(), -500),
        strict_next("order", 1),
        stamp_restoration(WallMs(1_767_225_600_000)),
        Command::Cluster(ClusterCommand::RaiseLevel {
            to: Level::FIRST,
            membership: LogPosition { term: 3, index: 17 },
        }),
        Command::Cluster(ClusterCommand::KeepSecret {
            key: SecretKey([7; 32]),
        }),
        Command::Cluster(ClusterCommand::ResetWorkers { node: NodeId(2) }),
        Command::Cluster(ClusterCommand::RaiseTimestamps {
            upto: WallMs(1_767_225_601_000),
        }),
        Command::Cluster(ClusterCommand::ReturnTimestamps {
            granted: WallMs(1_767_225_601_000),
            used: WallMs(1_767_225_600_250),
        }),
        Command::Sequences(SequenceCommand::GrantWindow {
            name: name("tickets"),
            size: 4096,
            after: Some(GrantToken(9)),
        }),
        Command::Sequences(SequenceCommand::ReturnWindow {
            name: name("tickets"),
            token: GrantToken(10),
            first_unused: 1_234,
        }),
        update(
            order(),
            DefinitionChange {
                max: Some(1_000_000),
                segment_min: Some(500),
                description: Some("orders of 2026".to_owned()),
                ..DefinitionChange::default()
            },
            Some(Revision(2)),
        ),
        create_token(AccessId(0x0123_4567_89ab_cdef)),
        Command::Access(AccessCommand::Revoke { id: AccessId(7) }),
        create_layout("short", 39),
    ];
    all.extend(keys::commands());
    all.extend(locks::commands());
    all
}

#[expect(clippy::too_many_lines, reason = "one example of each, in a row")]
pub(crate) fn refusals() -> Vec<Refusal> {
    let order = || name("order");
    let layout = || "default".to_owned();
    let holder = Holder {
        lease: LeaseId(8),
        owner: "n2".to_owned(),
        node: Some(NodeId(2)),
        from_tick: Tick(1),
        fence: Tick(2),
    };
    let kept = Box::new(counting(SequenceMode::Strict));
    let lease_lost = |holder| {
        Refusal::Workers(WorkerRefusal::LeaseLost {
            layout: layout(),
            worker: WorkerId(17),
            lease: LeaseId(5),
            holder,
        })
    };
    let mut all = vec![
        Refusal::Cluster(ClusterRefusal::NotFounded),
        Refusal::Cluster(ClusterRefusal::AlreadyFounded {
            cluster_id: "c1".to_owned(),
        }),
        Refusal::Cluster(ClusterRefusal::InvalidFounding(FoundingError::Window)),
        Refusal::Text(TextRefusal::InvalidText {
            field: TextField::Owner,
            length: 256,
            limit: 255,
        }),
        Refusal::Access(AccessRefusal::NotFound { id: AccessId(7) }),
        Refusal::Access(AccessRefusal::Exists { id: AccessId(7) }),
        Refusal::Access(AccessRefusal::TooMany),
        Refusal::Access(AccessRefusal::InvalidPermissions),
        Refusal::Access(AccessRefusal::InvalidRate),
        Refusal::Cluster(ClusterRefusal::UnknownNode { node: NodeId(9) }),
        Refusal::Cluster(ClusterRefusal::NodeRemoved { node: NodeId(9) }),
        Refusal::Cluster(ClusterRefusal::NodeNameTaken {
            name: "n1".to_owned(),
            node: NodeId(1),
        }),
        Refusal::Cluster(ClusterRefusal::StaleStart {
            node: NodeId(1),
            registered: Some(7),
        }),
        Refusal::Workers(WorkerRefusal::UnknownLayout {
            layout: "none".to_owned(),
        }),
        Refusal::Workers(WorkerRefusal::UnknownDatacenter {
            layout: layout(),
            datacenter: 9,
            datacenters: 0,
        }),
        Refusal::Workers(WorkerRefusal::BeforeLayoutEpoch {
            layout: layout(),
            epoch_ms: 2,
            wall_ms: WallMs(1),
        }),
        Refusal::Workers(WorkerRefusal::LayoutExhausted {
            layout: layout(),
            since: WallMs(3),
        }),
        Refusal::Workers(WorkerRefusal::WorkersExhausted {
            layout: layout(),
            datacenter: Some(1),
            retry_after_ms: 2_500,
            reserved: 0,
        }),
        Refusal::Workers(WorkerRefusal::FenceTooFar {
            asked: Tick(11),
            limit: Tick(10),
        }),
        Refusal::Workers(WorkerRefusal::FenceTooLow {
            asked: Tick(9),
            from_tick: Tick(10),
        }),
        lease_lost(Some(Box::new(holder))),
        lease_lost(None),
        Refusal::Workers(WorkerRefusal::ReleaseOutsideWindow {
            last_tick: Tick(3),
            from_tick: Tick(1),
            fence: Tick(2),
        }),
        Refusal::Sequences(SequenceRefusal::SequenceNotFound { name: order() }),
        Refusal::Sequences(SequenceRefusal::SequenceExists {
            name: order(),
            revision: Revision(2),
        }),
        Refusal::Sequences(SequenceRefusal::DefinitionDiffers {
            name: order(),
            kept,
        }),
        Refusal::Sequences(SequenceRefusal::InvalidDefinition(
            DefinitionError::SegmentTarget,
        )),
        Refusal::Sequences(SequenceRefusal::RevisionMismatch {
            name: order(),
            expected: Revision(1),
            actual: Revision(2),
        }),
        Refusal::Sequences(SequenceRefusal::WrongMode {
            name: order(),
            mode: SequenceMode::Strict,
        }),
        Refusal::Sequences(SequenceRefusal::SequenceExhausted {
            name: order(),
            asked: 4,
            remaining: 3,
        }),
        Refusal::Sequences(SequenceRefusal::CountOutOfRange {
            count: 0,
            limit: 1_000_000,
        }),
        Refusal::Sequences(SequenceRefusal::WouldGoBackwards {
            name: order(),
            to: 4,
            next: Some(5),
        }),
        Refusal::Sequences(SequenceRefusal::CannotAdvanceCycling { name: order() }),
        Refusal::Sequences(SequenceRefusal::AdvanceOutOfRange {
            name: order(),
            to: 11,
            min: 1,
            max: 10,
        }),
        Refusal::Sequences(SequenceRefusal::GrantSuperseded {
            name: order(),
            token: GrantToken(9),
        }),
        Refusal::Sequences(SequenceRefusal::TailOutsideRun {
            first_unused: 4,
            run_start: 5,
            next: 10,
        }),
        Refusal::Sequences(SequenceRefusal::BoundStays {
            name: order(),
            bound: Bound::Max,
            why: BoundError::Narrower { now: 1_000 },
        }),
        Refusal::Cluster(ClusterRefusal::RestorationNotStamped {
            backup_wall_ms: WallMs(7),
        }),
        Refusal::Workers(WorkerRefusal::WindowsBeginLater {
            layout: layout(),
            until: WallMs(9_000),
            retry_after_ms: 1_500,
        }),
        Refusal::Cluster(ClusterRefusal::StampOutOfRange {
            wall_ms: WallMs(6),
            from: WallMs(7),
            to: WallMs(8),
        }),
        Refusal::Cluster(ClusterRefusal::NotRestored),
        Refusal::Cluster(ClusterRefusal::MembershipChanged {
            asked: LogPosition { term: 3, index: 17 },
            membership: Some(LogPosition { term: 4, index: 18 }),
        }),
        Refusal::Cluster(ClusterRefusal::LevelOutOfOrder {
            to: Level(7),
            level: Level::FIRST,
        }),
        Refusal::Layouts(LayoutRefusal::Exists {
            name: "short".to_owned(),
        }),
        Refusal::Layouts(LayoutRefusal::EpochAhead {
            epoch_ms: 2,
            wall_ms: WallMs(1),
        }),
        Refusal::Layouts(LayoutRefusal::TooMany),
        Refusal::Layouts(LayoutRefusal::Full {
            full: WallMs(7),
            wall_ms: WallMs(9),
        }),
    ];
    all.extend(keys::refusals());
    all.extend(locks::refusals());
    all
}

fn later_cluster_outcomes() -> Vec<Outcome> {
    vec![
        Outcome::Cluster(ClusterOutcome::RestorationStamped {
            wall_ms: WallMs(1_767_225_600_000),
        }),
        Outcome::Cluster(ClusterOutcome::LevelRaised {
            level: Level::FIRST,
        }),
        Outcome::Cluster(ClusterOutcome::SecretKept),
        Outcome::Cluster(ClusterOutcome::WorkersReset {
            node: NodeId(2),
            number: 17,
        }),
        Outcome::Cluster(ClusterOutcome::TimestampsBounded {
            before: WallMs(1_767_225_600_250),
            upto: WallMs(1_767_225_601_000),
        }),
    ]
}

pub(crate) fn outcomes() -> Vec<Outcome> {
    let range = ValueRange {
        first: 5,
        last: -7,
        count: 5,
    };
    let next = NextGrant {
        first_index: 3,
        count: 5,
        increment: -3,
        ranges: vec![range],
    };
    let mut all = vec![
        Outcome::Cluster(ClusterOutcome::Founded),
        Outcome::Cluster(ClusterOutcome::NodeIdAllocated { node: NodeId(4) }),
        Outcome::Cluster(ClusterOutcome::StartRegistered {
            node: NodeId(4),
            boot: 7,
        }),
        Outcome::Cluster(ClusterOutcome::MarkedRemoved { node: NodeId(4) }),
        Outcome::Workers(WorkerOutcome::LeaseTaken(LeaseGrant {
            layout: "default".to_owned(),
            worker: WorkerId(17),
            lease: LeaseId(5),
            from_tick: Tick(1),
            fence: Tick(30_001),
        })),
        Outcome::Workers(WorkerOutcome::LeaseExtended {
            fence: Tick(40_001),
        }),
        Outcome::Workers(WorkerOutcome::LeaseReleased {
            fence: Tick(39_999),
        }),
        Outcome::Sequences(SequenceOutcome::Created {
            created: true,
            revision: Revision(1),
            epoch: Epoch(1),
        }),
        Outcome::Sequences(SequenceOutcome::Deleted { epoch: Epoch(2) }),
        Outcome::Sequences(SequenceOutcome::SegmentGranted(SegmentGrant {
            token: GrantToken(9),
            epoch: Epoch(1),
            run_start: 100,
            first_index: 200,
            count: 100,
            first: 201,
            last: 300,
            increment: 1,
        })),
        Outcome::Sequences(SequenceOutcome::TailReturned {
            next_index: 250,
            returned: 50,
        }),
        Outcome::Sequences(SequenceOutcome::Advanced {
            next: 500,
            next_index: 499,
            epoch: Epoch(3),
        }),
        Outcome::Sequences(SequenceOutcome::Next(next)),
        Outcome::Sequences(SequenceOutcome::Updated {
            changed: true,
            revision: Revision(3),
        }),
    ];
    all.extend(later_cluster_outcomes());
    all.extend([
        Outcome::Access(AccessOutcome::Created { id: AccessId(7) }),
        Outcome::Access(AccessOutcome::Revoked { id: AccessId(7) }),
        Outcome::Layouts(LayoutOutcome::Created { created: true }),
    ]);
    all.extend(keys::outcomes());
    all.extend(locks::outcomes());
    all
}
