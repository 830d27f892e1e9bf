//! Holds and claims of the honest tenant that live long enough for the attackers to guess them.
//!
//! Each hold is verified every second and released by its holder. Each key is completed by its
//! caller, and must have that result afterwards.

use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use super::honest::{Operation, Tenant};

/// The number of locks, and of keys, that the attackers guess.
pub(super) const VICTIMS: usize = 6;

/// The number of checks during which each is held, and their interval.
const LOOKS: u64 = 5;
const EVERY: Duration = Duration::from_secs(1);

/// The TTL of a key in ms, after which its name is free again.
const TTL_MS: u64 = 12_000;

/// The beginning of every result of the honest tenant.
const OWN: &str = "honest.";

pub(super) fn lock_name(number: usize) -> String {
    format!("honest.victim.{number}")
}

pub(super) fn key_name(number: usize) -> String {
    format!("honest.key.{number}")
}

/// Holds one lock and one key, repeatedly until the end.
pub(super) async fn keep(tenant: Rc<Tenant>, number: usize, end: Instant) {
    let mut operation = tenant.operation(number, Instant::now());
    for round in 0.. {
        // A failed request is in the book already.
        if operation.live(number, round).await.is_none() {
            sleep(EVERY).await;
        }
        if Instant::now() >= end {
            break;
        }
    }
    tenant.under_way.set(tenant.under_way.get() - 1);
}

impl Operation<'_> {
    /// One hold and, if the name is free, one key.
    async fn live(&mut self, number: usize, round: u64) -> Option<()> {
        let (lock, key) = (lock_name(number), key_name(number));
        let lock = |what: &str| format!("/v1/locks/{lock}/{what}");
        let path = |what: &str| format!("/v1/idempotency/{key}/{what}");
        let nonce = format!("{OWN}{}.{number}.{round}", self.phase());
        let body = json!({"owner": "honest", "ttl_ms": 60_000, "nonce": nonce});
        let acquired = self.now().post(&lock("acquire"), &body).await?.json();
        let begin = json!({"ttl_ms": TTL_MS, "nonce": nonce});
        let begun = self.now().post(&path("begin"), &begin).await?.json();
        for _ in 0..LOOKS {
            sleep(EVERY).await;
            let body = json!({"owner": acquired["owner"], "token": acquired["token"]});
            self.now().post(&lock("verify"), &body).await?;
        }
        let done = if begun["state"] == "done" {
            begun
        } else {
            let body = json!({"claim": begun["claim"], "result": nonce});
            self.now().post(&path("complete"), &body).await?;
            self.now().post(&path("begin"), &begin).await?.json()
        };
        let result = &done["result"];
        if result
            .as_str()
            .is_none_or(|result| !result.starts_with(OWN))
        {
            self.violates(format!(
                "key {key} has the result {result} of another caller"
            ));
        }
        self.now()
            .post(&lock("release"), &json!({"lease": acquired["lease"]}))
            .await?;
        Some(())
    }
}
