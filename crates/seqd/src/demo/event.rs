//! The events of the demo, in one queue, in the order of their occurrence.

use std::process::ExitStatus;
use std::time::Duration;

#[derive(Debug)]
pub(crate) enum Event {
    Ended(NodeEnded),
    Key(u8),
    /// A node leads. `took` is the time since another node ended.
    Leads(Leads),
    Note(&'static str),
}

#[derive(Debug)]
pub(crate) struct NodeEnded {
    pub(crate) node: usize,
    pub(crate) status: Option<ExitStatus>,
}

#[derive(Debug)]
pub(crate) struct Leads {
    pub(crate) name: String,
    pub(crate) term: u64,
    /// The time between the end of the other node and the discovery of this leader.
    pub(crate) took: Duration,
}
