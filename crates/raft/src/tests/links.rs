//! Links between the replicas of a test: far, lossy, silent or closed.
//!
//! A connection is carried by two tasks, one for each direction, which hold every piece for as long as
//! the link takes. Of TCP a loss is seen as a pause of that direction: what comes later waits, too.

use std::collections::BTreeSet;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seqd_disk::simulated::Dice;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex, split};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use crate::net::{BoxStream, Dial, Dialing, TcpDial};
use crate::wire::dialer::Dialer;
use crate::wire::transport::Transport;

/// The shortest time after which Linux sends a segment again, beside the round trip.
const REPEATED_AFTER: Duration = Duration::from_millis(200);

/// Bytes that are read at once.
const PIECE: usize = 16 << 10;

/// Pieces that a direction holds: more than a window of the protocol has.
const PIECES: usize = 4096;

/// From one node to another, by their places among the founders.
type Way = (usize, usize);

#[derive(Clone, Default)]
struct Faults {
    silent: BTreeSet<Way>,
    refused: BTreeSet<Way>,
    /// Nodes that look as if their process had ended.
    ended: BTreeSet<usize>,
}

/// All links of a cluster.
pub(crate) struct Links {
    addrs: Vec<String>,
    round_trip: Duration,
    losses_in_1000: u64,
    dice: Mutex<Dice>,
    faults: watch::Sender<Faults>,
}

impl Links {
    pub(crate) fn new(
        addrs: Vec<String>,
        round_trip: Duration,
        losses_in_1000: u64,
        seed: u64,
    ) -> Arc<Self> {
        eprintln!("links: seed {seed}");
        Arc::new(Self {
            addrs,
            round_trip,
            losses_in_1000,
            dice: Mutex::new(Dice::new(seed)),
            faults: watch::channel(Faults::default()).0,
        })
    }

    /// The way out of one node.
    pub(crate) fn out_of(self: &Arc<Self>, node: usize) -> Arc<dyn Transport> {
        let links = Arc::clone(self);
        Arc::new(Dialer::new(Arc::new(WayOut { links, node })))
    }

    /// What one node sends to another comes to a stop, or arrives late.
    pub(crate) fn silence(&self, way: Way, is_silent: bool) {
        self.faults.send_modify(|faults| {
            let _ = match is_silent {
                true => faults.silent.insert(way),
                false => faults.silent.remove(&way),
            };
        });
    }

    /// No packet reaches a node, or comes from it.
    pub(crate) fn isolate(&self, node: usize, is_alone: bool) {
        for other in (0..self.addrs.len()).filter(|other| *other != node) {
            self.silence((node, other), is_alone);
            self.silence((other, node), is_alone);
        }
    }

    /// Connections of one node to another are refused, and those that are there broken.
    pub(crate) fn refuse(&self, way: Way) {
        self.faults.send_modify(|faults| {
            faults.refused.insert(way);
        });
    }

    /// Breaks a node's connections and closes its port, as the end of its process does.
    pub(crate) fn end_process(&self, node: usize) {
        self.faults.send_modify(|faults| {
            faults.ended.insert(node);
        });
    }

    async fn holds(&self, holds: impl FnMut(&Faults) -> bool) {
        if self.faults.subscribe().wait_for(holds).await.is_err() {
            pending::<()>().await;
        }
    }

    /// How long the next piece of a direction takes.
    fn takes(&self) -> Duration {
        let mut dice = self.dice.lock().unwrap();
        let mut takes = self.round_trip / 2;
        let mut repeated_after = self.round_trip + REPEATED_AFTER;
        while dice.below(1000) < self.losses_in_1000 {
            takes += repeated_after;
            repeated_after *= 2;
        }
        takes
    }
}

struct WayOut {
    links: Arc<Links>,
    node: usize,
}

impl Dial for WayOut {
    fn dial<'a>(&'a self, addr: &'a str) -> Dialing<'a> {
        Box::pin(async move {
            let to = self.links.addrs.iter().position(|known| known == addr);
            let to = to.expect("a node of this cluster");
            let (there, back) = ((self.node, to), (to, self.node));
            let links = &self.links;
            let can_connect =
                |faults: &Faults| !faults.silent.contains(&there) && !faults.silent.contains(&back);
            sleep(links.round_trip).await;
            links.holds(can_connect).await;
            let either = [self.node, to];
            {
                let faults = links.faults.borrow();
                if faults.refused.contains(&there)
                    || either.iter().any(|node| faults.ended.contains(node))
                {
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
            }
            let stream = TcpDial.dial(addr).await?;
            let (near, far) = duplex(PIECE);
            let (far_read, far_write) = split(far);
            let (read, write) = split(stream);
            let links = Arc::clone(links);
            tokio::spawn(async move {
                let ended = |faults: &Faults| {
                    faults.refused.contains(&there)
                        || either.iter().any(|node| faults.ended.contains(node))
                };
                tokio::select! {
                    () = carry(&links, there, far_read, write) => {}
                    () = carry(&links, back, read, far_write) => {}
                    () = links.holds(ended) => {}
                }
            });
            Ok(Box::new(near) as BoxStream)
        })
    }
}

/// Carries one direction of a connection until either end is gone.
async fn carry<R, W>(links: &Links, way: Way, mut from: R, mut to: W)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (pieces, mut waiting) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES);
    let take = async move {
        let mut due = Instant::now();
        let mut piece = vec![0; PIECE];
        while let Ok(read @ 1..) = from.read(&mut piece).await {
            due = due.max(Instant::now() + links.takes());
            let _ = pieces.send((due, piece[..read].to_vec())).await;
        }
    };
    let give = async {
        while let Some((due, piece)) = waiting.recv().await {
            sleep_until(due).await;
            links.holds(|faults| !faults.silent.contains(&way)).await;
            if to.write_all(&piece).await.is_err() || to.flush().await.is_err() {
                return;
            }
        }
    };
    tokio::join!(take, give);
}
