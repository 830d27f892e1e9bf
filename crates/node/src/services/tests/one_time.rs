//! One-time tokens.

use seqd_api::{IssueTokens, TokensQuery};
use seqd_state::AccessId;

use super::super::one_time::MOST_AT_ONCE;
use super::*;

fn tenant(id: u64) -> Tenant {
    Tenant::of_token(AccessId(id))
}

fn tokens(count: u64) -> IssueTokens {
    IssueTokens {
        count: Some(count),
        ttl_ms: None,
    }
}

fn service(tokens: u64) -> Arc<OneTimeService> {
    let story = Story::begin();
    let ids = story.ids();
    Arc::new(OneTimeService {
        replica: story.replica.clone(),
        minters: ids.minters,
        clock: ids.clock,
        limits: LimitsSection { tokens, ..LIMITS },
        issuing: Places::new(MOST_AT_ONCE),
    })
}

#[tokio::test(start_paused = true)]
async fn tokens_that_have_no_room_are_refused_before_they_wait_for_their_turn() {
    let service = service(10);
    let _all = service.issuing.take(tenant(1), MOST_AT_ONCE).await;
    let began = Instant::now();
    let refused = service.issue(&tokens(11), tenant(2), soon()).await;
    assert!(matches!(refused, Err(ServiceError::Full(_))), "{refused:?}");
    assert_eq!(began.elapsed(), Duration::ZERO);
    let late = service.issue(&tokens(1), tenant(2), soon()).await;
    assert!(
        matches!(late, Err(ServiceError::Overloaded { .. })),
        "{late:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn tenants_take_turns_to_issue_tokens() {
    let service = service(10_000);
    let _rest = service.issuing.take(tenant(1), MOST_AT_ONCE - 100).await;
    let first = service.issuing.take(tenant(1), 100).await;
    let (ended, mut order) = tokio::sync::mpsc::unbounded_channel();
    for (name, id) in [("first", 1), ("second", 1), ("another tenant's", 2)] {
        let (service, ended) = (Arc::clone(&service), ended.clone());
        tokio::spawn(async move {
            let issued = service.issue(&tokens(100), tenant(id), soon()).await;
            issued.unwrap();
            ended.send(name).unwrap();
        });
        tokio::task::yield_now().await;
    }
    drop((first, ended));
    let mut names = Vec::new();
    while let Some(name) = order.recv().await {
        names.push(name);
    }
    assert_eq!(names, ["first", "another tenant's", "second"]);
}

#[tokio::test(start_paused = true)]
async fn the_plan_of_a_deletion_is_that_of_the_same_page() {
    let service = service(10);
    let issued = service.issue(&tokens(3), Tenant::OPERATOR, soon()).await;
    issued.unwrap();
    let query = TokensQuery {
        tenant: Some("operator".to_owned()),
        limit: Some(2),
        cursor: None,
    };
    for (count, noun, remain) in [
        (2, "2 one-time tokens", ", and 1 more remain"),
        (1, "1 one-time token", ""),
    ] {
        let plan = service.plan_delete_matching(&query, soon()).await.unwrap();
        let words = format!("deletes {noun}, {count} of them unused{remain}");
        assert!(plan.effect.starts_with(&words), "{}", plan.effect);
        let deleted = service.delete_matching(&query, soon()).await.unwrap();
        assert_eq!(deleted.deleted, count);
    }
}
