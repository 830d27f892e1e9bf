//! What can be wrong with the links of a cluster, by name, and how it is brought about.

use std::net::TcpStream;
use std::time::Duration;

use crate::checkers::{Violation, require};
use crate::cluster::Cluster;
use crate::connection::raise_open_files;
use crate::faults::{NEVER_BIT, Strace};
use crate::links::{Condition, Fault, Links, Pairs};

/// How many connections an idle flood opens: what a small pool of misbehaving clients holds, and
/// far more than the peers of a cluster need.
const FLOOD: usize = 1024;

/// A fault of the links; one of the table [`FAULTS`].
#[derive(Debug, Clone, Copy)]
pub struct LinkFault {
    pub name: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Between all nodes: a round trip that takes this long, ms, and a share that is lost.
    Far(u64, f64),
    /// The cables of all nodes but the leader, Mbit/s.
    SlowFollowers(f64),
    LeaderAlone,
    FollowerAlone,
    /// What the leader sends is lost, what it is sent arrives.
    LeaderDumb,
    /// What the leader is sent is lost, what it sends arrives.
    LeaderDeaf,
    /// The leader and one follower do not reach each other; the others reach both.
    LeaderAndOne,
    /// All connections of one follower to the leader are refused.
    OneIsRefused,
    /// All connections of the followers to the leader are refused.
    AllAreRefused,
    /// Whatever the leader and a follower send each other is answered with resets.
    LeaderAndOneReset,
    /// Connections to the leader's port for peers that send nothing.
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

/// Faults that are not of the links: idle connections, and slow disks, which need strace.
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

    /// Whether the leader is well and reaches a majority, so that nothing justifies an election. A
    /// port that all followers find closed does.
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

    /// Brings it about in a cluster whose leader is this one, on a follower beside it.
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
    /// Ends it; how many packets, syncs or connections it touched. An error if a part of it did not
    /// bite.
    pub fn heal(self) -> Result<u64, Violation> {
        let touched: Vec<u64> = match self {
            Self::OnLinks(faults) => faults.iter().map(Fault::touched).collect(),
            Self::Disks(disks) => disks.iter().map(|disk| disk.fdatasyncs() as u64).collect(),
            Self::Connections(open) => vec![open.len().saturating_sub(FLOOD - 1) as u64],
        };
        let has_bitten = touched.iter().all(|count| *count > 0);
        require(has_bitten, NEVER_BIT, format!("touched {touched:?}"))?;
        Ok(touched.iter().sum())
    }
}

/// Refuses new connections of these followers to the leader, and breaks those that are open.
fn refuse(links: &Links, followers: &[usize], leader: usize) -> InForce {
    let pairs = Pairs::one_way(followers, &[leader]);
    let refused = links.impose(pairs, Condition::Refused);
    for follower in followers {
        links.break_connections(*follower, leader);
    }
    InForce::OnLinks(vec![refused])
}

/// Opens connections and leaves them as they are; one that is refused is not counted.
pub fn flood(address: &str) -> InForce {
    raise_open_files();
    let open = (0..FLOOD).filter_map(|_| TcpStream::connect(address).ok());
    InForce::Connections(open.collect())
}
