//! The scripts of Redisson's locks, and the names of their channels and records.

/// The effect of a script of Redisson on the lock `KEYS[1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reentrant {
    /// Enters it for the time `ARGV[1]`, as `ARGV[2]`. The result is the remaining time of another
    /// holder.
    Enter,
    Exit(ExitForm),
    /// Extends the hold of `ARGV[2]` to at least `ARGV[1]` from now.
    Keep,
    /// Extends the hold of each key; the arguments after `ARGV[1]` are the values, in the order of
    /// the keys.
    KeepAll,
    /// Ends the hold of any holder.
    Break,
    /// Reads two keys, and returns nothing.
    Probe,
}

/// The positions of the arguments of a script that exits a lock, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExitForm {
    pub(super) ttl: usize,
    pub(super) value: usize,
    /// The lifetime of the record of this exit. The last key is the name of the record.
    pub(super) record: Option<usize>,
}

const fn exit(ttl: usize, value: usize, record: Option<usize>) -> Reentrant {
    Reentrant::Exit(ExitForm { ttl, value, record })
}

/// The first half of the SHA-256 of a script's normal form, and its meaning. The comments name the
/// versions that send the script; versions 3.16 to 4.7 were examined.
pub(super) const REDISSON: &[(&str, Reentrant)] = &[
    // lock, 3.16; spin lock of all.
    ("ee46877edfeba63b81d3a379da445b34", Reentrant::Enter),
    // lock, from 3.23.
    ("c5fabd26e59f0cef091542af844cd97d", Reentrant::Enter),
    // unlock, 3.16 and 3.23.
    ("9b3cf230e1aa8c43efb528ac290277e2", exit(2, 3, None)),
    ("533dfcc516e18a70ec4d60f5c7c37490", exit(2, 3, None)),
    // unlock, from 3.31.
    ("4630a38e8ae027fb5d3125ce3c3bcf38", exit(2, 3, Some(5))),
    // unlock of a spin lock, before and from 3.31.
    ("d5098550068e4980afa67c29fce28550", exit(1, 2, None)),
    ("2243bf62fe963fc3810abe631fe34ef6", exit(1, 2, Some(3))),
    // renewal, before and from 3.52.
    ("0b69798500b6e87f245560a3bf05cc38", Reentrant::Keep),
    ("4842039b858c332e4eb1727883cdadf4", Reentrant::KeepAll),
    // forceUnlock of 3.16, of later versions, and of a spin lock.
    ("c7ab99006b8342e077b1b005945c69c7", Reentrant::Break),
    ("8b8c76927846973f6c032dd1229aa84f", Reentrant::Break),
    ("0303a260eb3311d702b3b79a3878018a", Reentrant::Break),
    // the probe of a new client.
    ("8ea3af00702d0833a0d5bf93825ad8fc", Reentrant::Probe),
];

pub(super) const RECORD: &str = "redisson_unlock_latch:";
const CHANNEL: &str = "redisson_lock__channel:";

/// The lock to which the record of an exit belongs: `redisson_unlock_latch:{NAME}:ID`.
pub(super) fn lock_of_record(key: &str) -> Option<&str> {
    let (lock, _) = key.strip_prefix(RECORD)?.rsplit_once(':')?;
    Some(without_braces(lock))
}

/// The lock that a channel is about: `redisson_lock__channel:{NAME}`.
pub(super) fn lock_of_channel(channel: &str) -> Option<&str> {
    channel.strip_prefix(CHANNEL).map(without_braces)
}

/// Redisson adds braces to a name without an opening one.
fn without_braces(name: &str) -> &str {
    let inner = name.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
    inner.filter(|inner| !inner.contains('{')).unwrap_or(name)
}

/// The longest ID of an exit: 16 bytes in hexadecimal digits.
const ID_CHARACTERS: usize = 32;

/// The most characters of a name, so that the record of an exit is the name of a lock.
pub(super) const MOST_NAME: usize =
    seqd_state::MAX_LOCK_NAME_BYTES - RECORD.len() - "{}:".len() - ID_CHARACTERS;

/// Returns whether the channel and the records of a lock with this name are its own: those of `{a}`
/// are also those of `a`.
pub(super) fn has_own_channel(name: &str) -> bool {
    without_braces(name) == name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_locks_are_read_from_their_channels_and_records() {
        assert_eq!(lock_of_channel("redisson_lock__channel:{a:b}"), Some("a:b"));
        assert_eq!(
            lock_of_channel("redisson_lock__channel:{a}:b"),
            Some("{a}:b")
        );
        assert_eq!(lock_of_channel("redisson_lock__channel:{a}}"), Some("a}"));
        assert_eq!(lock_of_channel("news"), None);
        assert_eq!(
            lock_of_record("redisson_unlock_latch:{a:b}:17"),
            Some("a:b")
        );
        assert_eq!(
            lock_of_record("redisson_unlock_latch:{a}:b:17"),
            Some("{a}:b")
        );
        assert_eq!(lock_of_record("redisson_unlock_latch:"), None);
        assert_eq!(lock_of_record("a:17"), None);
    }

    #[test]
    fn a_name_in_one_pair_of_braces_has_the_channel_of_another() {
        for name in ["a", "a}", "{a", "{a}b", "{a}{b}", "a{b}"] {
            assert!(has_own_channel(name), "{name}");
        }
        assert!(!has_own_channel("{a}") && !has_own_channel("{}"));
        assert_eq!(MOST_NAME, 198);
    }
}
