//! The rules of the services with the real state machine, without HTTP.

mod keys;
mod machines;
mod minted;
mod one_time;
mod segments;
mod sequences;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use seqd_api::{
    AdvanceRequest, ErrorCode, Mode, NextRequest, SegmentSpec, SequenceSpec, SequencesQuery,
};
use seqd_raft::ProposeError;
use seqd_state::{SequenceName, Tenant};
use tokio::time::Instant;

use super::sequences::Created;
use super::*;
use crate::config::keys::{LimitsSection, SegmentSection};
use crate::replica::{OtherMember, Progress};
use crate::test_replica::{NOON, TestClock, TestReplica};

const WINDOW_MS: u64 = 30_000;
const MAX_COUNT: u32 = 100;

struct Story {
    replica: Arc<TestReplica>,
    sequences: SequenceService,
}

pub(super) const LIMITS: LimitsSection = LimitsSection {
    tenant_share: seqd_state::Share::WHOLE,
    keys: 3,
    key_bytes: 1 << 20,
    tokens: 2,
    sequences: 3,
    answer_ttl: Duration::from_secs(60),
    locks: 1,
    lock_waiters: 1,
};

fn by_operator() -> (Tenant, Instant) {
    (Tenant::OPERATOR, soon())
}

impl Story {
    fn begin() -> Story {
        Story::with_limits(LIMITS)
    }

    fn with_limits(limits: LimitsSection) -> Story {
        let replica = TestReplica::founded(TestClock::at(NOON), WINDOW_MS);
        let metrics = Arc::new(Metrics::new());
        let sequences = SequenceService {
            replica: replica.clone(),
            segments: Arc::new(SegmentBuffers::new(replica.clone(), Arc::clone(&metrics))),
            metrics,
            defaults: SegmentSection {
                target: Duration::from_secs(60),
                min: 10,
                max: 50,
            },
            limits,
            max_count: MAX_COUNT,
        };
        Story { replica, sequences }
    }

    async fn create(&self, spec: SequenceSpec) -> Result<Created, ServiceError> {
        self.sequences.create(&name(), spec, by_operator()).await
    }

    async fn next(
        &self,
        request: NextRequest,
        is_listed: bool,
    ) -> Result<seqd_api::Next, ServiceError> {
        let name = name();
        let next = self.sequences.next(&name, &request, is_listed, soon());
        next.await
    }
}

fn name() -> SequenceName {
    SequenceName::new("order").unwrap()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(3)
}

fn strict() -> SequenceSpec {
    SequenceSpec {
        mode: Some(Mode::Strict),
        ..SequenceSpec::default()
    }
}

fn sizes(min: Option<u64>, max: Option<u64>) -> SequenceSpec {
    SequenceSpec {
        segment: Some(SegmentSpec {
            target: None,
            min,
            max,
        }),
        ..SequenceSpec::default()
    }
}

fn of(count: u64) -> NextRequest {
    NextRequest {
        count: Some(count),
        ..NextRequest::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_sequence_that_is_made_again_is_the_same_and_another_definition_is_refused() {
    let story = Story::begin();
    let first = story.create(strict()).await.unwrap();
    let again = story.create(strict()).await.unwrap();
    assert!(first.is_new && !again.is_new);
    assert_eq!(first.sequence.revision, again.sequence.revision);
    let other = story.create(SequenceSpec::default()).await.unwrap_err();
    assert_eq!(other.code(), ErrorCode::AlreadyExists);
}

#[tokio::test(start_paused = true)]
async fn one_bound_of_a_segment_moves_the_default_of_the_other() {
    for (min, max, expected) in [
        (None, None, (10, 50)),
        (Some(80), None, (80, 80)),
        (None, Some(4), (4, 4)),
        (Some(20), Some(30), (20, 30)),
    ] {
        let story = Story::begin();
        let made = story.create(sizes(min, max)).await.unwrap();
        let segment = made.sequence.segment.unwrap();
        assert_eq!((segment.min, segment.max), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_contradicts_itself_is_refused_and_nothing_is_proposed() {
    let story = Story::begin();
    let before = story.replica.proposals();
    let strict_with_segments = SequenceSpec {
        mode: Some(Mode::Strict),
        ..sizes(Some(1), None)
    };
    let no_target = SequenceSpec {
        segment: Some(SegmentSpec {
            target: Some("soon".to_owned()),
            min: None,
            max: None,
        }),
        ..SequenceSpec::default()
    };
    let no_step = SequenceSpec {
        increment: Some(0),
        ..SequenceSpec::default()
    };
    for spec in [strict_with_segments, no_target, no_step] {
        let error = story.create(spec).await.unwrap_err();
        let is_invalid = matches!(&error, ServiceError::Request(RequestError::Invalid(_)));
        assert!(is_invalid, "{error}");
    }
    assert_eq!(story.replica.proposals(), before);
}

#[tokio::test(start_paused = true)]
async fn in_a_restored_cluster_a_new_name_needs_a_start() {
    let story = Story::begin();
    story.create(strict()).await.unwrap();
    story.replica.restore();
    story.create(strict()).await.unwrap();
    let other = SequenceName::new("other").unwrap();
    let made = story.sequences.create(&other, strict(), by_operator());
    assert!(matches!(
        made.await,
        Err(ServiceError::Sequence(SequenceError::StartMissing { .. }))
    ));
    let begun = SequenceSpec {
        start: Some(7),
        ..strict()
    };
    let made = story.sequences.create(&other, begun, by_operator()).await;
    made.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_a_read_fails_and_a_stale_one_does_not() {
    let story = Story::begin();
    story.create(strict()).await.unwrap();
    story.replica.set_quorum(false);
    let (sequences, name) = (&story.sequences, name());
    let read = sequences.get(&name, false, soon()).await;
    assert!(matches!(read, Err(ServiceError::Unread(_))), "{read:?}");
    assert_eq!(
        sequences.get(&name, true, soon()).await.unwrap().name,
        "order"
    );
    let advanced = sequences.advance(&name, &AdvanceRequest { to: 9 }, soon());
    let error = advanced.await.unwrap_err();
    assert!(matches!(
        error,
        ServiceError::Propose(ProposeError::NoQuorum { .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn an_advance_names_the_members_that_have_not_confirmed_it() {
    let story = Story::begin();
    let segment = SequenceSpec {
        mode: Some(Mode::Segment),
        ..strict()
    };
    story.create(segment).await.unwrap();
    let other = |name: &str, applied, reachable| OtherMember {
        name: name.to_owned(),
        applied,
        reachable,
    };
    *story.replica.progress.lock().unwrap() = Progress {
        applied: 8,
        others: vec![
            other("n4", Some(7), true),
            other("n3", None, false),
            other("n2", Some(8), true),
        ],
    };
    let (sequences, name, to) = (&story.sequences, name(), AdvanceRequest { to: 9 });
    let started = Instant::now();
    let advanced = sequences.advance(&name, &to, soon()).await.unwrap();
    assert_eq!(advanced.unconfirmed, ["n3", "n4"]);
    assert_eq!(advanced.next, Some(9));
    // A reachable member is waited for, longer than its report interval of one second.
    assert!(started.elapsed() > Duration::from_secs(1));

    story.replica.progress.lock().unwrap().others[0].applied = Some(8);
    let started = Instant::now();
    let deleted = sequences.delete(&name, None, soon()).await.unwrap();
    assert_eq!(deleted.unconfirmed, ["n3"]);
    assert!(started.elapsed() < Duration::from_secs(1));
}

/// No member holds a range of it: each value is issued through the log.
#[tokio::test(start_paused = true)]
async fn an_advance_of_a_strict_sequence_waits_for_no_member() {
    let story = Story::begin();
    story.create(strict()).await.unwrap();
    *story.replica.progress.lock().unwrap() = Progress {
        applied: 8,
        others: vec![OtherMember {
            name: "n2".to_owned(),
            applied: Some(7),
            reachable: true,
        }],
    };
    let (sequences, name, to) = (&story.sequences, name(), AdvanceRequest { to: 9 });
    let started = Instant::now();
    let advanced = sequences.advance(&name, &to, soon()).await.unwrap();
    assert_eq!((advanced.unconfirmed, advanced.next), (Vec::new(), Some(9)));
    assert!(started.elapsed() < Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_lists_its_values_takes_fewer() {
    let story = Story::begin();
    story.create(strict()).await.unwrap();
    let many = u64::from(MAX_COUNT) + 1;
    let (listed, ranges) = (
        story.next(of(many), true).await,
        story.next(of(many), false).await,
    );
    assert!(matches!(
        listed,
        Err(ServiceError::Request(RequestError::TooMany {
            limit: 100,
            ..
        }))
    ));
    let ranges = ranges.unwrap();
    assert_eq!((ranges.first, ranges.count), (Some(1), many));
    let none = story.next(of(0), false).await;
    assert_eq!(
        none.unwrap_err().to_string(),
        "count is 1 to 1000000, not 0"
    );
}

#[tokio::test(start_paused = true)]
async fn values_in_one_range_come_from_one_segment_or_one_pass() {
    let contiguous = |count| NextRequest {
        contiguous: Some(true),
        ..of(count)
    };
    let story = Story::begin();
    story.create(SequenceSpec::default()).await.unwrap();
    let beyond = story.next(contiguous(51), false).await;
    assert!(matches!(
        beyond,
        Err(ServiceError::Request(RequestError::TooMany {
            limit: 50,
            ..
        }))
    ));

    let cycling = |spec| SequenceSpec {
        max: Some(10),
        cycle: Some(true),
        ..spec
    };
    for spec in [strict(), SequenceSpec::default()] {
        let story = Story::begin();
        story.create(cycling(spec)).await.unwrap();
        let before = story.replica.proposals();
        let error = story.next(contiguous(11), false).await.unwrap_err();
        let ServiceError::Request(RequestError::TooMany { limit, .. }) = error else {
            panic!("{error}");
        };
        assert_eq!((limit, story.replica.proposals() - before), (10, 0));
        assert_eq!(story.next(contiguous(10), false).await.unwrap().count, 10);
    }

    let story = Story::begin();
    story.create(cycling(strict())).await.unwrap();
    story.next(of(8), false).await.unwrap();
    // The rest of the pass, 9 and 10, is skipped.
    for (count, first, last) in [(4, 1, 4), (10, 1, 10), (6, 1, 6), (10, 1, 10)] {
        let whole = story.next(contiguous(count), false).await.unwrap();
        assert_eq!((whole.first, whole.last), (Some(first), Some(last)));
    }
}

#[tokio::test(start_paused = true)]
async fn values_that_would_need_too_many_segments_are_refused_and_none_is_granted() {
    let story = Story::begin();
    let short = SequenceSpec {
        max: Some(3),
        cycle: Some(true),
        ..SequenceSpec::default()
    };
    story.create(short).await.unwrap();
    let before = story.replica.proposals();
    let error = story.next(of(769), false).await.unwrap_err();
    let ServiceError::Request(RequestError::TooMany { limit, .. }) = error else {
        panic!("{error}");
    };
    assert_eq!((limit, story.replica.proposals() - before), (768, 0));
    let served = story.next(of(768), false).await.unwrap();
    assert_eq!((served.count, served.ranges.len()), (768, 256));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_missing_comes_with_the_nearest_and_only_use_with_how_to_make_it() {
    let story = Story::begin();
    story.create(strict()).await.unwrap();
    let sequences = &story.sequences;
    let (slip, far) = ("prder", "zebra");
    for (wanted, expected) in [(slip, Some("order")), (far, None)] {
        let wanted = SequenceName::new(wanted).unwrap();
        let advance = AdvanceRequest { to: 5 };
        let errors = [
            sequences
                .next(&wanted, &of(1), false, soon())
                .await
                .unwrap_err(),
            sequences
                .advance(&wanted, &advance, soon())
                .await
                .unwrap_err(),
            sequences.get(&wanted, false, soon()).await.unwrap_err(),
            sequences.get(&wanted, true, soon()).await.unwrap_err(),
            sequences.delete(&wanted, None, soon()).await.unwrap_err(),
        ];
        // A suggestion must not lead to the loss of another sequence or of its values.
        let kinds = [
            (true, true),
            (false, false),
            (false, true),
            (false, true),
            (false, false),
        ];
        for (error, (use_expected, suggests)) in errors.iter().zip(kinds) {
            let ServiceError::Sequence(SequenceError::NotFound {
                name,
                near,
                for_use,
                ..
            }) = error
            else {
                panic!("{error}");
            };
            let expected = expected.filter(|_| suggests);
            assert_eq!((name, near.as_deref()), (&wanted, expected));
            assert_eq!(*for_use, use_expected, "{error:?}");
        }
    }
}
