//! A proposal that waits, and a group of them: bounded by count and by bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use seqd_state::{Command, MAX_COMMANDS_PER_ENTRY, Outcome};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::messages::ForwardRefusal;
use crate::pool::Part;
use crate::round_robin::RoundRobin;

/// Commands in one group: a few hundred KiB of ordinary commands.
const GROUP_COMMANDS: usize = 1024;

/// Bytes of the commands in one group, unless a single proposal has more: what one message carries to
/// a follower (`batch::MOST`), so that a group is never the reason for a second one.
const GROUP_BYTES: usize = 1 << 20;

const UNSENT: u8 = 0;
const SENT: u8 = 1;
const ABANDONED: u8 = 2;

/// Whether a proposal has left, decided between the group that takes it and the caller that
/// gives up: exactly one of the two wins.
#[derive(Default)]
pub(super) struct Fate(AtomicU8);

impl Fate {
    fn change(&self, from: u8, to: u8) -> bool {
        self.0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Whether its group may send it: its caller has not given up.
    pub(super) fn send(&self) -> bool {
        self.change(UNSENT, SENT)
    }

    /// Its group was not sent after all.
    pub(super) fn take_back(&self) {
        self.change(SENT, UNSENT);
    }

    /// Whether its caller may count on it that it is never sent.
    pub(super) fn abandon(&self) -> bool {
        self.change(UNSENT, ABANDONED)
    }
}

pub(super) struct Item {
    /// Taken while they are on their way as an entry of this node.
    pub(super) commands: Vec<Command>,
    pub(super) count: usize,
    /// Whether one of them needs a leader that knows whether its clock is right.
    pub(super) needs_known_clock: bool,
    /// Of their frames.
    pub(super) bytes: usize,
    pub(super) deadline: Instant,
    pub(super) fate: Arc<Fate>,
    /// Whether it came from a peer, which took this node for the leader.
    pub(super) forwarded: bool,
    pub(super) reply: oneshot::Sender<Result<Vec<Outcome>, ForwardRefusal>>,
    /// Its part of the proposals and of the bytes that may wait; `None` in tests.
    pub(super) _room: Option<[Part; 2]>,
}

/// Takes the next group from the queue. Commands above the cluster's level, which the leader may
/// refuse, go alone: a refusal is the answer to the whole group.
pub(super) fn take_group(
    queue: &mut RoundRobin<Item>,
    is_above: impl Fn(&Item) -> bool,
) -> Vec<Item> {
    let (mut count, mut bytes) = (0, 0);
    let mut group = Vec::new();
    while count < GROUP_COMMANDS
        && let Some(next) = queue.peek()
    {
        let goes_alone = is_above(next);
        count += next.count;
        bytes += next.bytes;
        let is_too_much = count > MAX_COMMANDS_PER_ENTRY || bytes > GROUP_BYTES;
        if !group.is_empty() && (goes_alone || is_too_much) {
            break;
        }
        group.extend(queue.pop());
        if goes_alone {
            break;
        }
    }
    group
}
