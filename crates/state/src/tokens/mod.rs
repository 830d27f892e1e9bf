//! One-time tokens: each issued token can be consumed by one caller.
//!
//! - [`record`]: a token and its use
//! - [`commands`]: issue and consume, and their outcomes

pub(crate) mod commands;
pub(crate) mod record;
