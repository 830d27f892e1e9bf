//! Idempotency keys and one-time tokens through their services.

use seqd_api::{
    AbandonKey, BeginKey, CompleteKey, GetKeyQuery, JsonText, KeyBegun, KeyState, KeysQuery,
};
use seqd_state::{AccessId, KeyName, KeySpace, Share};

use super::*;
use crate::config::keys::LimitsSection;
use crate::replica::peek;
use crate::services::room::NoRoom;

fn story() -> (Arc<TestReplica>, KeyService) {
    let replica = TestReplica::founded(TestClock::at(NOON), WINDOW_MS);
    let keys = KeyService::new(replica.clone(), LIMITS);
    (replica, keys)
}

async fn begun(keys: &KeyService, key: &str, nonce: &str) -> Result<KeyBegun, ServiceError> {
    keys.begin(key, begin(nonce), Tenant::OPERATOR, soon())
        .await
}

fn begin(nonce: &str) -> BeginKey {
    BeginKey {
        claim_ttl_ms: Some(1_000),
        fingerprint: Some("f".to_owned()),
        nonce: Some(nonce.to_owned()),
        ..BeginKey::default()
    }
}

fn complete(claim: Option<String>) -> CompleteKey {
    CompleteKey {
        claim,
        result: None,
    }
}

fn of_request(key: &str) -> KeyName {
    KeyName {
        space: KeySpace::Requests { access: 1 },
        key: key.to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn one_caller_gets_the_claim_and_the_others_get_its_result() {
    let (_, keys) = story();
    let first = begun(&keys, "pay", "a").await.unwrap();
    assert_eq!((first.state, first.attempt), (KeyState::First, 1));
    assert_eq!(first.claim_expires_in_ms, Some(1_000));
    let other = begun(&keys, "pay", "b").await;
    let Err(ServiceError::Key(KeyError::InProgress { claim_ms, .. })) = other else {
        panic!("{other:?}");
    };
    assert!(claim_ms <= 1_000, "{claim_ms}");
    let again = begun(&keys, "pay", "a").await.unwrap();
    assert_eq!(again.claim, first.claim);
    let other = BeginKey {
        fingerprint: Some("g".to_owned()),
        ..begin("a")
    };
    let other = keys.begin("pay", other, Tenant::OPERATOR, soon()).await;
    assert!(matches!(
        other,
        Err(ServiceError::Key(KeyError::Mismatch { .. }))
    ));

    let text = JsonText::new("{\"b\": 1.0, \"a\": []}".to_owned()).unwrap();
    let kept = keys.complete("pay", complete(first.claim), Some(text.clone()), soon());
    assert_eq!(kept.await.unwrap().state, KeyState::Done);
    let done = begun(&keys, "pay", "b").await.unwrap();
    assert_eq!((done.state, done.claim), (KeyState::Done, None));
    assert_eq!(done.result, Some(text.clone()));
    let read = keys.get("pay", &GetKeyQuery::default(), soon()).await;
    assert_eq!(read.unwrap().result, Some(text));
}

#[tokio::test(start_paused = true)]
async fn an_expired_claim_is_taken_over_and_lost() {
    let (_, keys) = story();
    let first = begun(&keys, "pay", "a").await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let next = begun(&keys, "pay", "b").await.unwrap();
    assert_eq!((next.state, next.attempt), (KeyState::First, 2));
    let late = keys.complete("pay", complete(first.claim), None, soon());
    let late = late.await.unwrap_err();
    assert_eq!(late.code(), ErrorCode::LeaseLost);
    let abandon = AbandonKey { claim: next.claim };
    keys.abandon("pay", abandon, soon()).await.unwrap();
    let read = keys.get("pay", &GetKeyQuery::default(), soon()).await;
    assert_eq!(read.unwrap().state, KeyState::Abandoned);
    let unknown = keys.get("other", &GetKeyQuery::default(), soon()).await;
    assert!(matches!(
        unknown,
        Err(ServiceError::Key(KeyError::NotFound(_)))
    ));
}

#[tokio::test(start_paused = true)]
async fn a_node_begins_no_more_keys_than_its_limits_and_completes_begun_ones() {
    let (replica, keys) = story();
    let mut claims = Vec::new();
    for key in ["1", "2", "3"] {
        claims.push(begun(&keys, key, key).await.unwrap().claim);
    }
    let full = begun(&keys, "4", "4").await;
    assert!(matches!(
        full,
        Err(ServiceError::Full(NoRoom::Full {
            limit_name: "keys",
            ..
        }))
    ));
    assert!(begun(&keys, "3", "3").await.is_ok());
    let long = JsonText::new("\"0123456789\"".to_owned()).unwrap();
    for (key, claim) in ["1", "2"].into_iter().zip(claims) {
        let kept = keys.complete(key, complete(claim), Some(long.clone()), soon());
        kept.await.unwrap();
    }
    let keys = KeyService::new(
        replica.clone(),
        LimitsSection {
            keys: 9,
            key_bytes: 1_000,
            ..LIMITS
        },
    );
    let full = begun(&keys, "4", "4").await;
    assert!(matches!(
        full,
        Err(ServiceError::Full(NoRoom::Full {
            limit_name: "key_bytes",
            ..
        }))
    ));
}

#[tokio::test(start_paused = true)]
async fn a_request_with_a_key_is_served_once_and_again_where_it_was_refused() {
    let (_, keys) = story();
    let ask = |print: &str| keys.begin_request(of_request("k"), print.to_owned(), by_operator());
    let KeyedHandling::Serve(claim) = ask("f").await.unwrap() else {
        panic!("nothing was answered before");
    };
    assert!(matches!(
        ask("f").await,
        Err(ServiceError::Key(KeyError::InProgress { .. }))
    ));
    // After a refusal the corrected request has another fingerprint.
    keys.give_up(of_request("k"), claim, soon()).await.unwrap();
    let KeyedHandling::Serve(claim) = ask("g").await.unwrap() else {
        panic!("nothing was answered before");
    };
    let answer = b"200 text/plain\n7\n".to_vec();
    let kept = keys.keep(of_request("k"), claim, answer.clone().into(), soon());
    kept.await.unwrap();
    let KeyedHandling::Replay(kept) = ask("g").await.unwrap() else {
        panic!("it was answered");
    };
    assert_eq!(*kept.0, *answer);
    assert!(matches!(
        ask("f").await,
        Err(ServiceError::Key(KeyError::Mismatch { .. }))
    ));
    tokio::time::sleep(LIMITS.answer_ttl).await;
    assert!(
        matches!(ask("f").await, Ok(KeyedHandling::Serve(_))),
        "it is kept no longer"
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_no_caller_gets_a_claim() {
    let (replica, keys) = story();
    replica.set_quorum(false);
    let begun = begun(&keys, "pay", "a").await;
    assert!(matches!(
        begun,
        Err(ServiceError::Unread(ProposeError::NoQuorum { .. }))
    ));
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_once_the_quorum_is_back_in_time() {
    let (replica, keys) = story();
    let begun = keys.begin_request(of_request("k"), String::new(), by_operator());
    let KeyedHandling::Serve(claim) = begun.await.unwrap() else {
        panic!("nothing was answered before");
    };
    replica.set_quorum(false);
    let answer = || b"200 text/plain\n7\n".to_vec().into();
    let keep = keys.keep_answer(of_request("k"), claim, answer(), by_operator());
    let back = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        replica.set_quorum(true);
    };
    let (kept, ()) = tokio::join!(keep, back);
    kept.unwrap();
    replica.set_quorum(false);
    let late = keys.keep_answer(of_request("k"), claim, answer(), by_operator());
    assert!(matches!(
        late.await,
        Err(ServiceError::Propose(ProposeError::NoQuorum { .. }))
    ));
}

#[tokio::test(start_paused = true)]
async fn two_that_begin_a_key_at_once_on_one_node_are_not_both_first() {
    let (_, keys) = story();
    let (one, other) = tokio::join!(begun(&keys, "pay", "a"), begun(&keys, "pay", "b"));
    // Either of the two may be applied first, whichever was sent first.
    let firsts = [&one, &other].map(Result::is_ok);
    let first = firsts.iter().filter(|is_first| **is_first).count();
    assert!(first < 2, "both were told to go on: {one:?}, {other:?}");
    assert_eq!(first, 1, "{one:?}, {other:?}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_cannot_be_guessed() {
    let (_, keys) = story();
    let own = begun(&keys, "own", "a").await.unwrap();
    let victim = begun(&keys, "pay", "b").await.unwrap();
    let (own, token) = (own.claim.unwrap(), victim.token.unwrap());
    let next = (own.parse::<u128>().unwrap() + (1 << 64)).to_string();
    for guess in [token.to_string(), own, next, "x".to_owned()] {
        let forged = JsonText::new("\"forged\"".to_owned()).unwrap();
        let kept = keys.complete("pay", complete(Some(guess.clone())), Some(forged), soon());
        let error = kept
            .await
            .expect_err("a key was completed with a forged claim");
        assert_eq!(error.code(), ErrorCode::LeaseLost, "{guess}: {error}");
        let abandon = AbandonKey { claim: Some(guess) };
        assert!(keys.abandon("pay", abandon, soon()).await.is_err());
    }
    let kept = keys.complete("pay", complete(victim.claim), None, soon());
    assert_eq!(kept.await.unwrap().state, KeyState::Done);
}

#[tokio::test(start_paused = true)]
async fn answers_with_a_key_stay_within_the_share_of_their_tenant() {
    let replica = TestReplica::founded(TestClock::at(NOON), WINDOW_MS);
    let limits = LimitsSection {
        keys: 1000,
        key_bytes: 1 << 20,
        tenant_share: Share::of_percent(25).unwrap(),
        ..LIMITS
    };
    let keys = KeyService::new(replica.clone(), limits);
    let tenant = Tenant::of_token(AccessId(1));
    let mut kept = 0;
    for at in 0..8 {
        let name = of_request(&format!("k{at}"));
        let begun = keys.begin_request(name.clone(), String::new(), (tenant, soon()));
        let Ok(KeyedHandling::Serve(claim)) = begun.await else {
            break;
        };
        let answer = vec![b'a'; 100 << 10].into();
        match keys
            .keep_answer(name, claim, answer, (tenant, soon()))
            .await
        {
            Ok(()) => kept += 1,
            Err(ServiceError::Full(NoRoom::Share { .. })) => break,
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(kept, 2, "an answer was kept beyond the share");
    // A request whose response would have no room is refused before it takes values.
    let refused = keys.check_answer(tenant, 100 << 10);
    assert!(matches!(
        refused,
        Err(ServiceError::Full(NoRoom::Share { .. }))
    ));
    keys.check_answer(tenant, 10 << 10).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_taken_over_is_charged_to_its_new_claimant() {
    let (replica, keys) = story();
    let [first, second] = [1, 2].map(|id| Tenant::of_token(AccessId(id)));
    let held = |tenant| peek(&*replica, |state| state.keys_held().of(tenant).count).unwrap();
    keys.begin("pay", begin("a"), first, soon()).await.unwrap();
    assert_eq!((held(first), held(second)), (1, 0));
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    keys.begin("pay", begin("b"), second, soon()).await.unwrap();
    assert_eq!((held(first), held(second)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn the_plan_of_a_deletion_is_that_of_the_same_page() {
    let (_, keys) = story();
    for key in ["p1", "p2", "p3"] {
        begun(&keys, key, "a").await.unwrap();
    }
    let query = KeysQuery {
        prefix: Some("p".to_owned()),
        limit: Some(2),
        ..KeysQuery::default()
    };
    for (count, noun, remain) in [(2, "2 keys", ", and 1 more remain"), (1, "1 key", "")] {
        let plan = keys.plan_delete_matching(&query, soon()).await.unwrap();
        let words = format!("deletes {noun}, {count} of them without a result{remain}");
        assert!(plan.effect.starts_with(&words), "{}", plan.effect);
        assert_eq!(plan.more, !remain.is_empty());
        let deleted = keys.delete_matching(&query, soon()).await.unwrap();
        assert_eq!(deleted.deleted, count);
    }
}

#[tokio::test(start_paused = true)]
async fn the_plan_of_a_deletion_refuses_an_invalid_key_like_the_deletion() {
    let (_, keys) = story();
    for (key, code) in [
        ("\u{e9}", ErrorCode::InvalidArgument),
        ("missing", ErrorCode::NotFound),
    ] {
        let planned = keys.plan_delete(key, soon()).await.unwrap_err();
        let deleted = keys.delete(key, soon()).await.unwrap_err();
        assert_eq!((planned.code(), deleted.code()), (code, code), "{key}");
    }
}
