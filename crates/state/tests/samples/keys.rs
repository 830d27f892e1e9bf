//! One of each command, refusal and outcome of idempotency keys and one-time tokens.

use seqd_state::{
    BeginKey, ClusterMs, Command, KeyClaim, KeyCommand, KeyName, KeyOutcome, KeyRefusal, KeySpace,
    OneTimeId, OneTimeOutcome, OneTimeRefusal, Outcome, Refusal,
};

use crate::support::commands::*;

fn of_a_request() -> KeyName {
    KeyName {
        space: KeySpace::Requests { access: 7 },
        key: "order 42".to_owned(),
    }
}

pub(crate) fn commands() -> Vec<Command> {
    vec![
        begin("pay-42", "sha:5f", "n1"),
        complete(user_key("pay-42"), KeyClaim(9), "{\"paid\":true}"),
        abandon(user_key("pay-42"), KeyClaim(9)),
        KeyCommand::Begin(BeginKey {
            tenant: seqd_state::Tenant::OPERATOR,
            name: of_a_request(),
            ttl_ms: 86_400_000,
            claim_ttl_ms: 60_000,
            fingerprint: String::new(),
            nonce: String::new(),
        })
        .into(),
        issue([5, 6], 60_000),
        consume(5, 5, "n1"),
        remove_keys([of_a_request(), user_key("pay-42")]),
        remove_tokens([5, 6]),
    ]
}

pub(crate) fn outcomes() -> Vec<Outcome> {
    let (now, until) = (ClusterMs(1_000), ClusterMs(61_000));
    let claim_until = ClusterMs(11_000);
    vec![
        Outcome::Keys(KeyOutcome::First {
            claim: KeyClaim(9),
            attempt: 2,
            claim_until,
            until,
            now,
        }),
        Outcome::Keys(KeyOutcome::InProgress {
            attempt: 2,
            claim_until,
            now,
        }),
        Outcome::Keys(KeyOutcome::Done { attempt: 2 }),
        Outcome::Keys(KeyOutcome::Mismatch),
        Outcome::Keys(KeyOutcome::Completed),
        Outcome::Keys(KeyOutcome::Abandoned { attempt: 2 }),
        Outcome::Keys(KeyOutcome::Removed { count: 2 }),
        Outcome::OneTime(OneTimeOutcome::Issued { until }),
        Outcome::OneTime(OneTimeOutcome::First),
        Outcome::OneTime(OneTimeOutcome::Used),
        Outcome::OneTime(OneTimeOutcome::Unknown),
        Outcome::OneTime(OneTimeOutcome::Removed { count: 2 }),
    ]
}

pub(crate) fn refusals() -> Vec<Refusal> {
    let name = of_a_request();
    let keys = [
        KeyRefusal::ClaimLost { name },
        KeyRefusal::TooManyKeys,
        KeyRefusal::TooManyBytes,
        KeyRefusal::InvalidKey,
        KeyRefusal::InvalidTtl { ttl_ms: 1 },
        KeyRefusal::InvalidClaimTtl { ttl_ms: 1 },
        KeyRefusal::InvalidText,
        KeyRefusal::InvalidResult { limit: 16_384 },
        KeyRefusal::InvalidCount { count: 0 },
    ];
    let one_time = [
        OneTimeRefusal::Exists { id: OneTimeId(5) },
        OneTimeRefusal::TooMany,
        OneTimeRefusal::InvalidCount { count: 0 },
        OneTimeRefusal::InvalidTtl { ttl_ms: 1 },
        OneTimeRefusal::InvalidNonce,
    ];
    let keys = keys.into_iter().map(Refusal::from);
    keys.chain(one_time.into_iter().map(Refusal::from))
        .collect()
}
