//! One of each command, refusal and outcome, for tests that look at all of them.

use seqd_idgen::{Progression, Tick, WallMs, WorkerId};
use seqd_state::{
    AllocateNodeId, Command, DefinitionError, Epoch, FoundingError, GrantToken, Holder, LeaseGrant,
    LeaseId, NextGrant, NodeId, Outcome, Refusal, Revision, SegmentGrant, SequenceMode, TakeLease,
    TextField, ValueRange,
};

use crate::support::{counting, definition, found, name, strict_next};

pub(crate) fn commands() -> Vec<Command> {
    let order = || name("order");
    let layout = || "default".to_owned();
    let worker = WorkerId(17);
    let narrow = Progression::new(5, -3, -9, 8, true).unwrap();
    vec![
        found(),
        Command::AllocateNodeId(AllocateNodeId {
            name: "n4".to_owned(),
            peer: "n4:7401".to_owned(),
            http: "http://n4:7400".to_owned(),
            nonce: 0x0123_4567_89ab_cdef,
        }),
        Command::RegisterStart {
            node: NodeId(4),
            boot: 7,
            nonce: u64::MAX,
        },
        Command::MarkRemoved { node: NodeId(4) },
        Command::TakeLease(TakeLease {
            layout: layout(),
            owner: "n1".to_owned(),
            node: Some(NodeId(1)),
            boot: 7,
            fence: Tick(30_001),
            datacenter: Some(3),
        }),
        Command::ExtendLease {
            layout: layout(),
            worker,
            lease: LeaseId(5),
            fence: Tick(40_001),
        },
        Command::ReleaseLease {
            layout: layout(),
            worker,
            lease: LeaseId(5),
            last_tick: Some(Tick(39_999)),
        },
        Command::ReleaseLease {
            layout: layout(),
            worker,
            lease: LeaseId(5),
            last_tick: None,
        },
        Command::CreateSequence {
            name: order(),
            definition: counting(SequenceMode::Segment),
        },
        Command::CreateSequence {
            name: name("eu:bill-2.x_1"),
            definition: definition(SequenceMode::Strict, narrow),
        },
        Command::DeleteSequence {
            name: order(),
            if_revision: Some(Revision(2)),
        },
        Command::GrantSegment {
            name: order(),
            size: 1_000,
            after: Some(GrantToken(9)),
        },
        Command::ReturnTail {
            name: order(),
            token: GrantToken(10),
            first_unused: 1_234,
        },
        Command::Advance {
            name: order(),
            to: -500,
        },
        strict_next(&[("order", 1), ("bill", 1_000_000)]),
        Command::StampRestoration {
            wall_ms: WallMs(1_767_225_600_000),
        },
    ]
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
    let lease_lost = |holder| Refusal::LeaseLost {
        layout: layout(),
        worker: WorkerId(17),
        lease: LeaseId(5),
        holder,
    };
    vec![
        Refusal::NotFounded,
        Refusal::AlreadyFounded {
            cluster_id: "c1".to_owned(),
        },
        Refusal::InvalidFounding(FoundingError::Window),
        Refusal::TooManyCommands {
            count: 9_999,
            limit: 4_096,
        },
        Refusal::TooManyRequests {
            count: 9_999,
            limit: 4_096,
        },
        Refusal::InvalidText {
            field: TextField::Owner,
            length: 256,
            limit: 255,
        },
        Refusal::UnknownNode { node: NodeId(9) },
        Refusal::NodeRemoved { node: NodeId(9) },
        Refusal::NodeNameTaken {
            name: "n1".to_owned(),
            node: NodeId(1),
        },
        Refusal::StaleStart {
            node: NodeId(1),
            registered: Some(7),
        },
        Refusal::UnknownLayout {
            layout: "none".to_owned(),
        },
        Refusal::UnknownDatacenter {
            layout: layout(),
            datacenter: 9,
            datacenters: 0,
        },
        Refusal::BeforeLayoutEpoch {
            layout: layout(),
            epoch_ms: 2,
            wall_ms: WallMs(1),
        },
        Refusal::LayoutExhausted {
            layout: layout(),
            since: WallMs(3),
        },
        Refusal::WorkersExhausted {
            layout: layout(),
            datacenter: Some(1),
            retry_after_ms: 2_500,
        },
        Refusal::FenceTooFar {
            asked: Tick(11),
            limit: Tick(10),
        },
        Refusal::FenceTooLow {
            asked: Tick(9),
            from_tick: Tick(10),
        },
        lease_lost(Some(Box::new(holder))),
        lease_lost(None),
        Refusal::ReleaseOutsideWindow {
            last_tick: Tick(3),
            from_tick: Tick(1),
            fence: Tick(2),
        },
        Refusal::SequenceNotFound { name: order() },
        Refusal::SequenceExists {
            name: order(),
            revision: Revision(2),
        },
        Refusal::DefinitionDiffers {
            name: order(),
            kept,
        },
        Refusal::InvalidDefinition(DefinitionError::SegmentTarget),
        Refusal::RevisionMismatch {
            name: order(),
            expected: Revision(1),
            actual: Revision(2),
        },
        Refusal::WrongMode {
            name: order(),
            mode: SequenceMode::Strict,
        },
        Refusal::SequenceExhausted {
            name: order(),
            asked: 4,
            remaining: 3,
        },
        Refusal::CountOutOfRange {
            count: 0,
            limit: 1_000_000,
        },
        Refusal::WouldGoBackwards {
            name: order(),
            to: 4,
            next: Some(5),
        },
        Refusal::CannotAdvanceCycling { name: order() },
        Refusal::AdvanceOutOfRange {
            name: order(),
            to: 11,
            min: 1,
            max: 10,
        },
        Refusal::GrantSuperseded {
            name: order(),
            token: GrantToken(9),
        },
        Refusal::TailOutsideRun {
            first_unused: 4,
            run_start: 5,
            next: 10,
        },
        Refusal::RestorationNotStamped {
            backup_wall_ms: WallMs(7),
        },
        Refusal::WindowsBeginLater {
            layout: layout(),
            until: WallMs(9_000),
            retry_after_ms: 1_500,
        },
        Refusal::StampOutOfRange {
            wall_ms: WallMs(6),
            from: WallMs(7),
            to: WallMs(8),
        },
        Refusal::NotRestored,
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
    let exhausted = Refusal::SequenceExhausted {
        name: name("a"),
        asked: 1,
        remaining: 0,
    };
    vec![
        Outcome::Founded,
        Outcome::NodeIdAllocated { node: NodeId(4) },
        Outcome::StartRegistered {
            node: NodeId(4),
            boot: 7,
        },
        Outcome::MarkedRemoved { node: NodeId(4) },
        Outcome::LeaseTaken(LeaseGrant {
            layout: "default".to_owned(),
            worker: WorkerId(17),
            lease: LeaseId(5),
            from_tick: Tick(1),
            fence: Tick(30_001),
        }),
        Outcome::LeaseExtended {
            fence: Tick(40_001),
        },
        Outcome::LeaseReleased {
            fence: Tick(39_999),
        },
        Outcome::SequenceCreated {
            created: true,
            revision: Revision(1),
            epoch: Epoch(1),
        },
        Outcome::SequenceDeleted { epoch: Epoch(2) },
        Outcome::SegmentGranted(SegmentGrant {
            token: GrantToken(9),
            epoch: Epoch(1),
            run_start: 100,
            first_index: 200,
            count: 100,
            first: 201,
            last: 300,
            increment: 1,
        }),
        Outcome::TailReturned {
            next_index: 250,
            returned: 50,
        },
        Outcome::Advanced {
            next: 500,
            next_index: 499,
            epoch: Epoch(3),
        },
        Outcome::StrictNext(vec![Ok(next), Err(exhausted)]),
        Outcome::RestorationStamped {
            wall_ms: WallMs(1_767_225_600_000),
        },
    ]
}
