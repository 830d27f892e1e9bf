//! The segment buffer: two buffers on one replicated record, under any order of grants, failures,
//! late and repeated responses, advances, returns and closes.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use seqd_idgen::{
    Granted, IndexRange, RefillRequest, SegmentBuffer, SegmentPolicy, SegmentPolicyError, Tail,
};

use crate::cases;

type Buffer = SegmentBuffer<u64, u64>;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn range(first: u64, count: u64) -> IndexRange {
    IndexRange { first, count }
}

fn refill(size: u64, after: Option<u64>) -> RefillRequest<u64> {
    RefillRequest { size, after }
}

fn tail(token: u64, range: IndexRange, latest: IndexRange) -> Tail<u64> {
    Tail {
        token,
        range,
        latest,
    }
}

fn policy(min: u64, max: u64) -> SegmentPolicy {
    SegmentPolicy::new(min, max, secs(60)).unwrap()
}

/// The record of a sequence in the cluster, with the naive rules of the design.
#[derive(Debug)]
struct Record {
    mark: u64,
    epoch: u64,
    tokens: u64,
    /// The latest token and the start of its run.
    latest: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Reply {
    token: u64,
    epoch: u64,
    range: IndexRange,
}

impl Record {
    fn grant(&mut self, request: RefillRequest<u64>) -> Reply {
        self.tokens += 1;
        let token = self.tokens;
        let first = self.mark;
        self.mark += request.size;
        let run = match self.latest {
            Some((latest, run)) if request.after == Some(latest) => run,
            _ => first,
        };
        self.latest = Some((token, run));
        Reply {
            token,
            epoch: self.epoch,
            range: range(first, request.size),
        }
    }

    fn advance(&mut self, by: u64) {
        self.mark += by;
        self.epoch += 1;
        self.latest = None;
    }

    /// Returns whether the tail was accepted.
    fn take_back(&mut self, token: u64, first: u64) -> bool {
        let Some((latest, run)) = self.latest else {
            return false;
        };
        let accepted = latest == token && (run..=self.mark).contains(&first);
        if accepted {
            self.mark = first;
            self.latest = None;
        }
        accepted
    }
}

#[derive(Clone, Debug)]
enum Op {
    Take(u64),
    /// The response of the refill in flight arrives.
    Deliver,
    /// The refill is abandoned. Its response may arrive later or never.
    GiveUp,
    /// An abandoned or repeated response arrives.
    Late(prop::sample::Index),
    Advance(u64),
    /// The node receives the applied epoch.
    Discard,
    /// A clean stop: the tail is returned, twice if the response is lost, and a new buffer begins.
    Restart(bool),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0u64..40).prop_map(Op::Take),
        6 => Just(Op::Deliver),
        1 => Just(Op::GiveUp),
        1 => any::<prop::sample::Index>().prop_map(Op::Late),
        1 => (0u64..30).prop_map(Op::Advance),
        1 => Just(Op::Discard),
        1 => any::<bool>().prop_map(Op::Restart),
        2 => (0u64..200).prop_map(Op::Pass),
    ]
}

struct Node {
    buffer: Buffer,
    /// The response of the refill in flight, as decided by the cluster.
    in_flight: Option<Reply>,
    replies: Vec<Reply>,
    /// The last index that this buffer returned.
    last: Option<u64>,
    lowest_epoch: u64,
}

impl Node {
    fn new() -> Self {
        let (in_flight, replies) = (None, Vec::new());
        Self {
            buffer: Buffer::new(policy(10, 80)),
            in_flight,
            replies,
            last: None,
            lowest_epoch: 0,
        }
    }
}

struct World {
    record: Record,
    nodes: [Node; 2],
    handed: BTreeSet<u64>,
    now: Duration,
}

impl World {
    fn new() -> Self {
        let record = Record {
            mark: 0,
            epoch: 1,
            tokens: 0,
            latest: None,
        };
        let nodes = [Node::new(), Node::new()];
        Self {
            record,
            nodes,
            handed: BTreeSet::new(),
            now: Duration::ZERO,
        }
    }

    fn take(&mut self, node: usize, count: u64) {
        let node = &mut self.nodes[node];
        let before = node.buffer.available();
        let take = node.buffer.take(count, self.now);
        let got: u64 = take.ranges.iter().map(|range| range.count).sum();
        assert_eq!(got + take.missing, count);
        assert_eq!(got, count.min(before), "all that there is");
        assert_eq!(node.buffer.available(), before - got);
        for range in &take.ranges {
            assert!(range.count > 0);
            for index in range.first..range.end() {
                assert!(
                    node.last.is_none_or(|last| last < index),
                    "index {index} is out of order"
                );
                assert!(self.handed.insert(index), "{index} twice");
                assert!(index < self.record.mark, "{index} was never granted");
                node.last = Some(index);
            }
        }
        if let Some(refill) = take.refill {
            assert!(node.in_flight.is_none(), "one refill in flight");
            assert!((10..=80).contains(&refill.size), "{refill:?}");
            // The cluster decides immediately. Only the response is delayed.
            let reply = self.record.grant(refill);
            node.in_flight = Some(reply);
            node.replies.push(reply);
        } else if take.missing > 0 {
            assert!(
                node.in_flight.is_some(),
                "whoever misses some has a refill to wait for"
            );
        }
    }

    fn deliver(&mut self, node: usize, reply: Reply) {
        let node = &mut self.nodes[node];
        let granted = node.buffer.granted(reply.token, reply.epoch, reply.range);
        if granted == Granted::Kept {
            assert!(reply.epoch >= node.lowest_epoch, "an older epoch was kept");
            node.lowest_epoch = reply.epoch;
        }
    }

    fn play(&mut self, at: usize, op: Op) {
        match op {
            Op::Take(count) => self.take(at, count),
            Op::Deliver => {
                if let Some(reply) = self.nodes[at].in_flight.take() {
                    self.deliver(at, reply);
                }
            }
            Op::GiveUp => {
                if self.nodes[at].in_flight.take().is_some() {
                    self.nodes[at].buffer.refill_failed();
                }
            }
            Op::Late(index) => {
                // A repeated response ends the wait for the one in flight, which then arrives late.
                if !self.nodes[at].replies.is_empty() {
                    let reply = *index.get(&self.nodes[at].replies);
                    self.nodes[at].in_flight = None;
                    self.deliver(at, reply);
                }
            }
            Op::Advance(by) => self.record.advance(by),
            Op::Discard => {
                let node = &mut self.nodes[at];
                node.buffer.discard_below_epoch(self.record.epoch);
                node.lowest_epoch = self.record.epoch;
            }
            Op::Restart(twice) => self.restart(at, twice),
            Op::Pass(ms) => self.now += Duration::from_secs(ms),
        }
    }

    fn restart(&mut self, at: usize, twice: bool) {
        let node = &mut self.nodes[at];
        let tail = node.buffer.close();
        assert_eq!(node.buffer.available(), 0);
        assert_eq!(node.buffer.take(5, self.now).missing, 5, "closed");
        assert_eq!(node.buffer.take(5, self.now).refill, None, "closed");
        if let Some(reply) = node.in_flight {
            let late = node.buffer.granted(reply.token, reply.epoch, reply.range);
            assert_eq!(late, Granted::Dropped, "a closed buffer kept a grant");
        }
        if let Some(tail) = tail {
            assert!(
                self.handed
                    .range(tail.range.first..tail.range.end())
                    .next()
                    .is_none(),
                "a tail holds what was handed out: a grant is out of order"
            );
            assert_eq!(tail.range.end(), tail.latest.end());
            assert!(tail.range.first <= tail.latest.first);
            // The whole run first. If the record began a new run, the part of the latest grant.
            let whole = self.record.take_back(tail.token, tail.range.first);
            if !whole {
                self.record.take_back(tail.token, tail.latest.first);
            }
            if twice {
                assert!(
                    !self.record.take_back(tail.token, tail.range.first),
                    "the token is gone"
                );
            }
        }
        *node = Node::new();
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn no_script_hands_out_an_index_twice_or_out_of_order(
        script in proptest::collection::vec((0usize..2, op()), 1..120),
    ) {
        let mut world = World::new();
        for (node, op) in script {
            world.play(node, op);
        }
    }

    #[test]
    fn a_lone_node_that_stops_cleanly_leaves_no_gap(
        takes in proptest::collection::vec(0u64..200, 1..40),
        stop_each in 1usize..10,
    ) {
        let mut world = World::new();
        for (step, count) in takes.into_iter().enumerate() {
            let wanted = world.handed.len() as u64 + count;
            while (world.handed.len() as u64) < wanted {
                world.take(0, wanted - world.handed.len() as u64);
                world.play(0, Op::Deliver);
            }
            if step % stop_each == 0 {
                world.restart(0, false);
                prop_assert_eq!(world.record.mark, world.handed.len() as u64);
            }
        }
        prop_assert_eq!(world.handed.last().map_or(0, |last| last + 1), world.handed.len() as u64);
    }
}

#[test]
fn the_next_segment_is_fetched_when_a_tenth_is_used() {
    let mut buffer = Buffer::new(policy(100, 1000));
    let first = buffer.take(0, secs(0));
    assert_eq!(first.refill, Some(refill(100, None)));
    assert_eq!(buffer.take(5, secs(0)).refill, None, "one in flight");
    assert_eq!(buffer.granted(7, 1, range(0, 100)), Granted::Kept);
    assert_eq!(buffer.take(9, secs(1)).refill, None);
    let tenth = buffer.take(1, secs(1));
    assert_eq!(tenth.refill, Some(refill(100, Some(7))));
}

#[test]
fn a_take_continues_into_the_next_segment_in_order() {
    let mut buffer = Buffer::new(policy(10, 100));
    buffer.granted(1, 1, range(0, 10));
    buffer.granted(2, 1, range(30, 10));
    let take = buffer.take(25, secs(0));
    assert_eq!(take.ranges, [range(0, 10), range(30, 10)]);
    assert_eq!(take.missing, 5);
    assert_eq!(
        take.refill.unwrap(),
        refill(20, Some(2)),
        "doubled: it was drained fast"
    );
}

#[test]
fn a_refill_covers_the_missing_values_up_to_the_maximum_size() {
    let mut buffer = Buffer::new(policy(10, 100));
    assert_eq!(buffer.take(70, secs(0)).refill.unwrap().size, 70);
    buffer.refill_failed();
    assert_eq!(buffer.take(5000, secs(0)).refill.unwrap().size, 100);
}

#[test]
fn sizes_double_when_drained_fast_stay_near_the_target_and_halve_when_slow() {
    let mut buffer = Buffer::new(policy(10, 40));
    let mut mark = 0;
    let mut now = secs(0);
    let mut drain = |buffer: &mut Buffer, lasts: Duration| {
        let asked = buffer.size();
        buffer.take(0, now);
        buffer.granted(mark, 1, range(mark, asked));
        mark += asked;
        buffer.take(1, now);
        buffer.refill_failed();
        now += lasts;
        buffer.take(asked - 1, now);
        buffer.refill_failed();
        buffer.size()
    };
    let sizes = [59, 1, 1, 60, 119, 120, 500, 500].map(|s| drain(&mut buffer, secs(s)));
    assert_eq!(sizes, [20, 40, 40, 40, 40, 20, 10, 10]);
    buffer.set_policy(policy(15, 30));
    assert_eq!(buffer.size(), 15);
}

#[test]
fn a_clean_stop_gives_the_whole_run_of_both_buffers_back() {
    let mut buffer = Buffer::new(policy(10, 10));
    buffer.granted(1, 1, range(0, 10));
    buffer.granted(2, 1, range(10, 10));
    buffer.take(4, secs(0));
    assert_eq!(buffer.close(), Some(tail(2, range(4, 16), range(10, 10))));
    assert_eq!(buffer.close(), None, "once");
}

#[test]
fn a_grant_of_somebody_else_between_leaves_only_the_latest_to_give_back() {
    let mut buffer = Buffer::new(policy(10, 10));
    buffer.granted(1, 1, range(0, 10));
    buffer.granted(3, 1, range(20, 10));
    buffer.take(4, secs(0));
    assert_eq!(buffer.close(), Some(tail(3, range(20, 10), range(20, 10))));
}

#[test]
fn a_used_up_segment_leaves_nothing_to_give_back() {
    let mut buffer = Buffer::new(policy(10, 10));
    buffer.granted(1, 1, range(0, 10));
    buffer.take(10, secs(0));
    assert_eq!(buffer.close(), None);
}

#[test]
fn an_advance_throws_buffers_and_late_replies_of_the_old_epoch_away() {
    let mut buffer = Buffer::new(policy(10, 10));
    buffer.granted(1, 1, range(0, 10));
    let refill = buffer.take(5, secs(0)).refill.unwrap();
    assert_eq!(refill.after, Some(1));
    buffer.discard_below_epoch(2);
    assert_eq!(buffer.available(), 0);
    assert_eq!(buffer.granted(2, 1, range(10, 10)), Granted::Dropped);
    let refill = buffer.take(5, secs(0)).refill.unwrap();
    assert_eq!(
        refill.after, None,
        "a token of the old epoch proves nothing"
    );
    assert_eq!(buffer.granted(3, 2, range(100, 10)), Granted::Kept);
    assert_eq!(buffer.take(1, secs(0)).ranges, [range(100, 1)]);
}

#[test]
fn a_grant_of_a_newer_epoch_throws_the_older_segment_away() {
    let mut buffer = Buffer::new(policy(10, 10));
    buffer.granted(1, 1, range(0, 10));
    assert_eq!(buffer.granted(2, 2, range(50, 10)), Granted::Kept);
    assert_eq!(buffer.take(1, secs(0)).ranges, [range(50, 1)]);
}

#[test]
fn ranges_that_cannot_be_are_dropped() {
    let mut buffer = Buffer::new(policy(10, 10));
    assert_eq!(buffer.granted(1, 1, range(5, 0)), Granted::Dropped);
    assert_eq!(
        buffer.granted(1, 1, range(u64::MAX - 3, 5)),
        Granted::Dropped
    );
    assert_eq!(buffer.granted(1, 1, range(0, 10)), Granted::Kept);
    assert_eq!(
        buffer.granted(1, 1, range(0, 10)),
        Granted::Dropped,
        "the same again"
    );
}

#[test]
fn bounds_that_cannot_be_are_refused() {
    for (min, max) in [(0, 5), (6, 5)] {
        assert_eq!(
            SegmentPolicy::new(min, max, secs(1)),
            Err(SegmentPolicyError { min, max })
        );
    }
}
