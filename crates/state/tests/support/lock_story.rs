//! The lines of stories that concern locks: `lock NAME owner=A nonce=1 ttl=1000`, with `wait=MS`,
//! `token=T`, `permits=N`, `shared=1`, `delay=MS` and `attempt=N` where they apply; `renew-lock`,
//! `unlock` and `withdraw-lock`; and `show-lock NAME`, which is not an entry.

use seqd_state::{
    AcquireLock, Attempt, FencingToken, LockCommand, LockName, LockOutcome, Nonce, State,
};

use super::story::Words;

fn named(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

pub(crate) fn command(words: &Words<'_>) -> Option<LockCommand> {
    let token = || FencingToken(words.u64("token").unwrap());
    let (owner, ttl_ms) = (words.text("owner"), words.u64("ttl").unwrap_or(1_000));
    let nonce = || Nonce(words.u64("nonce").unwrap_or(0).into());
    let attempt = Attempt(words.u64("attempt").unwrap_or(1));
    let command = match words.plain.as_slice() {
        ["lock", name] => LockCommand::Acquire(AcquireLock {
            tenant: seqd_state::Tenant::OPERATOR,
            name: named(name),
            owner,
            nonce: nonce(),
            attempt,
            ttl_ms,
            wait_ms: words.u64("wait").unwrap_or(0),
            permits: words.u64("permits").unwrap_or(1) as u32,
            shared: words.u64("shared").is_some(),
            lock_delay_ms: words.u64("delay").unwrap_or(0),
        }),
        ["renew-lock", name] => LockCommand::Renew {
            name: named(name),
            token: token(),
            ttl_ms,
        },
        ["unlock", name] => LockCommand::Release {
            name: named(name),
            token: token(),
        },
        ["break-lock", name] => LockCommand::Break {
            name: named(name),
            token: words.u64("token").map(FencingToken),
        },
        ["withdraw-lock", name] => LockCommand::Withdraw {
            name: named(name),
            nonce: nonce(),
            attempt,
        },
        _ => return None,
    };
    Some(command)
}

pub(crate) fn describe(outcome: &LockOutcome) -> String {
    match outcome {
        LockOutcome::Held { token, until } => format!("held with token {token} until {until}"),
        LockOutcome::Waiting { ahead, until } => {
            format!("waiting behind {ahead} until {until}")
        }
        LockOutcome::Renewed { until, .. } => format!("renewed until {until}"),
        LockOutcome::Released => "released".to_owned(),
        LockOutcome::Broken { ended, .. } => format!("{ended} holds were broken"),
        LockOutcome::Withdrawn { ended: true } => "withdrawn".to_owned(),
        LockOutcome::Withdrawn { ended: false } => "nothing was withdrawn".to_owned(),
    }
}

pub(crate) fn show(state: &State, name: &str) -> String {
    let Some(lock) = state.lock(name) else {
        return format!("> the lock {name} is free\n");
    };
    let holders = lock.holders().map(|holder| {
        let how = if holder.shared { ", shared" } else { "" };
        let (owner, token, until) = (holder.shown_owner(), holder.token, holder.until);
        format!("{owner} with token {token} until {until}{how}")
    });
    let holders: Vec<_> = holders.collect();
    let waiters: Vec<_> = lock.waiters().map(|waiter| waiter.shown_owner()).collect();
    let delay = lock.delayed_until();
    let delay = delay.map_or(String::new(), |until| format!("; nobody until {until}"));
    let or_nobody = |names: String| {
        if names.is_empty() {
            "nobody".to_owned()
        } else {
            names
        }
    };
    format!(
        "> held by {}; {} waits{delay}\n",
        or_nobody(holders.join(" and ")),
        or_nobody(waiters.join(", then ")),
    )
}
