//! A snowflake ID: 63 bits that a [`Layout`](crate::Layout) interprets.
//!
//! Text forms (decimal, hex, base62, Crockford) belong to the crate `api`.

use std::fmt;

/// One snowflake ID. The sign bit is zero in every ID that a layout packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnowflakeId(u64);

impl SnowflakeId {
    /// Wraps any number. Only [`Layout::unpack`](crate::Layout::unpack) checks whether it is an ID
    /// of a layout.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for SnowflakeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
