//! The faults that are in force, and their verdict on a packet. Time is an argument.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::packet::Seen;
use super::pairs::{Host, Nodes, Pairs};
use crate::seed::Random;

/// The longest time that a packet waits for a slow link before it is dropped. As with a router's
/// short buffer, a TCP connection then adapts to the rate of the link.
const QUEUE: Duration = Duration::from_millis(100);

/// The smallest size of a queue in bytes: ten full packets. With less, a link of 1 Mbit/s would
/// drop the beginning of each connection.
const LEAST_QUEUE: f64 = 15_000.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Condition {
    /// Nothing passes, and no error is sent.
    Cut,
    /// This share of the packets, 0 to 1, is lost.
    Loss(f64),
    /// Every packet arrives this much later.
    Delay(Duration),
    /// The cable of each of these nodes carries this many bits per second in each direction. A
    /// packet that would have to wait longer than a short buffer lasts is dropped.
    Rate(Nodes, f64),
    /// New connections are refused at once. Open ones continue.
    Refused,
    /// Every segment of new and open connections is answered with a reset at both ends.
    Reset,
}

#[derive(Debug)]
struct Rule {
    number: u64,
    pairs: Pairs,
    condition: Condition,
    touched: Arc<AtomicU64>,
    /// The time until which each cable is occupied by earlier packets. `true` is the direction from
    /// the host.
    taken: BTreeMap<(Host, bool), Instant>,
}

/// The verdict on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketVerdict {
    Pass { at: Instant },
    Drop,
    Refuse,
    Reset,
}

#[derive(Debug)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    next: u64,
    random: Random,
}

impl Rules {
    pub(super) fn new(random: Random) -> Self {
        Self {
            rules: Vec::new(),
            next: 0,
            random,
        }
    }

    /// Puts a condition in force. Returns its number, and the counter of the packets that it
    /// touches.
    pub(super) fn add(&mut self, pairs: Pairs, condition: Condition) -> (u64, Arc<AtomicU64>) {
        let touched = Arc::new(AtomicU64::new(0));
        self.next += 1;
        self.rules.push(Rule {
            number: self.next,
            pairs,
            condition,
            touched: Arc::clone(&touched),
            taken: BTreeMap::new(),
        });
        (self.next, touched)
    }

    pub(super) fn remove(&mut self, number: u64) {
        self.rules.retain(|rule| rule.number != number);
    }

    pub(super) fn verdict(&mut self, now: Instant, packet: &Seen) -> PacketVerdict {
        let mut at = now;
        let opens = packet.segment.as_ref().is_some_and(|s| s.opens);
        let random = &mut self.random;
        let of_pair = |rule: &&mut Rule| rule.pairs.has(packet.from, packet.to);
        for rule in self.rules.iter_mut().filter(of_pair) {
            let verdict = match rule.condition {
                Condition::Cut => Some(PacketVerdict::Drop),
                Condition::Loss(share) => {
                    let dice = random.next_u64() as f64 / u64::MAX as f64;
                    if dice >= share {
                        continue;
                    }
                    Some(PacketVerdict::Drop)
                }
                Condition::Delay(delay) => {
                    at += delay;
                    None
                }
                Condition::Rate(slow, bits) => match rule.waits(now, packet, slow, bits / 8.0) {
                    Some(wait) => {
                        at += wait;
                        None
                    }
                    None => Some(PacketVerdict::Drop),
                },
                Condition::Refused if opens => Some(PacketVerdict::Refuse),
                Condition::Reset if packet.segment.as_ref().is_some_and(|s| !s.resets) => {
                    Some(PacketVerdict::Reset)
                }
                Condition::Refused | Condition::Reset => continue,
            };
            rule.touched.fetch_add(1, Ordering::Relaxed);
            if let Some(verdict) = verdict {
                return verdict;
            }
        }
        PacketVerdict::Pass { at }
    }
}

impl Rule {
    /// The time that a packet takes over the slow cables of sender and receiver, at this many bytes
    /// per second. `None` if one of their queues is full.
    fn waits(&mut self, now: Instant, packet: &Seen, slow: Nodes, rate: f64) -> Option<Duration> {
        let most = QUEUE.max(Duration::from_secs_f64(LEAST_QUEUE / rate));
        let takes = Duration::from_secs_f64(packet.bytes as f64 / rate);
        let cables = [(packet.from, true), (packet.to, false)];
        let cables = cables.into_iter().filter(|(host, _)| slow.has(*host));
        let mut free_at = Vec::with_capacity(2);
        for cable in cables {
            let taken = self.taken.get(&cable).copied().unwrap_or(now);
            free_at.push((cable, taken.max(now)));
        }
        if free_at.iter().any(|(_, free)| *free - now > most) {
            return None;
        }
        let mut longest = Duration::ZERO;
        for (cable, free) in free_at {
            self.taken.insert(cable, free + takes);
            longest = longest.max(free + takes - now);
        }
        Some(longest)
    }
}
