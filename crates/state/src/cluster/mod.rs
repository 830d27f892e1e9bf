//! The cluster itself: its settings, its members, and its restoration from a backup.

pub(crate) mod commands;
pub(crate) mod level;
pub(crate) mod nodes;
pub(crate) mod resets;
pub(crate) mod restoration;
pub(crate) mod secret;
pub(crate) mod settings;
pub(crate) mod timestamps;
