//! One-time tokens: what is issued is consumed by one caller.
//!
//! - [`record`]: a token and its use;
//! - [`commands`]: issue, consume, and what they lead to.

pub(crate) mod commands;
pub(crate) mod record;
