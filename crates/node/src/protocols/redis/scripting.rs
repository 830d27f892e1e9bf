//! `EVAL`, `EVALSHA` and `SCRIPT`: the scripts of lock libraries.

use bytes::Bytes;
use seqd_api::{Operation, Typed as _, op};
use sha1::{Digest, Sha1};

use super::connection::Client;
use super::errors::{not_an_integer, shown, wrong_arguments};
use super::locks::{extension, value_of};
use super::reply::Reply;
use super::request::{number, text};
use super::scripts::{Action, Answer, Form, Script, hex, recognise};
use crate::admission::Admitted;
use crate::services::{Found, HoldChange, RequestError, ServiceError};

/// The result of an action.
enum Done {
    /// Done, with the remaining time if the script returns it.
    Own(u64),
    Other,
    Free,
}

impl Client {
    pub(super) async fn eval(&self, arguments: &[Bytes]) -> Reply {
        let script = text(&arguments[0]);
        match recognise(&script) {
            Some(meaning) => {
                self.scripts.add(&script, meaning);
                self.run_script("eval", meaning, &arguments[1..]).await
            }
            None => self.local("eval", || self.unknown_script(&script)).await,
        }
    }

    pub(super) async fn eval_sha(&self, arguments: &[Bytes]) -> Reply {
        match self.scripts.get(&text(&arguments[0])) {
            Some(script) => self.run_script("evalsha", script, &arguments[1..]).await,
            None => {
                let text = "NOSCRIPT No matching script. Please use EVAL.";
                self.local("evalsha", || Reply::error(text)).await
            }
        }
    }

    /// `SCRIPT LOAD` and `SCRIPT EXISTS`.
    pub(super) async fn script(&self, arguments: &[Bytes]) -> Reply {
        self.local("script", || self.known_scripts(arguments)).await
    }

    fn known_scripts(&self, arguments: &[Bytes]) -> Reply {
        let is = |name: &[u8]| arguments[0].eq_ignore_ascii_case(name);
        match &arguments[1..] {
            [script] if is(b"load") => {
                let script = text(script);
                match recognise(&script) {
                    Some(meaning) => Reply::bulk(self.scripts.add(&script, meaning)),
                    None => self.unknown_script(&script),
                }
            }
            [_, ..] if is(b"exists") => {
                let names = arguments[1..].iter();
                let is_known = |name| i64::from(self.scripts.get(&text(name)).is_some());
                Reply::Array(names.map(|name| Reply::Integer(is_known(name))).collect())
            }
            _ if is(b"load") || is(b"exists") => wrong_arguments("script"),
            _ => Reply::error("ERR unknown subcommand of SCRIPT: LOAD and EXISTS are known"),
        }
    }

    fn unknown_script(&self, script: &str) -> Reply {
        self.session.count_unknown_script();
        let sha1 = hex(&Sha1::digest(script));
        let begin = shown(script.trim().as_bytes());
        Reply::error(format!(
            "ERR unknown script {sha1}: only scripts of known lock libraries are supported \
                 (it begins with: {begin})"
        ))
    }

    /// Executes a script. The arguments are the number of keys, the keys, and the rest.
    async fn run_script(
        &self,
        command: &'static str,
        script: Script,
        arguments: &[Bytes],
    ) -> Reply {
        let count = match number(&arguments[0]) {
            Some(count) if count < 0 => {
                return Reply::error("ERR Number of keys can't be negative");
            }
            Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
            None => return not_an_integer(),
        };
        let rest = &arguments[1..];
        if count > rest.len() {
            return Reply::error("ERR Number of keys can't be greater than number of args");
        }
        let (keys, arguments) = rest.split_at(count);
        match (script, keys) {
            (Script::Redisson(meaning), _) => {
                self.run_redisson(command, meaning, (keys, arguments)).await
            }
            (Script::Form(form), [key]) => self.run_form(command, form, (key, arguments)).await,
            (Script::Form(_), _) => {
                let text = format!("ERR a lock script has one key here, not {count}");
                Reply::error(text)
            }
        }
    }

    async fn run_form(
        &self,
        command: &'static str,
        form: Form,
        (key, arguments): (&Bytes, &[Bytes]),
    ) -> Reply {
        let name = text(key);
        let operation = operation_of(form.action);
        let request = self.session.request(command, operation, &name);
        let work = async |admitted| self.act(form.action, (&name, arguments), &admitted).await;
        let answer = match self.session.call(request, work).await {
            Ok(Done::Own(left_ms)) => (form.done, left_ms),
            Ok(Done::Other) => (form.other, 0),
            Ok(Done::Free) => (form.free, 0),
            Err(problem) => return self.failed(&problem),
        };
        match answer {
            (Answer::Integer(number), _) => Reply::Integer(number),
            (Answer::Ok, _) => Reply::OK,
            (Answer::Null, _) => Reply::Null,
            (Answer::Time, left_ms) => Reply::number(left_ms),
        }
    }

    async fn act(
        &self,
        action: Action,
        (name, arguments): (&str, &[Bytes]),
        admitted: &Admitted,
    ) -> Result<Done, ServiceError> {
        let locks = &self.session.services().locks;
        let by = (admitted.tenant, admitted.deadline);
        let time = |at: usize| time_of(arguments, at);
        let value = value_at(arguments, 1)?;
        let change = match action {
            Action::Release => HoldChange::Release,
            Action::Extend => extension(time(2)?)?,
            Action::ExtendBy => {
                let found = locks.find_secret(name, &value, by).await?;
                let Found::Own(holder) = found else {
                    return Ok(Done::of(found));
                };
                let is_more = arguments.get(2).is_some_and(|flag| &flag[..] == b"0");
                let base_ms = if is_more { holder.left_ms } else { 0 };
                extension(time(2)?.saturating_add(base_ms))?
            }
            Action::Remaining => {
                let found = locks.find_secret(name, &value, by).await?;
                return Ok(Done::of(found));
            }
            Action::Create => {
                return self
                    .obtained(name, (&arguments[0], time(2)?), admitted)
                    .await;
            }
            Action::Obtain { ttl } => {
                let ttl_ms = time(ttl)?;
                let change = extension(ttl_ms)?;
                return match locks.change_secret(name, (&value, change), by).await? {
                    Found::Free => self.obtained(name, (&arguments[0], ttl_ms), admitted).await,
                    found => Ok(Done::of(found)),
                };
            }
        };
        let found = locks.change_secret(name, (&value, change), by).await?;
        Ok(Done::of(found))
    }

    async fn obtained(
        &self,
        name: &str,
        lock: (&Bytes, u64),
        admitted: &Admitted,
    ) -> Result<Done, ServiceError> {
        let is_held = self.acquire(name, lock, admitted).await?;
        Ok(if is_held { Done::Own(0) } else { Done::Other })
    }
}

impl Done {
    fn of(found: Found) -> Done {
        match found {
            Found::Own(holder) => Done::Own(holder.left_ms),
            Found::Other => Done::Other,
            Found::Free => Done::Free,
        }
    }
}

fn operation_of(action: Action) -> &'static Operation {
    match action {
        Action::Release => op::ReleaseLock::ROW,
        Action::Extend | Action::ExtendBy => op::RenewLock::ROW,
        Action::Obtain { .. } | Action::Create => op::AcquireLock::ROW,
        Action::Remaining => op::GetLock::ROW,
    }
}

fn too_few() -> ServiceError {
    RequestError::Invalid("the script has too few arguments".to_owned()).into()
}

/// The argument at this position, counted from 1, as the value of a lock.
pub(super) fn value_at(arguments: &[Bytes], at: usize) -> Result<String, ServiceError> {
    value_of(arguments.get(at - 1).ok_or_else(too_few)?)
}

/// The argument at this position, counted from 1, as a time.
pub(super) fn time_of(arguments: &[Bytes], at: usize) -> Result<u64, ServiceError> {
    let argument = arguments.get(at - 1).ok_or_else(too_few)?;
    let time = number(argument).and_then(|time| u64::try_from(time).ok());
    time.ok_or_else(|| {
        let detail = format!("the argument {at} of the script is a time in whole numbers");
        RequestError::Invalid(detail).into()
    })
}
