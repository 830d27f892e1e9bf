//! The events of the demo, in one queue, in the order of their occurrence.

use std::process::ExitStatus;
use std::time::Duration;

#[derive(Debug)]
pub(crate) enum Event {
    Ended {
        node: usize,
        status: Option<ExitStatus>,
    },
    Key(u8),
    /// A node leads. `took` is the time between the end of another node and this discovery.
    Leads {
        name: String,
        term: u64,
        took: Duration,
    },
    Note(&'static str),
}
