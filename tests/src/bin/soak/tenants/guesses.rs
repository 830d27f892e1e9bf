//! Guesses at the honest tenant's objects: at its holds, from their public fields, and at its
//! claims, from the attacker's own claims. None may succeed.

use serde_json::json;

use super::attacks::Attacker;
use super::victims::{VICTIMS, key_name, lock_name};

/// The number of claims on either side of the attacker's own claim that are tried.
const NEAR: u64 = 8;

/// One round of guesses. `name` is a key of the attacker.
pub(super) async fn guess(attacker: &mut Attacker, name: &str) -> Option<()> {
    let victim = attacker.random.below(VICTIMS as u64) as usize;
    guess_hold(attacker, victim).await?;
    guess_claim(attacker, victim, name).await
}

async fn guess_hold(attacker: &mut Attacker, victim: usize) -> Option<()> {
    let lock = lock_name(victim);
    let path = format!("/v1/locks/{lock}");
    let seen = attacker.ask(("GET", &path, ""), "").await?.json();
    let holder = &seen["holders"][0];
    if holder.is_null() {
        return Some(());
    }
    let (owner, token) = (&holder["owner"], &holder["token"]);
    for (what, body) in [
        (
            "renew",
            json!({"owner": owner, "token": token, "ttl_ms": 60_000}),
        ),
        ("renew", json!({"lease": token, "ttl_ms": 60_000})),
        ("release", json!({"lease": token})),
        ("release", json!({"owner": owner, "token": token})),
    ] {
        let answer = attacker.post(&format!("{path}/{what}"), &body).await?;
        if answer.is_ok() {
            attacker.forges(format!("{what} of lock {lock} with {body}"));
        }
    }
    Some(())
}

async fn guess_claim(attacker: &mut Attacker, victim: usize, name: &str) -> Option<()> {
    let begin = format!("/v1/idempotency/{name}/begin");
    let body = json!({"ttl_ms": 1000});
    let own = attacker.post(&begin, &body).await?.json()["claim"].clone();
    let Some(own) = own.as_str() else {
        return Some(());
    };
    let mut claims = vec![own.to_owned()];
    if let Ok(number) = own.parse::<u64>() {
        let below = number.saturating_sub(NEAR)..number;
        let near = below.chain(number + 1..=number + NEAR);
        claims.extend(near.map(|claim| claim.to_string()));
    }
    let key = key_name(victim);
    for claim in claims {
        for (what, body) in [
            ("complete", json!({"claim": claim, "result": "forged"})),
            ("abandon", json!({"claim": claim})),
        ] {
            let path = format!("/v1/idempotency/{key}/{what}");
            let answer = attacker.post(&path, &body).await?;
            if answer.is_ok() {
                attacker.forges(format!("{what} of key {key} with {body}"));
            }
        }
    }
    Some(())
}
