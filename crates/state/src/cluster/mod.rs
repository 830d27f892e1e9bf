//! The cluster itself: its settings, its members, and how it was restored.

pub(crate) mod commands;
pub(crate) mod level;
#[cfg(any(test, feature = "test-next-level"))]
mod next_level;
pub(crate) mod nodes;
pub(crate) mod resets;
pub(crate) mod restoration;
pub(crate) mod secret;
pub(crate) mod settings;
