//! One type for each meaning of a number or a text in the replicated state, so that, for example, a
//! lease ID cannot be passed as a token.

use std::fmt;

use seqd_guards::is_out;
use serde::{Deserialize, Serialize};

/// The key of a record in a table.
pub(crate) trait TableKey: Ord + Clone + fmt::Debug {
    /// True if a table with such keys has at most one record.
    const IS_SINGLE: bool = false;
    /// Appends the part of a row's key after the prefix. Keys sort in the order of these bytes.
    fn write(&self, bytes: &mut Vec<u8>);
    fn read(bytes: &[u8]) -> Option<Self>;
}

/// The key of a table of at most one record.
impl TableKey for () {
    const IS_SINGLE: bool = true;

    fn write(&self, _: &mut Vec<u8>) {}

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.is_empty().then_some(())
    }
}

impl TableKey for String {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.as_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok().map(str::to_owned)
    }
}

macro_rules! number_key {
    ($name:ident) => {
        impl $crate::newtypes::TableKey for $name {
            fn write(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.0.to_be_bytes());
            }

            fn read(bytes: &[u8]) -> Option<Self> {
                Some(Self(u64::from_be_bytes(bytes.try_into().ok()?)))
            }
        }
    };
}
pub(crate) use number_key;

macro_rules! numbers {
    ($($(#[$meta:meta])* $name:ident;)*) => {$(
        $(#[$meta])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default,
            serde::Serialize, serde::Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        $crate::newtypes::number_key!($name);
    )*};
}
pub(crate) use numbers;

numbers! {
    /// Milliseconds of the cluster's own clock, by which leases expire. It never decreases, and it
    /// stops while there is no leader.
    ClusterMs;
    /// A member of the cluster. Node IDs are never reused.
    NodeId;
    /// One grant of a worker. Lease IDs are never reused.
    LeaseId;
    /// One grant of a range of a sequence. Tokens are never reused.
    GrantToken;
    /// Raised by each change that invalidates granted but unused ranges of a sequence.
    Epoch;
    /// Raised by every change of a sequence's definition.
    Revision;
}

impl ClusterMs {
    /// Returns the end of a period that begins now, in the cluster millisecond `self`, and lasts at
    /// least `ms`.
    ///
    /// The clock is rounded down: the period may begin at the last moment of its millisecond, and
    /// the entry that ends it may come at the first moment of another. One extra millisecond covers
    /// both.
    #[must_use]
    pub fn after(self, ms: u64) -> Self {
        let rounding = u64::from(!is_out!(EndsRoundedUp));
        Self(self.0.saturating_add(ms).saturating_add(rounding))
    }

    /// Returns the number of milliseconds that certainly remain until this end, from any moment of
    /// the cluster millisecond `now`.
    #[must_use]
    pub fn left_at(self, now: Self) -> u64 {
        let rounding = u64::from(!is_out!(EndsRoundedUp));
        self.0.saturating_sub(now.0).saturating_sub(rounding)
    }
}

/// Numbers that a change raises by one. They saturate at 2^64-1, a value that only a row made by
/// hand can have.
macro_rules! raised {
    ($($name:ident)*) => {$(
        impl $name {
            #[must_use]
            pub(crate) fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }
    )*};
}

raised! { Epoch Revision }

/// The public part of an access token, by which the token is looked up. Drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AccessId(pub u64);

impl fmt::Display for AccessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

number_key!(AccessId);

impl AccessId {
    /// Reads 16 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_id = text.len() == 16 && text.bytes().all(is_digit);
        let id = is_id.then(|| u64::from_str_radix(text, 16).ok());
        id.flatten().map(Self)
    }
}

/// The sum of the hashes of all rows. Equal states have equal digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(pub u128);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The maximum length of a sequence's name, in bytes: fits a URL, a metric label and a table
/// column.
pub(crate) const MAX_SEQUENCE_NAME_BYTES: usize = 128;

/// A text for which the function returns `true`.
macro_rules! name {
    ($(#[$meta:meta])* $name:ident, $error:ident, $is_name:expr) => {
        $(#[$meta])*
        #[derive(
            Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize,
            serde::Deserialize,
        )]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Box<str>);

        impl $name {
            pub fn new(text: impl Into<String>) -> Result<Self, $error> {
                let text = text.into();
                let is_name: fn(&str) -> bool = $is_name;
                if !is_name(&text) {
                    return Err($error);
                }
                Ok(Self(text.into_boxed_str()))
            }

            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::new(text)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.into_string()
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl $crate::newtypes::TableKey for $name {
            fn write(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(self.0.as_bytes());
            }

            fn read(bytes: &[u8]) -> Option<Self> {
                Self::new(std::str::from_utf8(bytes).ok()?).ok()
            }
        }
    };
}
pub(crate) use name;

name! {
    /// The name of a sequence: 1 to 128 of `[A-Za-z0-9._:-]`, beginning with a letter or a digit.
    SequenceName, SequenceNameError, seqd_idgen::is_name
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a sequence name has 1 to {MAX_SEQUENCE_NAME_BYTES} of A-Z a-z 0-9 . _ : - and begins with a \
     letter or a digit"
)]
pub struct SequenceNameError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_letters_digits_and_four_marks_are_taken() {
        for text in ["a", "7", "order", "eu:order-2.v_1", &"x".repeat(128)] {
            assert_eq!(SequenceName::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn empty_long_or_odd_names_are_refused() {
        for text in ["", "-a", ".a", "a b", "a/b", "é", "a\n", &"x".repeat(129)] {
            assert_eq!(SequenceName::new(text), Err(SequenceNameError), "{text:?}");
        }
    }

    #[test]
    fn a_digest_is_shown_in_32_hex_digits() {
        assert_eq!(Digest(255).to_string(), "000000000000000000000000000000ff");
    }

    /// Real times are in quarters of a millisecond. The cluster's clock has whole milliseconds,
    /// rounded down.
    #[test]
    fn a_promise_made_at_any_moment_of_a_millisecond_lasts() {
        let clock = |quarters: u64| ClusterMs(quarters / 4);
        for began in 40..44 {
            let end = clock(began).after(10);
            for asked in began..=began + 40 {
                let promised = asked + 4 * end.left_at(clock(asked));
                for ended in asked..promised {
                    assert!(clock(ended) < end, "it ended before the promised time");
                }
                assert!(promised >= began + 32, "the promise is short");
            }
            assert_eq!(end.left_at(clock(began)), 10, "the time that was asked for");
        }
    }
}
