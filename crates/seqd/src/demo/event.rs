//! The events of the demo: one queue of them, in the order in which they came.

use std::process::ExitStatus;
use std::time::Duration;

#[derive(Debug)]
pub(crate) enum Event {
    Ended(Ended),
    Key(u8),
    /// A node leads, as seen so long after another one ended.
    Leads(Leads),
    Note(&'static str),
}

#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) node: usize,
    pub(crate) status: Option<ExitStatus>,
}

#[derive(Debug)]
pub(crate) struct Leads {
    pub(crate) name: String,
    pub(crate) term: u64,
    /// How long it was looked for.
    pub(crate) took: Duration,
}
