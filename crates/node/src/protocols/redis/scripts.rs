//! The scripts of lock libraries. This node runs no Lua: it recognises known scripts.

use std::collections::{HashMap, VecDeque};

use seqd_net::Lock;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::lua::normal_form;
use super::redisson_scripts::{REDISSON, Reentrant};

/// The longest script; the longest known one has less than 1.5 KiB.
const MOST_BYTES: usize = 8 * 1024;

/// The most scripts of clients whose SHA-1 is stored. A client sends a script again if its SHA-1 is
/// unknown.
const MOST_REMEMBERED: usize = 1024;

/// The effect of a script on the lock `KEYS[1]` with the value `ARGV[1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Releases the lock if it has the value.
    Release,
    /// Extends the hold if it has the value, to at least `ARGV[2]` from now.
    Extend,
    /// Like `Extend`, or by `ARGV[2]` if `ARGV[3]` is 0.
    ExtendBy,
    /// Acquires the lock for a time, or extends the hold if it has the value. The time is the
    /// argument at this position.
    Obtain { ttl: usize },
    /// Acquires the lock for the time `ARGV[2]`.
    Create,
    /// Reads the remaining time of the hold if it has the value.
    Remaining,
}

/// The result of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Integer(i64),
    Ok,
    Null,
    /// The remaining time in milliseconds.
    Time,
}

/// A known script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    Form(Form),
    Redisson(Reentrant),
}

/// The meaning of a script with one key and a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) action: Action,
    /// The result if it was done.
    pub(super) done: Answer,
    /// The result if the lock has another value.
    pub(super) other: Answer,
    /// The result if the lock is not held.
    pub(super) free: Answer,
}

const fn form(action: Action, done: Answer, other: Answer, free: Answer) -> Form {
    Form {
        action,
        done,
        other,
        free,
    }
}

/// A table of scripts: the name of each, and the arguments of its [`form`].
macro_rules! scripts {
    ($($name:literal => $action:expr, $done:expr, $other:expr, $free:expr;)*) => {
        &[$(($name, form($action, $done, $other, $free))),*]
    };
}

use Action::{Create, Extend, ExtendBy, Obtain, Release, Remaining};
use Answer::{Integer, Null, Ok as Okay, Time};

const ONE: Answer = Integer(1);
const ZERO: Answer = Integer(0);

/// The SHA-1 of scripts whose clients load an unknown script and then name its SHA-1 again, without
/// a way back to `EVAL`, and their meanings. With a balancer the two requests may reach two nodes,
/// so every node knows these scripts from its start.
const NOT_SENT_AGAIN: &[(&str, Form)] = scripts! {
    // redis-py 3.5 to 7.0: release, extend, reacquire.
    "c3f8721cbb97f72bc19e972846bd7aaf91901658" => Release, ONE, ZERO, ZERO;
    "a4e8783852e6b949f9ef3a97212805108459a890" => ExtendBy, ONE, ZERO, ZERO;
    "1cac51482acf5858da00f6d685d68f886cd6b6b2" => Extend, ONE, ZERO, ZERO;
    // pottery 3.0: remaining, extend, release.
    "f5f7bd3a3aa4a63c507c1155c5ea1219b350d992" => Remaining, Time, ZERO, ZERO;
    "ba015a80261b616e7a62d35df0b8e3edbe6c9414" => Extend, ONE, ZERO, ZERO;
    "a4aada0b36710970eedaaaeec4a6b7d8c78c4f80" => Release, ONE, ZERO, ZERO;
};

/// The first half of the SHA-256 of a script's normal form, its meaning, and the clients that send
/// it. A test with the clients' packages checks that none is missing.
const SCRIPTS: &[(&str, Form)] = scripts! {
    // the common compare and delete: redlock-py, redislock 0.9, go-zero, ShedLock, pottery.
    "e663630cf692baef123ae779a4bcf408" => Release, ONE, ZERO, ZERO;
    // redis-py.
    "0d87dfc7b7decb1d18a12023d95d2556" => Release, ONE, ZERO, ZERO;
    // node-redlock 4 and 5.
    "6b29766e8234250a213ac38516d1dfaa" => Release, ONE, ZERO, ZERO;
    // redsync.
    "abcc49944fc7841070af0ac01137bada" => Release, ONE, ZERO, Integer(-1);
    // Spring Integration 6 and 7, spin lock.
    "634a933a864cc6bdb0c96afaf522c877" => Release, ONE, Null, Null;
    // redislock, later versions.
    "ffaade40bb7be716c39e32e0857df25c" => Release, Okay, Null, Null;
    // the common compare and expire: redislock 0.9, redsync, ShedLock, pottery.
    "8b8e94267d242921bc308e88864c0d7a" => Extend, ONE, ZERO, ZERO;
    // redis-py, reacquire.
    "9485efdbf433bdbfa1f0f52919abdcb1" => Extend, ONE, ZERO, ZERO;
    // node-redlock 4 and 5.
    "18a4acd61e74fc774517e53ba64f7baf" => Extend, ONE, ZERO, ZERO;
    // Spring Integration 6 and 7.
    "320f99f64f7f45fad425a2372faa890e" => Extend, ONE, Null, Null;
    // redislock, later versions.
    "4c87c411913a509ba6fa5c2f8fb42cf5" => Extend, Okay, Null, Null;
    // redis-py, extend.
    "c96a8d3cf4ab811a943848fb10588170" => ExtendBy, ONE, ZERO, ZERO;
    // redsync, touch.
    "4375a763e0de41a597cf0dbf94723dd4" => Obtain { ttl: 2 }, ONE, ZERO, ZERO;
    // go-zero.
    "24b8e6230a795ff6809604d315e49b6b" => Obtain { ttl: 2 }, Okay, Null, Null;
    // Spring Integration 6 and 7.
    "593238612bc2855ee44c189712781f21" => Obtain { ttl: 2 }, ONE, Null, Null;
    // redislock 0.9.
    "d4c673b1d7cebbb2babf88acd62b71e1" => Obtain { ttl: 3 }, Okay, Null, Null;
    // redislock, later versions.
    "e70bd54da45c9a041a798920a972c6f0" => Obtain { ttl: 3 }, Okay, Null, Null;
    // redislock, a version between them.
    "8666187104267ab401ef6061b6cd0243" => Obtain { ttl: 3 }, Okay, Null, Null;
    // node-redlock 4 and 5.
    "e6da63a97bc3a00e8a38a11838266660" => Create, ONE, ZERO, ZERO;
    // redislock 0.9.
    "b2d2b7447c4883f55c6e2f1a8757b8b6" => Remaining, Time, Integer(-3), Integer(-3);
    // redislock, later versions.
    "07ac7e802edc841e08e8d8530b21fb3d" => Remaining, Time, Null, Null;
    // pottery.
    "baabd7e33f21ff1b21ee2610e69f01d2" => Remaining, Time, ZERO, ZERO;
};

/// Recognises a script.
pub(super) fn recognise(script: &str) -> Option<Script> {
    if script.len() > MOST_BYTES {
        return None;
    }
    let name = fingerprint(script)?;
    let of_value = SCRIPTS.iter().find(|(known, _)| *known == name);
    let of_value = of_value.map(|(_, form)| Script::Form(*form));
    of_value.or_else(|| {
        let reentrant = REDISSON.iter().find(|(known, _)| *known == name);
        reentrant.map(|(_, meaning)| Script::Redisson(*meaning))
    })
}

/// The script of a client, of any node from its start, by its SHA-1.
fn of_client(sha1: &str) -> Option<Script> {
    let known = NOT_SENT_AGAIN.iter().find(|(known, _)| *known == sha1);
    known.map(|(_, meaning)| Script::Form(*meaning))
}

/// The key of a script in the table.
fn fingerprint(script: &str) -> Option<String> {
    let hash = Sha256::digest(normal_form(script)?);
    Some(hex(&hash[..16]))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The scripts that clients of a port have sent, by their SHA-1.
#[derive(Debug, Default)]
pub(super) struct Remembered(Lock<Sent>);

#[derive(Debug, Default)]
struct Sent {
    scripts: HashMap<String, Script>,
    /// The names of the scripts in the order of their arrival.
    order: VecDeque<String>,
}

impl Remembered {
    /// Stores a script in place of the oldest one if there are too many. Returns its SHA-1.
    pub(super) fn add(&self, script: &str, meaning: Script) -> String {
        let name = hex(&Sha1::digest(script));
        if of_client(&name).is_some() {
            return name;
        }
        let mut sent = self.0.lock();
        if sent.scripts.insert(name.clone(), meaning).is_none() {
            sent.order.push_back(name.clone());
        }
        if sent.order.len() > MOST_REMEMBERED
            && let Some(oldest) = sent.order.pop_front()
        {
            sent.scripts.remove(&oldest);
        }
        name
    }

    /// The script with this SHA-1.
    pub(super) fn get(&self, sha1: &str) -> Option<Script> {
        let name = sha1.to_ascii_lowercase();
        of_client(&name).or_else(|| self.0.lock().scripts.get(&name).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', \
                           KEYS[1]) else return 0 end";

    #[test]
    fn a_script_is_known_by_its_meaning() {
        let release = Script::Form(form(Release, ONE, ZERO, ZERO));
        assert_eq!(recognise(RELEASE), Some(release));
        assert_eq!(
            recognise(&RELEASE.replace("'del'", "\"UNLINK\"")),
            Some(release)
        );
        for other in [
            RELEASE.replace("ARGV[1]", "ARGV[2]"),
            RELEASE.replace("== ", "~= "),
            RELEASE.replace("return 0", "return 1"),
            RELEASE.replace("'del'", "'incr'"),
            format!("{RELEASE} {}", " ".repeat(MOST_BYTES)),
            String::new(),
        ] {
            assert_eq!(recognise(&other), None, "{other}");
        }
    }

    #[test]
    fn the_table_names_each_script_once() {
        let of_value = SCRIPTS.iter().map(|(name, _)| *name);
        let reentrant = REDISSON.iter().map(|(name, _)| *name);
        let mut names: Vec<&str> = of_value.chain(reentrant).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SCRIPTS.len() + REDISSON.len());
    }

    #[test]
    fn a_script_is_found_by_its_sha1_until_too_many_follow() {
        let scripts = Remembered::default();
        let form = recognise(RELEASE).unwrap();
        let sha1 = scripts.add(RELEASE, form);
        assert_eq!(scripts.get(&sha1.to_ascii_uppercase()), Some(form));
        let others: Vec<String> = (0..MOST_REMEMBERED)
            .map(|more| scripts.add(&format!("{RELEASE} -- {more}"), form))
            .collect();
        assert_eq!(scripts.get(&sha1), None);
        for other in others {
            assert_eq!(
                scripts.get(&other),
                Some(form),
                "only the oldest is dropped"
            );
        }
    }

    #[test]
    fn scripts_that_clients_do_not_send_again_are_known_at_the_start() {
        let release = Script::Form(form(Release, ONE, ZERO, ZERO));
        let of_redis_py = "c3f8721cbb97f72bc19e972846bd7aaf91901658";
        assert_eq!(Remembered::default().get(of_redis_py), Some(release));
    }
}
