//! Idempotency keys: which caller performs an operation, and the result of the operation.
//!
//! - [`record`]: a key, its claim and its result
//! - [`commands`]: begin, complete and abandon, and their outcomes
//! - [`apply`]: the changes of a key

mod apply;
pub(crate) mod commands;
pub(crate) mod record;
