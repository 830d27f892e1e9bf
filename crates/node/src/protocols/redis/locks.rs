//! Locks: `SET NAME VALUE NX PX TIME`.

use bytes::Bytes;
use seqd_api::{Typed as _, op};
use seqd_state::{MAX_LOCK_TTL_MS, MIN_LOCK_TTL_MS};

use super::connection::Client;
use super::errors::{not_an_integer, syntax};
use super::reply::Reply;
use super::request::{number, text};
use crate::admission::Admitted;
use crate::services::{HoldChange, RequestError, ServiceError, sequence_name};

/// The most characters of a value.
const MOST_VALUE: usize = 128;

/// The options of `SET`.
#[derive(Debug, Default, PartialEq, Eq)]
struct SetOptions {
    only_new: bool,
    /// The time of `PX` or `EX`, in milliseconds.
    ttl_ms: Option<u64>,
}

impl SetOptions {
    fn read(mut options: &[Bytes]) -> Result<Self, Reply> {
        let mut read = Self::default();
        while let Some((option, rest)) = options.split_first() {
            let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
            options = match rest {
                rest if is(b"nx") => {
                    read.only_new = true;
                    rest
                }
                [time, rest @ ..] if (is(b"px") || is(b"ex")) && read.ttl_ms.is_none() => {
                    let unit = if is(b"ex") { 1000 } else { 1 };
                    let time = number(time).ok_or_else(not_an_integer)?;
                    let time = u64::try_from(time).ok().filter(|time| *time > 0);
                    let time = time.and_then(|time| time.checked_mul(unit));
                    let invalid = || Reply::error("ERR invalid expire time in 'set' command");
                    read.ttl_ms = Some(time.ok_or_else(invalid)?);
                    rest
                }
                _ if [&b"xx"[..], b"get", b"keepttl", b"pxat", b"exat"]
                    .iter()
                    .any(|it| is(it)) =>
                {
                    return Err(Reply::error(
                        "ERR a lock is set with NX and PX milliseconds (or EX seconds), and no \
                         other option",
                    ));
                }
                _ => return Err(syntax()),
            };
        }
        Ok(read)
    }
}

/// The value of a lock, which is its holder's secret.
///
/// # Errors
/// It does not have 1 to 128 printable ASCII characters.
pub(super) fn value_of(value: &Bytes) -> Result<String, ServiceError> {
    let is_printable = value.iter().all(|byte| matches!(byte, b' '..=b'~'));
    if !is_printable || !(1..=MOST_VALUE).contains(&value.len()) {
        let detail =
            format!("the value of a lock has 1 to {MOST_VALUE} printable ASCII characters");
        return Err(RequestError::Invalid(detail).into());
    }
    Ok(text(value))
}

/// A lifetime of a lock.
///
/// # Errors
/// It is too short or too long.
pub(super) fn lifetime(ttl_ms: u64) -> Result<u64, ServiceError> {
    if (MIN_LOCK_TTL_MS..=MAX_LOCK_TTL_MS).contains(&ttl_ms) {
        return Ok(ttl_ms);
    }
    let detail = format!(
        "a lock is held for PX {MIN_LOCK_TTL_MS} to {MAX_LOCK_TTL_MS} milliseconds, not {ttl_ms}"
    );
    Err(RequestError::Invalid(detail).into())
}

pub(super) fn extension(ttl_ms: u64) -> Result<HoldChange, ServiceError> {
    lifetime(ttl_ms).map(|ttl_ms| HoldChange::Extend { ttl_ms })
}

impl Client {
    /// `SET`: acquires a lock, or moves a counter forward.
    pub(super) async fn set(&self, arguments: &[Bytes]) -> Reply {
        let (name, value) = (&arguments[0], &arguments[1]);
        let options = match SetOptions::read(&arguments[2..]) {
            Ok(options) => options,
            Err(refused) => return refused,
        };
        match (options.only_new, options.ttl_ms, number(value)) {
            (true, Some(ttl_ms), _) => self.set_lock(name, value, ttl_ms).await,
            (true, None, _) => Reply::error(
                "ERR a lock needs an expiry time: add PX milliseconds (100 to 86400000)",
            ),
            (false, Some(_), _) => Reply::error(
                "ERR a lock is set with NX, so that it has one holder: SET name value NX PX \
                 milliseconds",
            ),
            (false, None, Some(value)) => self.set_counter(name, value).await,
            (false, None, None) => Reply::error(
                "ERR only an integer is set without NX and PX: it moves a counter forward",
            ),
        }
    }

    async fn set_lock(&self, name: &Bytes, value: &Bytes, ttl_ms: u64) -> Reply {
        let name = text(name);
        let request = self.session.request("set", op::AcquireLock::ROW, &name);
        let work = async |admitted| self.acquire(&name, (value, ttl_ms), &admitted).await;
        match self.session.call(request, work).await {
            Ok(true) => Reply::OK,
            Ok(false) => Reply::Null,
            Err(problem) => self.failed(&problem),
        }
    }

    /// Returns whether a name is that of a sequence.
    pub(super) fn is_sequence(&self, name: &str) -> bool {
        let sequences = &self.session.services().sequences;
        sequence_name(name).is_ok_and(|name| sequences.is_known(&name))
    }

    /// Acquires a lock. Returns `false` if the lock is held or its name is that of a sequence,
    /// because `NX` does not set an existing key.
    pub(super) async fn acquire(
        &self,
        name: &str,
        (value, ttl_ms): (&Bytes, u64),
        admitted: &Admitted,
    ) -> Result<bool, ServiceError> {
        let services = self.session.services();
        let (value, ttl_ms) = (value_of(value)?, lifetime(ttl_ms)?);
        if self.is_sequence(name) {
            return Ok(false);
        }
        let by = (&admitted.right, admitted.tenant);
        let held = services
            .locks
            .acquire_secret(name, (&value, ttl_ms), by, admitted.deadline);
        Ok(held.await?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<SetOptions, Reply> {
        let words: Vec<Bytes> = words
            .split_whitespace()
            .map(|word| word.to_owned().into())
            .collect();
        SetOptions::read(&words)
    }

    #[test]
    fn the_options_of_a_lock_come_in_any_order_and_no_others() {
        let lock = |ttl_ms| {
            Ok(SetOptions {
                only_new: true,
                ttl_ms: Some(ttl_ms),
            })
        };
        assert_eq!(read("NX PX 100"), lock(100));
        assert_eq!(read("ex 2 nx"), lock(2000));
        assert_eq!(read("PX 1.5"), Err(not_an_integer()));
        for invalid in ["PX 0", "PX -1", "EX 9223372036854775807"] {
            let refused = read(invalid).unwrap_err();
            assert_eq!(
                refused,
                Reply::error("ERR invalid expire time in 'set' command")
            );
        }
        for unknown in ["PX", "PX 1 EX 1", "NOW", "NX PX"] {
            assert_eq!(read(unknown), Err(syntax()), "{unknown}");
        }
        assert!(read("XX PX 100").is_err_and(|it| it != syntax()));
    }

    #[test]
    fn a_value_is_printable_and_not_long() {
        assert_eq!(value_of(&Bytes::from_static(b"a b~")).unwrap(), "a b~");
        let long = Bytes::from(vec![b'a'; 129]);
        for invalid in [
            Bytes::new(),
            long,
            Bytes::from_static(b"a\n"),
            Bytes::from_static(b"\xff"),
        ] {
            assert!(value_of(&invalid).is_err(), "{invalid:?}");
        }
    }
}
