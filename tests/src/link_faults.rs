//! The faults of a cluster's links, by name, and their injection.

use std::net::TcpStream;
use std::time::Duration;

use crate::checkers::{Violation, require};
use crate::cluster::Cluster;
use crate::connection::raise_open_files;
use crate::faults::{FAULT_WITHOUT_EFFECT, Strace};
use crate::links::{Condition, Fault, Links, Pairs};

/// The connections of an idle flood: as many as a small pool of misbehaving clients has, and far
/// more than the peers of a cluster need.
const FLOOD: usize = 1024;

/// A fault of the links; one of the table [`FAULTS`].
#[derive(Debug, Clone, Copy)]
pub struct LinkFault {
    pub name: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// The round trip between all nodes in ms, and the share of lost packets.
    Far(u64, f64),
    /// The bandwidth of all nodes except the leader, Mbit/s.
    SlowFollowers(f64),
    LeaderAlone,
    FollowerAlone,
    /// The leader's outgoing packets are lost; incoming ones arrive.
    LeaderDumb,
    /// The leader's incoming packets are lost; outgoing ones arrive.
    LeaderDeaf,
    /// The leader and one follower do not reach each other; the others reach both.
    LeaderAndOne,
    /// All connections of one follower to the leader are refused.
    OneIsRefused,
    /// All connections of the followers to the leader are refused.
    AllAreRefused,
    /// Every packet between the leader and one follower is answered with a reset.
    LeaderAndOneReset,
    /// Connections that send nothing to the leader's port for peers.
    Flood,
    /// Every `fdatasync` of every node takes this many ms longer.
    SlowDisks(u64),
}

const fn fault(name: &'static str, kind: Kind) -> LinkFault {
    LinkFault { name, kind }
}

pub const FAULTS: [LinkFault; 16] = [
    fault("rtt-50", Kind::Far(50, 0.0)),
    fault("rtt-100", Kind::Far(100, 0.0)),
    fault("loss-2", Kind::Far(0, 0.02)),
    fault("rtt-50-loss-2", Kind::Far(50, 0.02)),
    fault("rtt-100-loss-2", Kind::Far(100, 0.02)),
    fault("mbit-100", Kind::SlowFollowers(100.0)),
    fault("mbit-12", Kind::SlowFollowers(12.0)),
    fault("mbit-1", Kind::SlowFollowers(1.0)),
    fault("leader-alone", Kind::LeaderAlone),
    fault("follower-alone", Kind::FollowerAlone),
    fault("leader-dumb", Kind::LeaderDumb),
    fault("leader-deaf", Kind::LeaderDeaf),
    fault("leader-and-one", Kind::LeaderAndOne),
    fault("one-is-refused", Kind::OneIsRefused),
    fault("all-are-refused", Kind::AllAreRefused),
    fault("leader-and-one-reset", Kind::LeaderAndOneReset),
];

/// Faults that do not affect links: idle connections, and slow disks, which need strace.
pub const BESIDE: [LinkFault; 2] = [
    fault("flood", Kind::Flood),
    fault("disks-120", Kind::SlowDisks(120)),
];

/// A fault in force; it ends when this is dropped.
#[derive(Debug)]
pub enum InForce {
    OnLinks(Vec<Fault>),
    Connections(Vec<TcpStream>),
    Disks(Vec<Strace>),
}

impl LinkFault {
    /// The fault of this name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = FAULTS.into_iter().chain(BESIDE);
        all.find(|fault| fault.name == name)
    }

    /// Returns whether the leader works and reaches a majority, so that no election is justified.
    /// If all followers find its port closed, an election is.
    pub fn spares_the_leader(self) -> bool {
        matches!(
            self.kind,
            Kind::Far(..)
                | Kind::SlowDisks(_)
                | Kind::FollowerAlone
                | Kind::LeaderAndOne
                | Kind::OneIsRefused
                | Kind::Flood
        )
    }

    /// Injects the fault into a cluster with this leader, and with one of its followers where it
    /// needs one.
    pub fn impose(self, cluster: &Cluster, leader: usize) -> InForce {
        let links = cluster.links();
        let nodes = cluster.size();
        let followers: Vec<usize> = (0..nodes).filter(|node| *node != leader).collect();
        let one = &followers[..1];
        let leader = &[leader];
        let impose = |pairs, condition| InForce::OnLinks(vec![links.impose(pairs, condition)]);
        match self.kind {
            Kind::Far(round_trip_ms, loss) => {
                let mut faults = Vec::new();
                if round_trip_ms > 0 {
                    let delay = Condition::Delay(Duration::from_micros(round_trip_ms * 500));
                    faults.push(links.impose(Pairs::all(nodes), delay));
                }
                if loss > 0.0 {
                    faults.push(links.impose(Pairs::all(nodes), Condition::Loss(loss)));
                }
                InForce::OnLinks(faults)
            }
            Kind::SlowFollowers(mbit) => InForce::OnLinks(vec![links.slow(&followers, mbit * 1e6)]),
            Kind::LeaderAlone => impose(Pairs::around(leader, nodes), Condition::Cut),
            Kind::FollowerAlone => impose(Pairs::around(one, nodes), Condition::Cut),
            Kind::LeaderDumb => impose(Pairs::one_way(leader, &followers), Condition::Cut),
            Kind::LeaderDeaf => impose(Pairs::one_way(&followers, leader), Condition::Cut),
            Kind::LeaderAndOne => impose(Pairs::between(leader, one), Condition::Cut),
            Kind::OneIsRefused => refuse(links, one, leader[0]),
            Kind::AllAreRefused => refuse(links, &followers, leader[0]),
            Kind::LeaderAndOneReset => {
                let reset = impose(Pairs::between(leader, one), Condition::Reset);
                links.break_connections(one[0], leader[0]);
                reset
            }
            Kind::SlowDisks(delay_ms) => {
                let delay = Duration::from_millis(delay_ms);
                let folder = cluster.folder();
                let slow = |node| Strace::delay_fdatasync(cluster.node(node), delay, folder);
                InForce::Disks((0..nodes).map(slow).collect())
            }
            Kind::Flood => flood(&cluster.node(leader[0]).peer_address()),
        }
    }
}

impl InForce {
    /// Ends the fault. Returns the number of packets, syncs or connections that it affected, or an
    /// error if a part of it had no effect.
    pub fn heal(self) -> Result<u64, Violation> {
        let touched: Vec<u64> = match self {
            Self::OnLinks(faults) => faults.iter().map(Fault::touched).collect(),
            Self::Disks(disks) => disks.iter().map(|disk| disk.fdatasyncs() as u64).collect(),
            Self::Connections(open) => vec![open.len().saturating_sub(FLOOD - 1) as u64],
        };
        let had_effect = touched.iter().all(|count| *count > 0);
        require(
            had_effect,
            FAULT_WITHOUT_EFFECT,
            format!("touched {touched:?}"),
        )?;
        Ok(touched.iter().sum())
    }
}

/// Refuses new connections of these followers to the leader, and breaks open ones.
fn refuse(links: &Links, followers: &[usize], leader: usize) -> InForce {
    let pairs = Pairs::one_way(followers, &[leader]);
    let refused = links.impose(pairs, Condition::Refused);
    for follower in followers {
        links.break_connections(*follower, leader);
    }
    InForce::OnLinks(vec![refused])
}

/// Opens connections and leaves them idle. A refused one is not counted.
pub fn flood(address: &str) -> InForce {
    raise_open_files();
    let open = (0..FLOOD).filter_map(|_| TcpStream::connect(address).ok());
    InForce::Connections(open.collect())
}
