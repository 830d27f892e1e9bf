//! Holds whose owner is a secret.

use seqd_state::AccessId;

use super::*;
use crate::services::{Found, HoldChange, SecretHold};

const LONGER: HoldChange = HoldChange::Extend { ttl_ms: 60_000 };

async fn held(story: &Story, secret: &str, tenant: Tenant) -> Option<HeldLock> {
    let (lock, by) = ((secret, 10_000), (&Right::default(), tenant));
    let held = story.locks.acquire_secret(NAME, lock, by, soon()).await;
    held.unwrap()
}

async fn changed(story: &Story, value: &str, change: HoldChange, tenant: Tenant) -> Found {
    let by = (tenant, soon());
    let changed = story.locks.change_secret(NAME, (value, change), by);
    changed.await.unwrap()
}

async fn shown(story: &Story, tenant: Tenant) -> String {
    let holder = story.locks.holder(NAME, tenant, soon()).await.unwrap();
    match holder.unwrap().owner {
        SecretHold::Own(owner) | SecretHold::Other(owner) => owner,
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_owner_is_shown_to_no_other_client() {
    let story = Story::begin();
    held(&story, "secret-1", Tenant::OPERATOR).await.unwrap();
    let refused = story.acquire("pod", 0).await.unwrap_err().to_string();
    let lock = story.locks.get(NAME, &LockQuery::default(), soon()).await;
    let lock = lock.unwrap();
    let owners = lock.holders.iter().map(|holder| holder.owner.as_str());
    let all: Vec<&str> = owners.chain([refused.as_str()]).collect();
    for text in all {
        assert!(
            !text.contains("secret-1"),
            "a secret owner is shown: {text}"
        );
        assert!(text.contains("redis:f7e7c36e"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_secret_permits_to_extend_and_release_the_hold() {
    let story = Story::begin();
    let first = held(&story, "secret-1", Tenant::OPERATOR).await.unwrap();
    assert!(
        held(&story, "secret-1", Tenant::OPERATOR).await.is_none(),
        "held twice"
    );
    for change in [HoldChange::Release, LONGER] {
        let found = changed(&story, "secret-2", change, Tenant::OPERATOR).await;
        assert!(matches!(found, Found::Other));
    }
    let found = changed(&story, "secret-1", LONGER, Tenant::OPERATOR).await;
    assert!(matches!(found, Found::Own(_)));
    let holder = story.locks.holder(NAME, Tenant::OPERATOR, soon());
    let holder = holder.await.unwrap().unwrap();
    assert!(holder.left_ms > 10_000);
    let found = changed(&story, "secret-1", HoldChange::Release, Tenant::OPERATOR).await;
    assert!(matches!(found, Found::Own(_)));
    let found = changed(&story, "secret-1", HoldChange::Release, Tenant::OPERATOR).await;
    assert!(matches!(found, Found::Free));
    let next = held(&story, "secret-1", Tenant::OPERATOR).await.unwrap();
    assert!(next.token > first.token);
}

#[tokio::test(start_paused = true)]
async fn the_secret_of_one_token_is_no_secret_of_another() {
    let story = Story::begin();
    let (one, other) = (Tenant::of_token(AccessId(1)), Tenant::of_token(AccessId(2)));
    held(&story, "secret-1", one).await.unwrap();
    for tenant in [other, Tenant::OPERATOR] {
        for change in [HoldChange::Release, LONGER] {
            let found = changed(&story, "secret-1", change, tenant).await;
            assert!(matches!(found, Found::Other), "another token has the hold");
        }
        assert_eq!(shown(&story, tenant).await, "redis:f7e7c36e");
    }
    assert_eq!(shown(&story, one).await, "secret-1");
}

#[tokio::test(start_paused = true)]
async fn a_hold_with_a_lease_is_nobody_s_secret() {
    let story = Story::begin();
    let held = story.acquire("pod", 0).await.unwrap();
    let found = changed(&story, "pod", HoldChange::Release, Tenant::OPERATOR).await;
    assert!(
        matches!(found, Found::Other),
        "a hold was released by its public owner"
    );
    story.release(&held).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hold_has_ended_only_once_an_entry_has_ended_it() {
    let story = Story::begin();
    held(&story, "v", Tenant::OPERATOR).await.unwrap();
    // The leader's clock passes the end of the hold, but no entry is committed.
    story.replica.commits_time.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(20)).await;
    let mut holder = Box::pin(story.locks.holder(NAME, Tenant::OPERATOR, soon()));
    let early = timeout(Duration::from_secs(1), &mut holder).await;
    assert!(early.is_err(), "answered before an entry ended the hold");
    story.replica.commits_time.store(true, Ordering::SeqCst);
    assert!(holder.await.unwrap().is_none(), "it has expired");
}

/// A lock program renews all its holds at once.
#[tokio::test(start_paused = true)]
async fn several_holds_are_extended_by_one_proposal() {
    let story = Story::begin();
    let by = (&Right::default(), Tenant::OPERATOR);
    for name in ["a", "b"] {
        let held = story
            .locks
            .acquire_secret(name, ("value", 1_000), by, soon());
        held.await.unwrap().unwrap();
    }
    let asked = [
        ("a", "value"),
        ("free", "value"),
        ("b", "other"),
        ("b", "value"),
    ];
    let asked = asked.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let before = story.replica.proposals();
    let by = (Tenant::OPERATOR, soon());
    let extended = story.locks.extend_all(&asked, 60_000, by).await.unwrap();
    assert_eq!(extended, [true, false, false, true]);
    let proposals = story.replica.proposals() - before;
    assert_eq!(proposals, 1);
    for name in ["a", "b"] {
        let holder = story.locks.holder(name, Tenant::OPERATOR, soon()).await;
        assert!(holder.unwrap().unwrap().left_ms > 59_000);
    }
}
