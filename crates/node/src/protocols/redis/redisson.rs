//! Redisson's reentrant locks.
//!
//! Redisson stores a lock as a hash that maps the holder to its number of entries, and publishes a
//! message on the lock's channel when the lock becomes free.

use std::time::Duration;

use bytes::Bytes;
use seqd_api::{ErrorCode, Problem, Typed as _, op};
use tokio::time::{Instant, sleep};

use super::connection::Client;
use super::keys::Kept;
use super::locks::lifetime;
use super::redisson_scripts::{
    ExitForm, MOST_NAME, RECORD, Reentrant, has_own_channel, lock_of_record,
};
use super::reply::Reply;
use super::request::text;
use super::scripting::{time_of, value_at};
use crate::admission::Admitted;
use crate::services::{Entry, Exit, Found, HoldChange, RequestError, ServiceError, Unlock};

fn wrong_type() -> Reply {
    Reply::error("WRONGTYPE Operation against a key holding the wrong kind of value")
}

impl Client {
    /// `HGET NAME VALUE`: the number of times that the holder with this value has entered the lock.
    pub(super) async fn depth(&self, arguments: &[Bytes]) -> Reply {
        let reply = |depth: usize| match depth {
            0 => Reply::Null,
            depth => Reply::bulk(depth),
        };
        self.entries("hget", arguments, reply).await
    }

    /// `HEXISTS NAME VALUE`: whether the holder with this value has entered the lock.
    pub(super) async fn is_inside(&self, arguments: &[Bytes]) -> Reply {
        let reply = |depth: usize| Reply::Integer(i64::from(depth > 0));
        self.entries("hexists", arguments, reply).await
    }

    async fn entries(
        &self,
        command: &'static str,
        arguments: &[Bytes],
        reply: impl FnOnce(usize) -> Reply,
    ) -> Reply {
        let value = text(&arguments[1]);
        let of_kept = |kept| match kept {
            Kept::Lock(holder) if holder.has(&value) => reply(holder.depth),
            Kept::Lock(_) | Kept::Nothing => reply(0),
            Kept::Sequence(_) => wrong_type(),
        };
        self.read(command, &arguments[0], of_kept).await
    }

    /// Executes a script of Redisson.
    pub(super) async fn run_redisson(
        &self,
        command: &'static str,
        meaning: Reentrant,
        (keys, arguments): (&[Bytes], &[Bytes]),
    ) -> Reply {
        if meaning == Reentrant::KeepAll {
            let kept = self.keep_all(command, (keys, arguments));
            let kept = self.session.counted(command, kept).await;
            return kept.map_or_else(|problem| self.failed(&problem), Reply::Array);
        }
        let Some(key) = keys.first() else {
            return Reply::error("ERR the first key of a lock script is the lock");
        };
        if meaning == Reentrant::Break {
            return self.delete(command, &keys[..1]).await;
        }
        let operation = match meaning {
            Reentrant::Enter => op::AcquireLock::ROW,
            Reentrant::Exit(_) => op::ReleaseLock::ROW,
            Reentrant::Keep => op::RenewLock::ROW,
            _ => op::GetLock::ROW,
        };
        let name = text(key);
        let request = self.session.request(command, operation, &name);
        let work = async |admitted: Admitted| match meaning {
            Reentrant::Enter => self.enter(&name, arguments, &admitted).await,
            Reentrant::Exit(form) => self.exit(&name, form, (keys, arguments), &admitted).await,
            Reentrant::Keep => self.keep(&name, arguments, &admitted).await,
            _ => Ok(Reply::Null),
        };
        let done = self.session.call(request, work).await;
        done.unwrap_or_else(|problem| self.failed(&problem))
    }

    /// Extends several holds. A failure for one hold does not prevent the extension of the others.
    async fn keep_all(
        &self,
        command: &'static str,
        (keys, arguments): (&[Bytes], &[Bytes]),
    ) -> Result<Vec<Reply>, Problem> {
        let sender = self.session.let_in().await?;
        let (mut locks, mut failed) = (Vec::new(), None);
        let mut replies = vec![Reply::Integer(0); keys.len()];
        for (at, (key, reply)) in (2..).zip(keys.iter().zip(&mut replies)) {
            let name = text(key);
            let work = async |_| value_at(arguments, at);
            let request = self.session.request(command, op::RenewLock::ROW, &name);
            match self.session.admitted(request, &sender, work).await {
                Ok(_) if self.is_sequence(&name) => *reply = wrong_type(),
                Ok(value) => locks.push((reply, (name, value))),
                Err(problem) => failed = failed.or(Some(problem)),
            }
        }
        let (places, locks): (Vec<_>, Vec<_>) = locks.into_iter().unzip();
        if let Some((first, _)) = locks.first() {
            let work = async |admitted| self.extended(&locks, arguments, &admitted).await;
            let request = self.session.request(command, op::RenewLock::ROW, first);
            match self.session.admitted(request, &sender, work).await {
                Ok(extended) => {
                    for (place, is_extended) in places.into_iter().zip(extended) {
                        *place = Reply::Integer(i64::from(is_extended));
                    }
                }
                Err(problem) => failed = failed.or(Some(problem)),
            }
        }
        failed.map_or(Ok(replies), Err)
    }

    async fn extended(
        &self,
        locks: &[(String, String)],
        arguments: &[Bytes],
        admitted: &Admitted,
    ) -> Result<Vec<bool>, ServiceError> {
        let ttl_ms = lifetime(time_of(arguments, 1)?)?;
        let by = (admitted.tenant, admitted.deadline);
        let service = &self.session.services().locks;
        loop {
            let extended = service.extend_all(locks, ttl_ms, by).await;
            if !is_repeated(extended.as_ref().err(), admitted.deadline).await {
                return extended;
            }
        }
    }

    async fn enter(
        &self,
        name: &str,
        arguments: &[Bytes],
        admitted: &Admitted,
    ) -> Result<Reply, ServiceError> {
        let lock = (&*value_at(arguments, 2)?, lifetime(time_of(arguments, 1)?)?);
        if name.len() > MOST_NAME || !has_own_channel(name) {
            let detail = format!(
                "the name of a lock of Redisson has at most {MOST_NAME} characters, and is not \
                 enclosed in braces"
            );
            return Err(RequestError::Invalid(detail).into());
        }
        if self.is_sequence(name) {
            return Ok(wrong_type());
        }
        let by = (&admitted.right, admitted.tenant);
        let locks = &self.session.services().locks;
        match locks.enter(name, lock, by, admitted.deadline).await? {
            Entry::Entered => Ok(Reply::Null),
            Entry::Held { left_ms } => Ok(Reply::number(left_ms)),
        }
    }

    async fn exit(
        &self,
        name: &str,
        form: ExitForm,
        (keys, arguments): (&[Bytes], &[Bytes]),
        admitted: &Admitted,
    ) -> Result<Reply, ServiceError> {
        let value = value_at(arguments, form.value)?;
        if self.is_sequence(name) {
            return Ok(wrong_type());
        }
        let key = keys.last().map(text).unwrap_or_default();
        let record = match form.record {
            None => None,
            Some(_) if lock_of_record(&key) != Some(name) => {
                let detail =
                    format!("the last key of this script is {RECORD}{{{name}}}: and a number");
                return Err(RequestError::Invalid(detail).into());
            }
            Some(at) => Some((&*key, lifetime(time_of(arguments, at)?)?)),
        };
        let unlock = Unlock {
            value: &value,
            ttl_ms: lifetime(time_of(arguments, form.ttl)?)?,
            record,
        };
        let by = (&admitted.right, admitted.tenant);
        let locks = &self.session.services().locks;
        let exited = loop {
            let exited = locks.exit(name, &unlock, by, admitted.deadline).await;
            let error = exited.as_ref().err().filter(|_| unlock.record.is_some());
            if !is_repeated(error, admitted.deadline).await {
                break exited?;
            }
        };
        Ok(match exited {
            Exit::Inside => Reply::Integer(0),
            Exit::Free => Reply::Integer(1),
            Exit::NotHeld => Reply::Null,
        })
    }

    async fn keep(
        &self,
        name: &str,
        arguments: &[Bytes],
        admitted: &Admitted,
    ) -> Result<Reply, ServiceError> {
        let change = HoldChange::Extend {
            ttl_ms: lifetime(time_of(arguments, 1)?)?,
        };
        let value = value_at(arguments, 2)?;
        if self.is_sequence(name) {
            return Ok(wrong_type());
        }
        let by = (admitted.tenant, admitted.deadline);
        let locks = &self.session.services().locks;
        let found = loop {
            let found = locks.change_secret(name, (&value, change), by).await;
            if !is_repeated(found.as_ref().err(), admitted.deadline).await {
                break found?;
            }
        };
        Ok(Reply::Integer(i64::from(matches!(found, Found::Own(_)))))
    }
}

/// The pause before a retry.
const AGAIN: Duration = Duration::from_millis(50);

/// Returns whether an idempotent operation is retried, after a pause: its outcome is unknown, and
/// its deadline has not passed. Redisson treats every error of a renewal as the end of the hold.
async fn is_repeated(error: Option<&ServiceError>, deadline: Instant) -> bool {
    let is_unknown = error.is_some_and(|error| error.code() == ErrorCode::OutcomeUnknown);
    let is_repeated = is_unknown && Instant::now() + AGAIN < deadline;
    if is_repeated {
        sleep(AGAIN).await;
    }
    is_repeated
}
