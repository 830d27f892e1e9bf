//! The commands of stories that concern idempotency keys and one-time tokens.
//!
//! - `begin KEY ttl=MS claim-ttl=MS for=FINGERPRINT nonce=TEXT access=ID`; a user's key, unless
//!   `access` is given
//! - `complete KEY claim=N result=TEXT`, `abandon KEY claim=N`, `remove-keys KEY...`, `show-key
//!   KEY`
//! - `issue ID... ttl=MS`, `consume ID secret=ID nonce=TEXT`, `remove-tokens ID...`; a token's
//!   secret is its number

use seqd_state::{
    BeginKey, Command, KeyClaim, KeyCommand, KeyName, KeyOutcome, KeySpace, OneTimeOutcome, State,
};

use super::{Words, number};
use crate::support::commands::*;

fn key_of(key: &str, words: &Words<'_>) -> KeyName {
    let mut name = user_key(key);
    if let Some(access) = words.u64("access") {
        name.space = KeySpace::Requests { access };
    }
    name
}

pub(super) fn command(words: &Words<'_>) -> Command {
    let claim = || KeyClaim(words.u64("claim").unwrap());
    match words.plain.as_slice() {
        ["begin", key] => Command::Keys(KeyCommand::Begin(BeginKey {
            tenant: seqd_state::Tenant::OPERATOR,
            name: key_of(key, words),
            ttl_ms: words.u64("ttl").unwrap_or(60_000),
            claim_ttl_ms: words.u64("claim-ttl").unwrap_or(10_000),
            fingerprint: words.text("for"),
            nonce: words.text("nonce"),
        })),
        ["complete", key] => complete(key_of(key, words), claim(), &words.text("result")),
        ["abandon", key] => abandon(key_of(key, words), claim()),
        ["remove-keys", keys @ ..] => {
            let keys = keys.iter().map(|key| key_of(key, words));
            remove_keys(keys.collect::<Vec<_>>())
        }
        ["remove-tokens", ids @ ..] => remove_tokens(ids.iter().map(|id| number(id))),
        ["issue", ids @ ..] => issue(
            ids.iter().map(|id| number(id)),
            words.u64("ttl").unwrap_or(60_000),
        ),
        ["consume", id] => {
            let id = number(id);
            consume(id, words.u64("secret").unwrap_or(id), &words.text("nonce"))
        }
        other => panic!("no command {other:?}"),
    }
}

pub(super) fn describe(outcome: &KeyOutcome) -> String {
    match outcome {
        KeyOutcome::First {
            claim,
            attempt,
            claim_until,
            until,
            ..
        } => format!(
            "first, attempt {attempt}, claim {claim} until {claim_until}, the key until {until}"
        ),
        KeyOutcome::InProgress {
            attempt,
            claim_until,
            ..
        } => format!("in progress, attempt {attempt} until {claim_until}"),
        KeyOutcome::Done { attempt } => format!("done in attempt {attempt}"),
        KeyOutcome::Mismatch => "another thing is done under this key".to_owned(),
        KeyOutcome::Completed => "completed".to_owned(),
        KeyOutcome::Abandoned { attempt } => format!("attempt {attempt} is abandoned"),
        KeyOutcome::Removed { count } => format!("{count} removed"),
    }
}

pub(super) fn describe_token(outcome: &OneTimeOutcome) -> String {
    match outcome {
        OneTimeOutcome::Issued { until } => format!("issued until {until}"),
        OneTimeOutcome::First => "consumed".to_owned(),
        OneTimeOutcome::Used => "another request consumed it".to_owned(),
        OneTimeOutcome::Unknown => "unknown".to_owned(),
        OneTimeOutcome::Removed { count } => format!("{count} removed"),
    }
}

pub(super) fn show(state: &State, key: &str) -> String {
    let Some(record) = state.key(&user_key(key)) else {
        return format!("> no key {key}\n");
    };
    let result = record.result.as_ref().map_or("none".to_owned(), |result| {
        String::from_utf8(result.0.to_vec()).unwrap()
    });
    let (attempt, until) = (record.attempt, record.until);
    format!("> attempt {attempt}, until {until}, result {result}\n")
}
