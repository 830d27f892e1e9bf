//! One node of a run: its clock, its process, and what it has to do.

use std::time::{Duration, Instant};

use super::RETURNED;
use super::duty::Duty;
use crate::clock::ShiftedClock;
use crate::history::At;

/// How a process is ended, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    pub(super) node: usize,
    pub(super) is_killed: bool,
    pub(super) at: Instant,
    /// From the end of the process to its start.
    pub(super) down: Duration,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Process {
    Up,
    Down {
        start: Instant,
    },
    /// Started, and has not answered yet.
    Starting,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) clock: ShiftedClock,
    /// How far the clock is set ahead.
    pub(super) ms: i64,
    pub(super) is_right: bool,
    pub(super) right_since: Instant,
    pub(super) process: Process,
    /// When the process began to run.
    pub(super) began: Instant,
    /// When it was last seen to be gone.
    pub(super) down_since: At,
    /// Whether it was started lately: what its mark on the disk allows may still hold it up.
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
