//! Commands on keys. A key is a held lock or, if there is none of that name, a sequence.

use bytes::Bytes;
use seqd_api::{AdvanceRequest, ErrorCode, Problem, Sequence, Typed as _, op};
use tokio::time::Instant;

use super::connection::Client;
use super::errors::{not_an_integer, syntax};
use super::locks::extension;
use super::redisson_scripts::lock_of_record;
use super::reply::Reply;
use super::request::{number, text};
use crate::admission::{Admitted, ProtocolRequest};
use crate::services::{
    RequestError, SecretHold, SecretHolder, SequenceError, ServiceError, last_value, sequence_name,
};

/// The object that a key names.
pub(super) enum Kept {
    Lock(SecretHolder),
    Sequence(Box<Sequence>),
    Nothing,
}

const NOT_DELETED: &str = "a sequence is not deleted here, because its values would begin again: \
                           use `seqd seq delete`, which keeps its high-water mark";
const NO_EXPIRY: &str =
    "a counter does not expire: use a name for each period, as in order:2026-11-26";

impl Client {
    /// Looks up the object that a key names, by a linearizable read.
    async fn kept(&self, name: &str, admitted: &Admitted) -> Result<Kept, ServiceError> {
        let services = self.session.services();
        let (tenant, deadline) = (admitted.tenant, admitted.deadline);
        if let Some(holder) = services.locks.holder(name, tenant, deadline).await? {
            return Ok(Kept::Lock(holder));
        }
        self.sequence(name, deadline).await
    }

    /// A sequence as this node has applied it.
    async fn sequence(&self, name: &str, deadline: Instant) -> Result<Kept, ServiceError> {
        // A name that is invalid for a sequence may be that of a lock.
        let Ok(sequence) = sequence_name(name) else {
            return Ok(Kept::Nothing);
        };
        let sequences = &self.session.services().sequences;
        match sequences.get(&sequence, true, deadline).await {
            Ok(sequence) => Ok(Kept::Sequence(Box::new(sequence))),
            Err(ServiceError::Sequence(SequenceError::NotFound { .. })) => Ok(Kept::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Reads a key and replies with the result of `reply`.
    pub(super) async fn read(
        &self,
        command: &'static str,
        name: &Bytes,
        reply: impl FnOnce(Kept) -> Reply,
    ) -> Reply {
        let name = text(name);
        let work = async |admitted| self.kept(&name, &admitted).await;
        let request = self.session.request(command, op::GetLock::ROW, &name);
        match self.session.call(request, work).await {
            Ok(kept) => reply(kept),
            Err(problem) => self.failed(&problem),
        }
    }

    /// `GET`: the value of a lock, or the last value of a sequence.
    pub(super) async fn get(&self, name: &Bytes) -> Reply {
        let reply = |kept| match kept {
            Kept::Lock(holder) => match holder.owner {
                SecretHold::Own(owner) | SecretHold::Other(owner) => Reply::bulk(owner),
            },
            Kept::Sequence(sequence) => last_value(&sequence).map_or(Reply::Null, Reply::bulk),
            Kept::Nothing => Reply::Null,
        };
        self.read("get", name, reply).await
    }

    /// `TTL` and `PTTL`.
    pub(super) async fn remaining(&self, command: &'static str, name: &Bytes) -> Reply {
        let is_seconds = command == "ttl";
        let reply = |kept| match kept {
            Kept::Lock(SecretHolder { left_ms, .. }) if is_seconds => {
                Reply::number(left_ms.saturating_add(500) / 1000)
            }
            Kept::Lock(SecretHolder { left_ms, .. }) => Reply::number(left_ms),
            Kept::Sequence(_) => Reply::Integer(-1),
            Kept::Nothing => Reply::Integer(-2),
        };
        self.read(command, name, reply).await
    }

    /// `TYPE`.
    pub(super) async fn kind(&self, name: &Bytes) -> Reply {
        let reply = |kept| {
            Reply::Simple(match kept {
                Kept::Nothing => "none".into(),
                Kept::Lock(_) | Kept::Sequence(_) => "string".into(),
            })
        };
        self.read("type", name, reply).await
    }

    /// `EXISTS`: the number of keys that exist.
    pub(super) async fn exists(&self, names: &[Bytes]) -> Reply {
        let found = self.session.counted("exists", self.existing(names));
        match found.await {
            Ok(found) => Reply::Integer(found),
            Err(problem) => self.failed(&problem),
        }
    }

    /// One request, which counts once towards the rate of its token, regardless of its number of
    /// keys.
    async fn existing(&self, names: &[Bytes]) -> Result<i64, Problem> {
        let sender = self.session.let_in().await?;
        let mut found = 0;
        for name in names {
            let name = text(name);
            let work = async |admitted| self.kept(&name, &admitted).await;
            let request = self.session.request("exists", op::GetLock::ROW, &name);
            let kept = self.session.admitted(request, &sender, work);
            found += i64::from(!matches!(kept.await?, Kept::Nothing));
        }
        Ok(found)
    }

    /// `SEQD.TOKEN NAME VALUE`: the fencing token of the hold with this value.
    pub(super) async fn token(&self, arguments: &[Bytes]) -> Reply {
        let value = text(&arguments[1]);
        let reply = |kept| match kept {
            Kept::Lock(SecretHolder {
                owner: SecretHold::Own(secret),
                token,
                ..
            }) if secret == value => Reply::number(token.0),
            _ => Reply::Null,
        };
        self.read("seqd.token", &arguments[0], reply).await
    }

    /// The hold of a key that the caller may change without its value; `None` if there is none.
    /// `of_sequence` is the error message for a key that names a sequence.
    async fn own_hold(
        &self,
        name: &str,
        admitted: &Admitted,
        of_sequence: &'static str,
    ) -> Result<Option<SecretHolder>, Problem> {
        match self.kept(name, admitted).await? {
            Kept::Lock(holder) if matches!(holder.owner, SecretHold::Own(_)) => Ok(Some(holder)),
            Kept::Lock(_) => {
                let detail = format!(
                    "the lock {name} was acquired with another access token, or not over this \
                     protocol"
                );
                Err(Problem::new(ErrorCode::Forbidden, detail))
            }
            Kept::Sequence(_) => Err(Problem::new(ErrorCode::InvalidArgument, of_sequence)),
            Kept::Nothing => Ok(None),
        }
    }

    /// `DEL` and `UNLINK` of locks. If one of several keys cannot be deleted, none is.
    pub(super) async fn delete(&self, command: &'static str, names: &[Bytes]) -> Reply {
        let deleted = self.session.counted(command, self.deleted(command, names));
        match deleted.await {
            Ok(deleted) => Reply::number(deleted),
            Err(problem) => self.failed(&problem),
        }
    }

    /// Reads each key, then releases the locks in one proposal. The deadline of the first key
    /// applies to all.
    async fn deleted(&self, command: &'static str, names: &[Bytes]) -> Result<u64, Problem> {
        let sender = self.session.let_in().await?;
        let (mut holds, mut until) = (Vec::new(), None);
        for name in names {
            let (name, deadline) = (text(name), until);
            let work = async |mut admitted: Admitted| {
                admitted.deadline = deadline.unwrap_or(admitted.deadline);
                let hold = self.own_hold(&name, &admitted, NOT_DELETED).await?;
                Ok::<_, Problem>((hold.map(|hold| hold.token), admitted.deadline))
            };
            let request = self.release_of(command, &name);
            let looked = self.session.admitted(request, &sender, work);
            let (token, deadline) = looked.await?;
            until = Some(deadline);
            holds.extend(token.map(|token| (name, token)));
        }
        let Some((first, _)) = holds.first() else {
            return Ok(0);
        };
        let locks = &self.session.services().locks;
        let release = async |admitted: Admitted| {
            let deadline = until.unwrap_or(admitted.deadline);
            locks.release_all(&holds, deadline).await
        };
        let request = self.release_of(command, first);
        self.session.admitted(request, &sender, release).await
    }

    fn release_of<'a>(&self, command: &'static str, name: &'a str) -> ProtocolRequest<'a> {
        let lock = lock_of_record(name).unwrap_or(name);
        self.session.request(command, op::ReleaseLock::ROW, lock)
    }

    /// `EXPIRE` and `PEXPIRE` of a lock, with `GT` or without an option: a hold is never shortened.
    pub(super) async fn expire(&self, command: &'static str, arguments: &[Bytes]) -> Reply {
        let Some(time) = number(&arguments[1]) else {
            return not_an_integer();
        };
        let only_more = match &arguments[2..] {
            [] => false,
            [option] if option.eq_ignore_ascii_case(b"gt") => true,
            [option]
                if [b"nx", b"xx", b"lt"]
                    .iter()
                    .any(|it| option.eq_ignore_ascii_case(*it)) =>
            {
                return Reply::error("ERR a hold can only be extended: the only option is GT");
            }
            _ => return syntax(),
        };
        let unit = if command == "expire" { 1000 } else { 1 };
        let ttl_ms = u64::try_from(time).unwrap_or(0).saturating_mul(unit);
        let name = text(&arguments[0]);
        let lock = lock_of_record(&name).unwrap_or(&name);
        let request = self.session.request(command, op::RenewLock::ROW, lock);
        let locks = &self.session.services().locks;
        let work = async |admitted: Admitted| {
            let hold = self.own_hold(&name, &admitted, NO_EXPIRY).await?;
            let Some(hold) = hold.filter(|hold| !only_more || ttl_ms > hold.left_ms) else {
                return Ok(false);
            };
            let change = extension(ttl_ms)?;
            let changed = locks.change_hold(&name, hold.token, change, admitted.deadline);
            Ok::<_, Problem>(changed.await?)
        };
        match self.session.call(request, work).await {
            Ok(is_extended) => Reply::Integer(i64::from(is_extended)),
            Err(problem) => self.failed(&problem),
        }
    }

    /// `SET NAME INTEGER`: moves a sequence forward, so that the next value follows this one. A
    /// missing sequence is created, as by `INCR` and with the same scope.
    pub(super) async fn set_counter(&self, name: &Bytes, value: i64) -> Reply {
        let name = text(name);
        let moved = self.session.counted("set", self.moved(&name, value));
        match moved.await {
            Ok(()) => Reply::OK,
            Err(problem) => self.failed(&problem),
        }
    }

    async fn moved(&self, name: &str, value: i64) -> Result<(), Problem> {
        let sender = self.session.let_in().await?;
        let request = |operation| self.session.request("set", operation, name);
        let create = async |admitted| self.set_new(name, value, &admitted).await;
        let to_create = request(op::NextValues::ROW);
        let created = self.session.admitted(to_create, &sender, create);
        if created.await? {
            return Ok(());
        }
        let advance = async |admitted| self.advance(name, value, &admitted).await;
        let request = request(op::AdvanceSequence::ROW);
        self.session.admitted(request, &sender, advance).await
    }

    /// Creates a sequence that continues after this value. Returns `false` if it existed, or was
    /// deleted and continues elsewhere.
    async fn set_new(
        &self,
        name: &str,
        value: i64,
        admitted: &Admitted,
    ) -> Result<bool, ServiceError> {
        let services = self.session.services();
        let sequence = sequence_name(name)?;
        if services.sequences.is_known(&sequence) {
            return Ok(false);
        }
        let found = services.sequences.get(&sequence, false, admitted.deadline);
        match found.await {
            Err(error)
                if error.code() == ErrorCode::NotFound
                    && services.config.redis.create.is_some() =>
            {
                let start = value.checked_add(1).ok_or_else(|| no_next(name, value))?;
                let created = self.create(&sequence, Some(start), admitted).await?;
                // The first revision has the first value of this request.
                Ok(created.is_some_and(|it| it.revision == 1 || it.next == Some(start)))
            }
            found => found.map(|_| false),
        }
    }

    async fn advance(&self, name: &str, value: i64, admitted: &Admitted) -> Result<(), Problem> {
        let sequences = &self.session.services().sequences;
        let sequence = sequence_name(name)?;
        // Another node may have created the sequence a moment ago.
        let definition = sequences.get(&sequence, false, admitted.deadline).await?;
        let to = value.checked_add(definition.increment.signum());
        let request = AdvanceRequest {
            to: to.ok_or_else(|| no_next(name, value))?,
        };
        let advanced = sequences.advance(&sequence, &request, admitted.deadline);
        match advanced.await?.unconfirmed.join(", ") {
            names if names.is_empty() => Ok(()),
            names => {
                let detail = format!(
                    "{name} is moved forward in the cluster, but {names} did not confirm it: until \
                     it does or is removed, it may return values from before, and SET gets this error"
                );
                Err(Problem::new(ErrorCode::OutcomeUnknown, detail))
            }
        }
    }
}

fn no_next(name: &str, value: i64) -> ServiceError {
    RequestError::Invalid(format!("{name} would have no value after {value}")).into()
}
