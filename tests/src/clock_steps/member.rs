//! One node of a run: its clock, its process and its duties.

use std::time::{Duration, Instant};

use super::RETURNED;
use super::duty::Duty;
use crate::clock::ShiftedClock;
use crate::history::At;

/// The planned end of a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    pub(super) node: usize,
    pub(super) is_killed: bool,
    pub(super) at: Instant,
    /// The time from the end of the process to its start.
    pub(super) down: Duration,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Process {
    Up,
    Down {
        start: Instant,
    },
    /// Started, but has not responded yet.
    Starting,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) clock: ShiftedClock,
    /// The offset of the clock, positive if it is ahead.
    pub(super) ms: i64,
    pub(super) is_right: bool,
    pub(super) right_since: Instant,
    pub(super) process: Process,
    /// The start of the process.
    pub(super) began: Instant,
    /// The last time at which the process was found to be gone.
    pub(super) down_since: At,
    /// `true` if the process started recently, so that the stored last tick on the disk may still
    /// delay it.
    pub(super) is_fresh: bool,
    pub(super) duties: Vec<(At, Duty)>,
}

impl Member {
    pub(super) fn new(clock: ShiftedClock, began: Instant) -> Self {
        Self {
            clock,
            ms: 0,
            is_right: true,
            right_since: began,
            process: Process::Up,
            began,
            down_since: At::default(),
            is_fresh: false,
            duties: vec![(At::default(), Duty::Serve { first: RETURNED })],
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.process, Process::Up)
    }
}
