//! The network between simulated nodes, and its effects on connections and bytes.
//!
//! A connection is a stream like TCP's: its bytes arrive in order, complete and once. Losses, cuts
//! and slow links therefore appear as delays, as they do above TCP. A lost segment is sent again
//! after a while and delays the following ones. Bytes that are sent into a cut arrive some time
//! after it has healed. A host without power does not answer, while a host whose process has ended
//! refuses and resets connections.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use seqd_disk::simulated::Dice;
use seqd_net::Lock;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::pipe::{End, Pipe};
use seqd_net::{Accepted, Accepting, BoxStream, Dial, Dialing, Listen};

/// Shortest time after which TCP sends a lost segment again. Each further loss doubles it.
const RESEND: Duration = Duration::from_millis(200);

/// Time without acknowledgements after which a sender sends nothing new.
const UNACKNOWLEDGED: Duration = RESEND;

/// Time after which an unanswered connect is retried.
const CONNECT_AGAIN: Duration = Duration::from_secs(1);

/// The properties of one direction between two nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link {
    pub(super) delay: Duration,
    /// The largest additional delay, drawn for each segment.
    pub(super) jitter: Duration,
    /// Lost segments per thousand.
    pub(super) lost: u64,
    pub(super) bytes_per_s: u64,
}

/// A network in one room.
pub(super) const LAN: Link = Link {
    delay: Duration::from_micros(250),
    jitter: Duration::from_micros(500),
    lost: 0,
    bytes_per_s: 125_000_000,
};

impl Link {
    /// A link whose round trip takes exactly this long.
    pub(super) fn far(round_trip: Duration) -> Self {
        Self {
            delay: round_trip / 2,
            jitter: Duration::ZERO,
            ..LAN
        }
    }
}

pub(super) struct Net {
    state: Lock<State>,
}

struct State {
    dice: Dice,
    links: BTreeMap<(usize, usize), Link>,
    /// The time at which the link has sent everything written to it.
    busy_until: BTreeMap<(usize, usize), Instant>,
    cut: BTreeMap<(usize, usize), Instant>,
    refused: BTreeMap<(usize, usize), ()>,
    ports: BTreeMap<usize, mpsc::UnboundedSender<Accepted>>,
    is_dark: BTreeMap<usize, ()>,
    pipes: Vec<Weak<Pipe>>,
    /// Readers at the end of a link that is cut.
    waiting: Vec<Waker>,
    /// A hash of everything delivered: time, direction and bytes.
    delivered: u64,
    bytes: u64,
}

impl Net {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            state: Lock::new(State {
                dice: Dice::new(seed),
                links: BTreeMap::new(),
                busy_until: BTreeMap::new(),
                cut: BTreeMap::new(),
                refused: BTreeMap::new(),
                ports: BTreeMap::new(),
                is_dark: BTreeMap::new(),
                pipes: Vec::new(),
                waiting: Vec::new(),
                delivered: 0,
                bytes: 0,
            }),
        })
    }

    pub(super) fn set_link(&self, from: usize, to: usize, link: Link) {
        self.state.lock().links.insert((from, to), link);
    }

    pub(super) fn cut(&self, from: usize, to: usize) {
        self.state
            .lock()
            .cut
            .entry((from, to))
            .or_insert(Instant::now());
    }

    /// Ends a cut. Delayed bytes arrive after a further random time of at most the length of the
    /// cut or three seconds, because the sender must first retry.
    pub(super) fn heal(&self, from: usize, to: usize) {
        let (pipes, late) = {
            let mut state = self.state.lock();
            let Some(since) = state.cut.remove(&(from, to)) else {
                return;
            };
            let most = since.elapsed().min(Duration::from_secs(3));
            let late = state.dice.below(most.as_millis() as u64 + 1);
            (state.pipes.clone(), Duration::from_millis(late))
        };
        for pipe in pipes.iter().filter_map(Weak::upgrade) {
            let ends = (pipe.from, pipe.to);
            if ends == (from, to) || ends == (to, from) {
                pipe.hold_up(Instant::now() + late);
            }
        }
        let waiting = std::mem::take(&mut self.state.lock().waiting);
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(super) fn refuse(&self, from: usize, to: usize, refuses: bool) {
        let mut state = self.state.lock();
        if refuses {
            state.refused.insert((from, to), ());
        } else {
            state.refused.remove(&(from, to));
        }
    }

    /// Breaks all connections between two nodes.
    pub(super) fn reset(&self, one: usize, other: usize) {
        let pipes = self.state.lock().pipes.clone();
        for pipe in pipes.iter().filter_map(Weak::upgrade) {
            let ends = (pipe.from, pipe.to);
            if ends == (one, other) || ends == (other, one) {
                pipe.reset();
            }
        }
    }

    /// Cuts a host's power. It sends no answer, and does not even refuse connections.
    pub(super) fn cut_power(&self, node: usize) {
        let mut state = self.state.lock();
        state.is_dark.insert(node, ());
        state.ports.remove(&node);
    }

    /// Restores a host's power. It has no state of its earlier connections.
    pub(super) fn restore_power(&self, node: usize) {
        let pipes = {
            let mut state = self.state.lock();
            if state.is_dark.remove(&node).is_none() {
                return;
            }
            state.pipes.clone()
        };
        for pipe in pipes.iter().filter_map(Weak::upgrade) {
            if pipe.from == node || pipe.to == node {
                pipe.reset();
            }
        }
    }

    pub(super) fn close_port(&self, node: usize) {
        self.state.lock().ports.remove(&node);
    }

    pub(super) fn is_dark(&self, node: usize) -> bool {
        self.state.lock().is_dark.contains_key(&node)
    }

    /// Returns whether bytes arrive. If they do not, the reader is woken when they may arrive
    /// again. If only the reverse direction is cut, bytes arrive until the sender has waited too
    /// long for an acknowledgement.
    pub(super) fn arrives(&self, from: usize, to: usize, reader: &Waker) -> bool {
        let mut state = self.state.lock();
        let is_unheard = |since: &Instant| since.elapsed() >= UNACKNOWLEDGED;
        let arrives = !state.cut.contains_key(&(from, to))
            && !state.cut.get(&(to, from)).is_some_and(is_unheard);
        if !arrives {
            state.waiting.push(reader.clone());
        }
        arrives
    }

    /// The arrival time of a segment that is sent now.
    pub(super) fn due(&self, from: usize, to: usize, bytes: usize) -> Instant {
        let mut state = self.state.lock();
        let link = state.links.get(&(from, to)).copied().unwrap_or(LAN);
        let now = Instant::now();
        let free = state.busy_until.get(&(from, to)).copied();
        let start = free.map_or(now, |free| free.max(now));
        let sent = start + Duration::from_secs_f64(bytes as f64 / link.bytes_per_s as f64);
        state.busy_until.insert((from, to), sent);
        let jitter = state.dice.below(link.jitter.as_micros() as u64 + 1);
        let mut due = sent + link.delay + Duration::from_micros(jitter);
        let mut resend = RESEND;
        while link.lost > 0 && state.dice.below(1000) < link.lost {
            due += resend + 2 * link.delay;
            resend *= 2;
        }
        due
    }

    pub(super) fn delivered(&self, from: usize, to: usize, at: Duration, bytes: &[u8]) {
        let mut state = self.state.lock();
        let mut hash = state.delivered;
        let mut add = |value: u64| {
            hash = (hash ^ value).wrapping_mul(0x100_0000_01b3).rotate_left(23);
        };
        add(at.as_micros() as u64);
        add((from * 64 + to) as u64);
        add(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            add(u64::from_le_bytes(word));
        }
        state.delivered = hash;
        state.bytes += bytes.len() as u64;
    }

    /// The hash of everything delivered, and the number of bytes.
    pub(super) fn summary(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.delivered, state.bytes)
    }

    fn connect(self: &Arc<Self>, from: usize, to: usize) -> io::Result<BoxStream> {
        let there = Pipe::new(self, from, to);
        let back = Pipe::new(self, to, from);
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let port = {
            let mut state = self.state.lock();
            if state.refused.contains_key(&(from, to)) {
                return Err(refused());
            }
            let port = state.ports.get(&to).ok_or_else(refused)?.clone();
            state.pipes.retain(|pipe| pipe.strong_count() > 0);
            state.pipes.extend([&there, &back].map(Arc::downgrade));
            port
        };
        let accepted = Accepted {
            stream: Box::new(End::new(&there, &back)),
            from: Some(IpAddr::from([10, 0, 0, from as u8 + 1])),
            certified: None,
        };
        // An end that is not accepted is dropped here, which locks the network. The lock is free
        // again at this point.
        port.send(accepted).map_err(|_| refused())?;
        Ok(Box::new(End::new(&back, &there)))
    }

    /// The round trip of a connect; `None` if it is not answered.
    fn answers(&self, from: usize, to: usize) -> Option<Duration> {
        let state = self.state.lock();
        let is_cut = state.cut.contains_key(&(from, to)) || state.cut.contains_key(&(to, from));
        let delay = |ends| state.links.get(&ends).copied().unwrap_or(LAN).delay;
        let is_silent = is_cut || state.is_dark.contains_key(&to);
        (!is_silent).then(|| delay((from, to)) + delay((to, from)))
    }
}

/// The address of a node, numbered from 0.
pub(super) fn address(node: usize) -> String {
    format!("n{}:7401", node + 1)
}

fn node_at(addr: &str) -> Option<usize> {
    let number: usize = addr.strip_prefix('n')?.split(':').next()?.parse().ok()?;
    number.checked_sub(1)
}

/// Outgoing connections of one node.
pub(super) struct Dials {
    pub(super) net: Arc<Net>,
    pub(super) from: usize,
}

impl Dial for Dials {
    fn dial<'a>(&'a self, addr: &'a str) -> Dialing<'a> {
        Box::pin(async move {
            let to = node_at(addr).ok_or(io::ErrorKind::NotFound)?;
            loop {
                if let Some(round_trip) = self.net.answers(self.from, to) {
                    sleep(round_trip).await;
                    if self.net.answers(self.from, to).is_some() {
                        return self.net.connect(self.from, to);
                    }
                }
                sleep(CONNECT_AGAIN).await;
            }
        })
    }
}

/// The port of one node.
pub(super) struct Port {
    net: Arc<Net>,
    node: usize,
    accepted: Option<mpsc::UnboundedReceiver<Accepted>>,
}

impl Port {
    pub(super) fn new(net: &Arc<Net>, node: usize) -> Self {
        let net = Arc::clone(net);
        let accepted = None;
        Self {
            net,
            node,
            accepted,
        }
    }
}

impl Listen for Port {
    fn open(&mut self) -> io::Result<SocketAddr> {
        let (port, accepted) = mpsc::unbounded_channel();
        self.net.state.lock().ports.insert(self.node, port);
        self.accepted = Some(accepted);
        Ok(([10, 0, 0, self.node as u8 + 1], 7401).into())
    }

    fn accept(&mut self) -> Accepting<'_> {
        Box::pin(async move {
            let accepted = self.accepted.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            let next = accepted.recv().await;
            next.ok_or_else(|| io::ErrorKind::NotConnected.into())
        })
    }
}
