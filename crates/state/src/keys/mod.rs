//! Idempotency keys: who is told to do a thing, and what came of it.
//!
//! - [`record`]: a key, its claim and its result;
//! - [`commands`]: begin, complete, abandon, and what they lead to;
//! - [`apply`]: how a key changes.

mod apply;
pub(crate) mod commands;
pub(crate) mod record;
