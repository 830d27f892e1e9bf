//! Hosts of a network, and the ordered pairs of hosts between which a fault applies.

use std::net::Ipv4Addr;

/// The largest number of nodes in one network. The harness has its own place.
pub const MOST_NODES: usize = 15;

/// The last number of the harness's address.
const HARNESS: u8 = 254;

/// A host in the network: a node, or the harness with its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(u8);

impl Host {
    pub const HARNESS: Host = Host(MOST_NODES as u8);

    pub fn node(index: usize) -> Self {
        assert!(index < MOST_NODES, "{MOST_NODES} nodes at most");
        Self(u8::try_from(index).expect("a small number"))
    }

    /// The host with this address, from the last number.
    pub(super) fn of_address(address: Ipv4Addr) -> Option<Self> {
        match address.octets()[3] {
            HARNESS => Some(Self::HARNESS),
            number => {
                let index = usize::from(number).checked_sub(1)?;
                (index < MOST_NODES).then(|| Self::node(index))
            }
        }
    }

    /// The last number of the host's address.
    pub(super) fn number(self) -> u8 {
        if self == Self::HARNESS {
            HARNESS
        } else {
            self.0 + 1
        }
    }
}

/// A set of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nodes(u16);

impl Nodes {
    pub fn of(nodes: &[usize]) -> Self {
        let bit = |node: &usize| 1 << Host::node(*node).0;
        Self(nodes.iter().map(bit).fold(0, |all, one| all | one))
    }

    pub(super) fn has(self, host: Host) -> bool {
        self.0 & (1 << host.0) != 0
    }
}

/// Ordered pairs of hosts: for each sender, a bit for each receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pairs([u16; MOST_NODES + 1]);

impl Pairs {
    /// From these nodes to those.
    pub fn one_way(from: &[usize], to: &[usize]) -> Self {
        let mut pairs = Self::default();
        for &from in from {
            for &to in to {
                pairs = pairs.with(Host::node(from), Host::node(to));
            }
        }
        pairs
    }

    /// Between these nodes and those, in both directions.
    pub fn between(some: &[usize], others: &[usize]) -> Self {
        Self::one_way(some, others).and(Self::one_way(others, some))
    }

    /// Between any two of the first `nodes` nodes.
    pub fn all(nodes: usize) -> Self {
        let all: Vec<usize> = (0..nodes).collect();
        Self::one_way(&all, &all)
    }

    /// Between these nodes and all others of the first `nodes` nodes.
    pub fn around(some: &[usize], nodes: usize) -> Self {
        let others: Vec<usize> = (0..nodes).filter(|node| !some.contains(node)).collect();
        Self::between(some, &others)
    }

    /// All packets that these nodes send and receive, including the harness's requests.
    pub fn cables(nodes: &[usize]) -> Self {
        let mut pairs = Self::default();
        for &node in nodes {
            let every = (0..MOST_NODES).map(Host::node).chain([Host::HARNESS]);
            for other in every {
                pairs = pairs.with(Host::node(node), other);
                pairs = pairs.with(other, Host::node(node));
            }
        }
        pairs
    }

    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        for (row, more) in self.0.iter_mut().zip(other.0) {
            *row |= more;
        }
        self
    }

    fn with(mut self, from: Host, to: Host) -> Self {
        if from != to {
            self.0[usize::from(from.0)] |= 1 << to.0;
        }
        self
    }

    pub(super) fn has(&self, from: Host, to: Host) -> bool {
        self.0[usize::from(from.0)] & (1 << to.0) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_has_a_direction() {
        let (a, b, c) = (Host::node(0), Host::node(1), Host::node(2));
        let one_way = Pairs::one_way(&[0], &[1, 2]);
        assert!(one_way.has(a, b) && one_way.has(a, c));
        assert!(!one_way.has(b, a) && !one_way.has(b, c));
        let around = Pairs::around(&[1], 3);
        assert!(around.has(a, b) && around.has(b, c) && !around.has(a, c));
        assert!(!around.has(Host::HARNESS, b));
        let cables = Pairs::cables(&[1]);
        assert!(cables.has(Host::HARNESS, b) && cables.has(b, Host::HARNESS));
        assert!(!cables.has(Host::HARNESS, a));
        assert!(!Pairs::all(3).has(a, a));
    }

    #[test]
    fn an_address_names_a_host_and_a_host_an_address() {
        for host in [Host::node(0), Host::node(14), Host::HARNESS] {
            let address = Ipv4Addr::new(10, 201, 0, host.number());
            assert_eq!(Host::of_address(address), Some(host));
        }
        assert_eq!(Host::of_address(Ipv4Addr::new(10, 201, 0, 0)), None);
        assert_eq!(Host::of_address(Ipv4Addr::new(10, 201, 0, 16)), None);
    }
}
