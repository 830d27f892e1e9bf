//! The events of the demo: one queue of them, in the order in which they came.

use std::process::ExitStatus;
use std::time::Duration;

/// What the demo reacts to.
#[derive(Debug)]
pub(crate) enum Event {
    /// A node's process ended.
    Ended(Ended),
    /// A key was pressed.
    Key(u8),
    /// A node leads, as seen so long after another one ended.
    Leads(Leads),
    /// A line to print.
    Note(&'static str),
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) node: usize,
    pub(crate) status: Option<ExitStatus>,
}

/// A node that leads.
#[derive(Debug)]
pub(crate) struct Leads {
    pub(crate) name: String,
    pub(crate) term: u64,
    /// How long it was looked for.
    pub(crate) took: Duration,
}
