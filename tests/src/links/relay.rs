//! The thread that carries every packet of a network from the device of one host to the device of
//! another, if the rules permit it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tun_rs::SyncDevice;

use super::packet::{self, Seen};
use super::pairs::Host;
use super::rules::{PacketVerdict, Rules};

/// The number of packets that are taken from one device in one turn.
const TURN: usize = 64;

/// The longest packet of a device in bytes, above the devices' MTU.
const LONGEST: usize = 2048;

/// The largest number of bytes in flight: two seconds of 100 Mbit/s from each of five nodes. Beyond
/// that, packets are dropped.
const UNDER_WAY: usize = 128 << 20;

/// The longest wait of the thread before it checks whether it must end.
const IDLE: Duration = Duration::from_millis(50);

/// The niceness of the thread, below that of the nodes: a delay because the processor was busy
/// would be an unplanned fault.
const NICE: i32 = -19;

/// The state that the harness shares with the relay's thread.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) rules: Mutex<Rules>,
    pub(super) ends: AtomicBool,
    /// The number of bytes that were carried.
    pub(super) carried: AtomicU64,
    /// The number of packets for which a device or the relay had no room.
    pub(super) overflowed: AtomicU64,
    /// The largest delay of a packet after its time, in microseconds.
    pub(super) latest_us: AtomicU64,
}

/// A packet in flight. Packets are ordered by their time and then by their arrival.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Parcel {
    at: Instant,
    number: u64,
    to: Host,
    bytes: Vec<u8>,
}

pub(super) struct Relay {
    devices: BTreeMap<Host, SyncDevice>,
    under_way: BinaryHeap<Reverse<Parcel>>,
    bytes_under_way: usize,
    next: u64,
    shared: Arc<Shared>,
}

impl Relay {
    pub(super) fn new(devices: BTreeMap<Host, SyncDevice>, shared: Arc<Shared>) -> Self {
        Self {
            devices,
            under_way: BinaryHeap::new(),
            bytes_under_way: 0,
            next: 0,
            shared,
        }
    }

    /// Carries packets until the network is dropped.
    pub(super) fn run(mut self) {
        // Only root may do this. Without root the devices could not have been created either.
        let _ = rustix::process::setpriority_process(None, NICE);
        let mut buffer = [0; LONGEST];
        while !self.shared.ends.load(Ordering::Relaxed) {
            let ready = self.wait().expect("the devices can be waited for");
            for host in ready {
                for _ in 0..TURN {
                    let Ok(length) = self.devices[&host].recv(&mut buffer) else {
                        break;
                    };
                    if let Some(seen) = packet::read(&buffer[..length]) {
                        self.take(&seen, &buffer[..length]);
                    }
                }
            }
            self.deliver();
        }
    }

    /// Waits for a packet, or until a packet in flight is due. Returns the hosts that have sent
    /// packets.
    fn wait(&self) -> io::Result<Vec<Host>> {
        let now = Instant::now();
        let due = self.under_way.peek().map(|Reverse(parcel)| parcel.at);
        let left = due.map_or(IDLE, |at| at.saturating_duration_since(now).min(IDLE));
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut fds: Vec<PollFd<'_>> = self
            .devices
            .values()
            .map(|device| PollFd::from_borrowed_fd(device.as_fd(), PollFlags::IN))
            .collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let sent = self.devices.keys().zip(fds);
        let sent = sent.filter(|(_, fd)| fd.revents().contains(PollFlags::IN));
        Ok(sent.map(|(host, _)| *host).collect())
    }

    /// Treats a packet as the rules decide.
    fn take(&mut self, seen: &Seen, bytes: &[u8]) {
        let now = Instant::now();
        let verdict = {
            let rules = self.shared.rules.lock();
            let mut rules = rules.unwrap_or_else(PoisonError::into_inner);
            rules.verdict(now, seen)
        };
        let segment = seen.segment.as_ref();
        match (verdict, segment) {
            (PacketVerdict::Pass { at }, _) => self.post(at, seen.to, bytes.to_vec()),
            (PacketVerdict::Refuse, Some(segment)) => {
                self.post(now, seen.from, segment.reset_of_sender());
            }
            (PacketVerdict::Reset, Some(segment)) => {
                self.post(now, seen.from, segment.reset_of_sender());
                if !segment.opens {
                    self.post(now, seen.to, segment.reset_of_receiver());
                }
            }
            (PacketVerdict::Drop | PacketVerdict::Refuse | PacketVerdict::Reset, _) => {}
        }
    }

    fn post(&mut self, at: Instant, to: Host, bytes: Vec<u8>) {
        if self.bytes_under_way + bytes.len() > UNDER_WAY {
            self.shared.overflowed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.bytes_under_way += bytes.len();
        self.next += 1;
        self.under_way.push(Reverse(Parcel {
            at,
            number: self.next,
            to,
            bytes,
        }));
    }

    /// Delivers the packets that are due.
    fn deliver(&mut self) {
        while let Some(Reverse(parcel)) = self.under_way.peek() {
            let now = Instant::now();
            if parcel.at > now {
                return;
            }
            let late_us = (now - parcel.at).as_micros();
            let late_us = u64::try_from(late_us).unwrap_or(u64::MAX);
            self.shared.latest_us.fetch_max(late_us, Ordering::Relaxed);
            let Some(Reverse(parcel)) = self.under_way.pop() else {
                return;
            };
            self.bytes_under_way -= parcel.bytes.len();
            let Some(device) = self.devices.get(&parcel.to) else {
                continue;
            };
            match device.send(&parcel.bytes) {
                Ok(sent) => {
                    let sent = sent as u64;
                    self.shared.carried.fetch_add(sent, Ordering::Relaxed);
                }
                Err(_) => {
                    self.shared.overflowed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}
