//! Admission and permissions of callers, on the real state machine.

use std::sync::atomic::Ordering;

use seqd_api::{CreateAccess, Need, Scope};
use seqd_state::AccessCommand;
use tokio::time::{Duration, Instant, advance};

use super::*;
use crate::services::AccessService;
use crate::test_replica::{NOON, TestClock, TestReplica};

const OPERATOR: &str = "operator-0123456789abcdef0123456789abcdef";

const WINDOW: Duration = Duration::from_secs(30);

struct Door {
    access: Access,
    tokens: AccessService,
    clock: Arc<TestClock>,
    replica: Arc<TestReplica>,
}

impl Door {
    async fn new() -> Self {
        let clock = TestClock::at(NOON);
        let replica = TestReplica::founded(clock.clone(), 30_000);
        let operator = Some(TokenFile::of_token(OPERATOR));
        let access = Access::new(operator, replica.clone(), clock.clone(), WINDOW);
        access.look().await;
        Self {
            access,
            tokens: AccessService {
                replica: replica.clone(),
                clock: clock.clone(),
            },
            clock,
            replica,
        }
    }

    async fn create(&self, request: CreateAccess) -> (AccessId, String) {
        let deadline = Instant::now() + Duration::from_secs(1);
        let created = self.tokens.create(request, deadline).await.unwrap();
        let id = AccessId::parse(&created.listed.id).unwrap();
        (id, created.token)
    }

    fn shows(&self, token: &str) -> Result<Caller, NotLetIn> {
        self.access.admit(Some(token.as_bytes()))
    }
}

fn request(scope: &str) -> CreateAccess {
    CreateAccess {
        scopes: Some(vec![scope.parse().unwrap()]),
        ..CreateAccess::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_with_the_id_of_a_token_but_not_its_secret_is_rejected() {
    let door = Door::new().await;
    let (id, token) = door.create(request("read")).await;
    assert_eq!(door.shows(&token), Ok(Caller::Token(id)));
    assert_eq!(door.shows(OPERATOR), Ok(Caller::Operator));
    let other = format!("{}{}", &token[..token.len() - 1], "x");
    let strangers = ["", OPERATOR.trim_end_matches('f'), &token[..21], &other];
    for shown in strangers {
        assert_eq!(
            door.shows(shown),
            Err(NotLetIn::Unknown),
            "a token was taken without its secret"
        );
    }
    assert_eq!(door.access.admit(None), Err(NotLetIn::Missing));

    let deadline = Instant::now() + Duration::from_secs(1);
    door.tokens.revoke(&id.to_string(), deadline).await.unwrap();
    assert_eq!(door.shows(&token), Err(NotLetIn::Unknown));
    assert!(!door.access.permits(Caller::Token(id), Need::AnyToken, ""));
}

#[tokio::test(start_paused = true)]
async fn the_cluster_s_tokens_count_only_on_a_node_that_is_in_touch_with_it() {
    let door = Door::new().await;
    let (id, token) = door.create(request("read")).await;
    let in_touch = |is| door.replica.has_quorum.store(is, Ordering::SeqCst);
    advance(WINDOW).await;
    let refused = || {
        assert_eq!(
            door.shows(&token),
            Err(NotLetIn::NotCurrent),
            "a token was taken by a node that may lack its revocation"
        );
        assert_eq!(door.shows(OPERATOR), Ok(Caller::Operator));
    };
    in_touch(false);
    refused();
    let soon = Instant::now() + Duration::from_secs(1);
    let unconfirmed = door.access.confirm(Caller::Token(id), soon).await;
    assert!(
        unconfirmed.is_err(),
        "an administrator is let in without the leader"
    );
    assert!(door.access.confirm(Caller::Operator, soon).await.is_ok());
    in_touch(true);
    assert!(door.access.confirm(Caller::Token(id), soon).await.is_ok());
    door.access.look().await;
    assert_eq!(door.shows(&token), Ok(Caller::Token(id)));
    in_touch(false);
    door.access.look().await;
    advance(WINDOW - Duration::from_millis(1)).await;
    assert_eq!(door.shows(&token), Ok(Caller::Token(id)));
    advance(Duration::from_millis(1)).await;
    refused();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_cut_off_applies_revocations_before_it_admits_tokens_again() {
    let door = Door::new().await;
    let (id, token) = door.create(request("read")).await;
    door.replica
        .commit_unapplied(AccessCommand::Revoke { id }.into());
    advance(WINDOW).await;
    // The node receives messages of its leader again, but no read succeeds yet.
    door.replica.can_read.store(false, Ordering::SeqCst);
    door.access.look().await;
    assert_eq!(
        door.shows(&token),
        Err(NotLetIn::NotCurrent),
        "a token was taken before the node had applied its revocation"
    );
    door.replica.can_read.store(true, Ordering::SeqCst);
    door.access.look().await;
    assert_eq!(door.shows(&token), Err(NotLetIn::Unknown));
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_by_the_node_s_own_clock() {
    let door = Door::new().await;
    let expires = CreateAccess {
        ttl_ms: Some(1000),
        ..request("read")
    };
    let (id, token) = door.create(expires).await;
    door.clock.step(999);
    assert_eq!(door.shows(&token), Ok(Caller::Token(id)));
    door.clock.step(1);
    let at = WallMs(NOON + 1000);
    assert_eq!(
        door.shows(&token),
        Err(NotLetIn::Expired { id, at }),
        "a token was taken past its end"
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_permits_the_requests_in_its_scope() {
    let door = Door::new().await;
    let (id, _) = door.create(request("allocate:order.")).await;
    let permits = |need, name| door.access.permits(Caller::Token(id), need, name);
    assert!(permits(Need::Named(Scope::Allocate), "order.eu"));
    for (need, name) in [
        (Need::Named(Scope::Allocate), "invoice.eu"),
        (Need::Named(Scope::Admin), "order.eu"),
        (Need::Whole(Scope::Read), ""),
    ] {
        assert!(
            !permits(need, name),
            "permitted beyond its scope: {need:?} {name}"
        );
    }
    assert!(
        door.access
            .permits(Caller::Operator, Need::Whole(Scope::Admin), "")
    );
    for need in [Need::AnyToken, Need::Anywhere(Scope::Read)] {
        assert!(!door.access.permits(Caller::Anyone, need, ""));
    }
    assert!(door.access.permits(Caller::Anyone, Need::Nothing, ""));
    assert_eq!(door.access.prefixes(Caller::Token(id)), ["order."]);
    assert_eq!(door.access.prefixes(Caller::Operator), [""]);
}

#[tokio::test(start_paused = true)]
async fn a_token_has_its_rate() {
    let door = Door::new().await;
    let limited = CreateAccess {
        per_second: Some(10),
        ..request("allocate")
    };
    let (_, token) = door.create(limited).await;
    let served = || (0..100).filter(|_| door.shows(&token).is_ok()).count();
    assert_eq!(served(), 10, "served beyond its rate");
    advance(Duration::from_millis(500)).await;
    assert_eq!(served(), 5);
}

#[test]
fn prefixes_within_others_are_left_out() {
    let kept = |all: &[&str]| outermost(all.iter().map(|text| (*text).to_owned()).collect());
    assert_eq!(kept(&["b", "a.b", "a.", "a.c", "b"]), ["a.", "b"]);
    assert_eq!(kept(&["a", ""]), [""]);
    assert_eq!(kept(&[]), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_request_ends_when_its_token_is_revoked_or_expires() {
    let door = Door::new().await;
    let soon = || Instant::now() + Duration::from_secs(1);
    let (revoked, _) = door.create(request("read")).await;
    let expires = CreateAccess {
        ttl_ms: Some(60_000),
        ..request("read")
    };
    let (expired, _) = door.create(expires).await;
    let caller = Caller::Token(revoked);
    assert_eq!(door.access.recheck(caller), Ok(()));
    assert_eq!(door.access.recheck(Caller::Operator), Ok(()));
    let ended = |id| {
        let ended = door.access.ended(Caller::Token(id));
        tokio::time::timeout(Duration::from_millis(1_500), ended)
    };
    assert!(ended(revoked).await.is_err(), "both are let in still");
    door.tokens
        .revoke(&revoked.to_string(), soon())
        .await
        .unwrap();
    let why = ended(revoked).await.expect("a request outlived its token");
    assert_eq!(why, NotLetIn::Unknown);
    door.clock.step(60_000);
    let why = ended(expired).await.expect("a request outlived its token");
    assert!(matches!(why, NotLetIn::Expired { .. }), "{why:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_in_progress_outlives_a_loss_of_contact_but_not_its_token() {
    let door = Door::new().await;
    let expires = CreateAccess {
        ttl_ms: Some(60_000),
        ..request("allocate")
    };
    let (id, _) = door.create(expires).await;
    let caller = Caller::Token(id);
    door.replica.has_quorum.store(false, Ordering::SeqCst);
    let ended = |after| tokio::time::timeout(after, door.access.ended(caller));
    assert!(
        ended(WINDOW + Duration::from_secs(2)).await.is_err(),
        "a request was ended although its token is valid"
    );
    assert_eq!(door.access.recheck(caller), Err(NotLetIn::NotCurrent));
    door.clock.step(60_000);
    let why = ended(Duration::from_millis(1_500))
        .await
        .expect("a request outlived its token");
    assert!(matches!(why, NotLetIn::Expired { .. }), "{why:?}");
}

#[tokio::test(start_paused = true)]
async fn the_reserve_serves_the_operator_and_administrators_of_everything_alone() {
    let door = Door::new().await;
    let may = |caller| door.access.may_use_reserve(caller, true);
    assert!(may(Caller::Operator));
    let (admin, _) = door.create(request("admin")).await;
    assert!(may(Caller::Token(admin)));
    for scope in ["admin:x.", "allocate", "read"] {
        let (id, _) = door.create(request(scope)).await;
        assert!(
            !may(Caller::Token(id)),
            "{scope} uses the reserve of operators"
        );
    }
    assert!(
        !may(Caller::Anyone),
        "a stranger uses the reserve of operators"
    );
    let open = Access::default();
    assert!(open.may_use_reserve(Caller::Anyone, true));
    assert!(!open.may_use_reserve(Caller::Anyone, false));
}
