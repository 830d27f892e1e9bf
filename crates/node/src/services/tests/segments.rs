//! Segments that clients hold, and the return of their unused values.

use seqd_api::{Grant, GrantRequest, ReturnRequest, SequenceSpec};

use super::super::error::{RequestError, SequenceError, ServiceError};
use super::{Story, name, soon};

#[tokio::test(start_paused = true)]
async fn the_unused_end_of_the_latest_grant_is_granted_again() {
    let story = Story::begin();
    story.create(SequenceSpec::default()).await.unwrap();
    let sequences = &story.sequences;
    let grant_of = async |size| {
        let request = GrantRequest {
            size: Some(size),
            after: None,
        };
        let granted = sequences.grant_segment(name(), &request, false, soon());
        granted.await
    };
    let grant = grant_of(20).await.unwrap();
    assert_eq!((grant.first, grant.last, grant.count), (1, 20, 20));
    let back = |unused| {
        let request = ReturnRequest { unused };
        async move {
            sequences
                .give_back(name(), grant.grant, &request, soon())
                .await
        }
    };
    for unused in [None, Some(0)] {
        let error = back(unused).await.unwrap_err();
        assert!(error.to_string().starts_with("unused"), "{error}");
    }
    let too_many = back(Some(21)).await;
    assert!(matches!(
        too_many,
        Err(ServiceError::Sequence(SequenceError::MoreThanGranted {
            unused: 21,
            ..
        }))
    ));
    assert_eq!(back(Some(5)).await.unwrap().returned, 5);
    assert_eq!(grant_of(20).await.unwrap().first, 16);
    assert!(matches!(
        grant_of(GrantRequest::MAX_SIZE + 1).await,
        Err(ServiceError::Request(RequestError::TooMany { .. }))
    ));
}

#[tokio::test(start_paused = true)]
async fn values_that_a_key_returns_again_are_granted_to_nobody_else() {
    let story = Story::begin();
    story.create(SequenceSpec::default()).await.unwrap();
    let grant = async |after, has_key| {
        let size = Some(10);
        let request = GrantRequest { size, after };
        let granted = story
            .sequences
            .grant_segment(name(), &request, has_key, soon());
        granted.await.unwrap()
    };
    let back = async |grant: &Grant, unused| {
        let request = ReturnRequest {
            unused: Some(unused),
        };
        let sequences = &story.sequences;
        let returned = sequences.give_back(name(), grant.grant, &request, soon());
        returned.await
    };
    let of_key = grant(None, true).await;
    let refused = back(&of_key, 3).await;
    assert!(
        matches!(
            refused,
            Err(ServiceError::Sequence(SequenceError::GrantOfKey { .. }))
        ),
        "the values of a key were returned: {refused:?}"
    );
    // The next segment begins another run, so that a return of its values does not include the
    // values of the key.
    let next = grant(Some(of_key.grant), false).await;
    assert_eq!((of_key.last, next.first), (10, 11));
    assert!(back(&next, 11).await.is_err());
    assert_eq!(back(&next, 10).await.unwrap().returned, 10);
}
