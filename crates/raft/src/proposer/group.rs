//! A waiting proposal, and a group of proposals that is bounded by count and by bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use seqd_state::{Command, MAX_COMMANDS_PER_ENTRY, Outcome};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::messages::ForwardRefusal;
use crate::pool::Part;
use crate::round_robin::RoundRobin;

/// Largest number of commands in one group: a few hundred KiB of ordinary commands.
const GROUP_COMMANDS: usize = 1024;

/// Largest size of the commands in one group, bytes, unless a single proposal is larger. It equals
/// the size of one message to a follower (`batch::MOST`), so that a group never causes a second
/// message.
const GROUP_BYTES: usize = 1 << 20;

const UNSENT: u8 = 0;
const SENT: u8 = 1;
const ABANDONED: u8 = 2;

/// The state of a proposal: unsent, sent or abandoned. The group that takes it and the caller that
/// gives up compete for it, and exactly one of the two wins.
#[derive(Default)]
pub(super) struct Fate(AtomicU8);

impl Fate {
    fn change(&self, from: u8, to: u8) -> bool {
        self.0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Marks the proposal as sent. Returns whether its group may send it, because its caller has
    /// not given up.
    pub(super) fn send(&self) -> bool {
        self.change(UNSENT, SENT)
    }

    /// Marks the proposal as unsent again, because its group was not sent.
    pub(super) fn take_back(&self) {
        self.change(SENT, UNSENT);
    }

    /// Marks the proposal as abandoned. Returns whether it will certainly never be sent.
    pub(super) fn abandon(&self) -> bool {
        self.change(UNSENT, ABANDONED)
    }
}

pub(super) struct Queued {
    /// Empty while the commands are in flight as an entry of this node.
    pub(super) commands: Vec<Command>,
    pub(super) count: usize,
    /// True if one of the commands needs a leader whose clock is known to be right.
    pub(super) needs_known_clock: bool,
    /// The size of the commands' frames.
    pub(super) bytes: usize,
    pub(super) deadline: Instant,
    pub(super) fate: Arc<Fate>,
    /// True if the proposal came from a peer that considers this node the leader.
    pub(super) forwarded: bool,
    pub(super) reply: oneshot::Sender<Result<Vec<Outcome>, ForwardRefusal>>,
    /// The proposal's part of the proposals and bytes that may wait; `None` in tests.
    pub(super) _room: Option<[Part; 2]>,
}

/// Takes the next group from the queue. A proposal with commands above the cluster's level, which
/// the leader may refuse, forms a group of its own, because a refusal answers the whole group.
pub(super) fn take_group(
    queue: &mut RoundRobin<Queued>,
    is_above: impl Fn(&Queued) -> bool,
) -> Vec<Queued> {
    let (mut count, mut bytes) = (0, 0);
    let mut group = Vec::new();
    while count < GROUP_COMMANDS
        && let Some(next) = queue.peek()
    {
        let goes_alone = is_above(next);
        count += next.count;
        bytes += next.bytes;
        let over_limit = count > MAX_COMMANDS_PER_ENTRY || bytes > GROUP_BYTES;
        if !group.is_empty() && (goes_alone || over_limit) {
            break;
        }
        group.extend(queue.pop());
        if goes_alone {
            break;
        }
    }
    group
}
