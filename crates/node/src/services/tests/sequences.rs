//! Definitions that change or are created again: limits, shares and conditions.

use seqd_api::{ErrorCode, NextRequest};
use seqd_state::{AccessId, DefinitionChange, SequenceCommand, Share};

use super::super::error::{RequestError, SequenceError, ServiceError};
use super::super::last_value;
use super::super::room::NoRoom;
use super::*;

fn ascending(max: i64) -> SequenceSpec {
    SequenceSpec {
        max: Some(max),
        ..strict()
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_was_raised_through_another_node_refuses_no_values() {
    let story = Story::begin();
    story.create(sizes(None, Some(50))).await.unwrap();
    let change = DefinitionChange {
        segment_max: Some(200),
        ..DefinitionChange::default()
    };
    let update = SequenceCommand::Update {
        name: name(),
        change,
        if_revision: None,
    };
    story.replica.commit_unapplied(update.into());
    let contiguous = |count| NextRequest {
        contiguous: Some(true),
        ..of(count)
    };
    let served = story.next(contiguous(120), false).await.unwrap();
    assert_eq!((served.ranges.len(), served.count), (1, 120));
    let error = story.next(contiguous(201), false).await.unwrap_err();
    let ServiceError::Request(RequestError::TooMany { limit, .. }) = error else {
        panic!("{error}");
    };
    assert_eq!(limit, 200);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_confirmed_by_the_leader_unless_it_may_be_stale() {
    let story = Story::begin();
    story.create(strict()).await.unwrap();
    let list = async |stale: bool| {
        let query = SequencesQuery {
            stale: stale.then_some(true),
            ..SequencesQuery::default()
        };
        let all = [String::new()];
        let page = story.sequences.list(&query, &all, soon()).await;
        page.map(|page| page.items[0].next)
    };
    story.next(of(1), false).await.unwrap();
    let advance = SequenceCommand::Advance {
        name: name(),
        to: 47,
    };
    story.replica.commit_unapplied(advance.into());
    assert_eq!(list(true).await.unwrap(), Some(2));
    assert_eq!(list(false).await.unwrap(), Some(47));
    story.replica.can_read.store(false, Ordering::SeqCst);
    assert_eq!(list(true).await.unwrap(), Some(47));
    let error = list(false).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NoQuorum);
}

#[tokio::test(start_paused = true)]
async fn a_put_with_if_match_finds_an_equal_sequence_at_its_revision_and_creates_none() {
    let story = Story::begin();
    let confirm = async |spec: SequenceSpec, revision: Option<u64>| {
        let name = name();
        let confirmed = story.sequences.confirm(&name, spec, revision, soon());
        confirmed.await.map_err(|error| error.code())
    };
    for revision in [None, Some(1)] {
        let missing = confirm(ascending(9), revision).await;
        assert_eq!(missing, Err(ErrorCode::PreconditionFailed));
    }
    assert_eq!(story.sequences.count(), 0);
    let made = story.create(ascending(9)).await.unwrap().sequence;
    for revision in [None, Some(1)] {
        assert_eq!(confirm(ascending(9), revision).await, Ok(made.clone()));
        let other = confirm(ascending(8), revision).await;
        assert_eq!(other, Err(ErrorCode::AlreadyExists));
    }
    for spec in [ascending(9), ascending(8)] {
        let other = confirm(spec, Some(2)).await;
        assert_eq!(other, Err(ErrorCode::PreconditionFailed));
    }
    let invalid = SequenceSpec {
        description: Some("x".repeat(10_000)),
        ..ascending(9)
    };
    let invalid = confirm(invalid, Some(1)).await;
    assert_eq!(invalid, Err(ErrorCode::InvalidArgument));
    let deleted = story.sequences.delete(&name(), None, soon()).await;
    deleted.unwrap();
    let missing = confirm(ascending(9), Some(1)).await;
    assert_eq!(missing, Err(ErrorCode::PreconditionFailed));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_sequence_that_another_tenant_creates_again_counts_towards_its_share() {
    let story = Story::with_limits(LimitsSection {
        sequences: 4,
        tenant_share: Share::of_percent(75).unwrap(),
        ..LIMITS
    });
    let sequences = &story.sequences;
    let [one, other] = [1, 2].map(|id| Tenant::of_token(AccessId(id)));
    let create = async |name: &str, tenant| {
        let name = SequenceName::new(name).unwrap();
        let created = sequences.create(&name, strict(), (tenant, soon())).await;
        created.map(|created| created.is_new)
    };
    let delete = async |name: &str| {
        let name = SequenceName::new(name).unwrap();
        sequences.delete(&name, None, soon()).await.unwrap();
    };
    for name in ["a1", "a2", "a3"] {
        assert!(create(name, one).await.unwrap());
    }
    assert!(create("b", other).await.unwrap());
    delete("b").await;
    let refused = create("b", one).await;
    assert!(
        matches!(
            refused,
            Err(ServiceError::Full(NoRoom::Share { held: 3, .. }))
        ),
        "{refused:?}"
    );
    // The limit of all tenants is reached, and a sequence that is created again adds nothing to it.
    assert!(create("b", Tenant::OPERATOR).await.unwrap());
    delete("a1").await;
    assert!(create("a1", one).await.unwrap());
    assert!(!create("a1", other).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_sequence_differs_only_in_what_it_must_keep() {
    let story = Story::begin();
    let of_limit = |max, segment_max| SequenceSpec {
        max: Some(max),
        ..sizes(None, Some(segment_max))
    };
    story.create(of_limit(9, 50)).await.unwrap();
    let deleted = story.sequences.delete(&name(), None, soon()).await;
    deleted.unwrap();
    let error = story.create(of_limit(8, 40)).await.unwrap_err();
    let ServiceError::Differs(differs) = error else {
        panic!("{error}");
    };
    let fields: Vec<&str> = differs.fields.iter().map(|it| &*it.field).collect();
    assert_eq!(fields, ["max"]);
    let made = story.create(of_limit(9, 40)).await.unwrap();
    assert_eq!(made.sequence.segment.unwrap().max, 40);
}

#[tokio::test(start_paused = true)]
async fn the_last_value_is_one_that_was_granted() {
    let cycling = |start, max| SequenceSpec {
        start: Some(start),
        cycle: Some(true),
        ..ascending(max)
    };
    let steps = SequenceSpec {
        increment: Some(3),
        ..ascending(5)
    };
    // An end that no step reaches, and the ends of a first pass.
    for (spec, draws, expected) in [(steps, 2, 4), (cycling(1, 3), 3, 3), (cycling(5, 9), 5, 9)] {
        let story = Story::begin();
        let created = story.create(spec).await.unwrap().sequence;
        let before = created.start - created.increment;
        assert_eq!(last_value(&created), Some(before));
        for _ in 0..draws {
            story.next(of(1), false).await.unwrap();
        }
        let drawn = story.sequences.get(&name(), false, soon()).await.unwrap();
        assert_eq!(last_value(&drawn), Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_use_of_a_deleted_sequence_returns_the_definition_with_which_it_is_created_again() {
    let descending = SequenceSpec {
        start: Some(-3),
        increment: Some(-2),
        min: Some(-9),
        max: Some(5),
        cycle: Some(true),
        ..strict()
    };
    let from_zero = SequenceSpec {
        min: Some(0),
        start: Some(7),
        ..SequenceSpec::default()
    };
    let below_zero = SequenceSpec {
        increment: Some(-1),
        ..SequenceSpec::default()
    };
    let plain = SequenceSpec::default();
    for spec in [descending, from_zero, below_zero, ascending(9), plain] {
        let story = Story::begin();
        story.create(spec.clone()).await.unwrap();
        let deleted = story.sequences.delete(&name(), None, soon()).await;
        deleted.unwrap();
        let error = story.next(of(1), false).await.unwrap_err();
        let ServiceError::Sequence(SequenceError::NotFound { former, .. }) = error else {
            panic!("{error}");
        };
        let former = *former.expect("the definition");
        assert_eq!(former, spec);
        story.create(former).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_sequence_that_cannot_reach_a_first_value_stays_deleted() {
    let cycling = SequenceSpec {
        cycle: Some(true),
        ..ascending(9)
    };
    let descending = SequenceSpec {
        increment: Some(-1),
        ..strict()
    };
    for kept in [ascending(9), cycling, descending] {
        let story = Story::begin();
        story.create(kept).await.unwrap();
        let deleted = story.sequences.delete(&name(), None, soon()).await;
        deleted.unwrap();
        let spec = SequenceSpec {
            start: Some(50),
            ..strict()
        };
        let name = name();
        let revived = story
            .sequences
            .create_or_revive(&name, (spec, Some(50)), by_operator());
        let refused = revived.await.unwrap_err();
        assert!(matches!(refused, ServiceError::Refused(_)), "{refused}");
        let found = story.sequences.get(&name, false, soon()).await;
        assert_eq!(found.unwrap_err().code(), ErrorCode::NotFound);
    }
}
