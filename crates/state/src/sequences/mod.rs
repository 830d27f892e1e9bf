//! Sequences: what can be asked of them, what they count, and which indices were granted.

pub(crate) mod commands;
pub(crate) mod definition;
pub(crate) mod grants;
