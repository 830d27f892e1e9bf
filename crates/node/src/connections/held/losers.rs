//! Selects the connections that are closed to make room for new ones.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use seqd_state::Tenant;

/// A tenant with fewer connections than this loses none with a request in service. Connection pools
/// of the usual size have fewer.
pub(super) const FEW: usize = 16;

/// The order in which the connections of a tenant are closed. Connections without a request are
/// first, beginning with connections that have no unsent bytes and never had a request. Connections
/// whose requests wait are second. New connections are third: their first request may be on its
/// way, and a tenant that always loses its latest connection is never served. Connections with a
/// request in service are last. Among equals, the connection with the earliest event is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) is_served: bool,
    pub(super) is_new: bool,
    pub(super) waits: bool,
    pub(super) owes: bool,
    pub(super) has_asked: bool,
    pub(super) since: u64,
}

/// A connection that may be closed, with its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    pub(super) rank: Rank,
    pub(super) at: usize,
}

/// The connections of a tenant that are not closed yet.
struct Load {
    tenant: Tenant,
    /// In reverse order: the last element is closed first.
    connections: Vec<Candidate>,
    /// The connections at rest that are not new.
    old: usize,
    /// The new connections at rest.
    new: usize,
}

impl Load {
    fn new(tenant: Tenant, mut connections: Vec<Candidate>) -> Self {
        connections.sort_unstable_by_key(|one| Reverse(*one));
        let at_rest = |is_new| {
            let all = connections.iter();
            all.filter(|one| !one.rank.is_served && one.rank.is_new == is_new)
                .count()
        };
        Self {
            tenant,
            old: at_rest(false),
            new: at_rest(true),
            connections,
        }
    }

    /// The connections at rest that count in the comparison of tenants. The first [`FEW`] new
    /// connections do not count, because their client may be about to send a request.
    fn idle(&self) -> usize {
        self.old + self.new.saturating_sub(FEW)
    }

    fn is_client(&self) -> bool {
        self.tenant != Tenant::OPERATOR
    }

    /// The number of connections. Those of the operator do not count.
    fn count(&self) -> usize {
        if self.is_client() {
            self.connections.len()
        } else {
            0
        }
    }

    fn close(&mut self) -> Option<Candidate> {
        let closed = self.connections.pop()?;
        match closed.rank {
            Rank {
                is_served: true, ..
            } => {}
            Rank { is_new: true, .. } => self.new -= 1,
            _ => self.old -= 1,
        }
        Some(closed)
    }
}

/// Totals over all tenants.
struct Crowd {
    /// The largest number of connections of one client.
    most: usize,
    /// The connections at rest of all clients.
    at_rest: usize,
}

/// The kind of the connection that a tenant may lose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    InService,
    New,
    Idle,
}

/// The order in which tenants lose connections; the greatest is first.
type Turn = (Kind, bool, usize, usize, Reverse<Option<Rank>>, Tenant);

impl Crowd {
    fn of(loads: &[Load]) -> Self {
        let clients = loads.iter().filter(|load| load.is_client());
        Self {
            most: loads.iter().map(Load::count).max().unwrap_or(0),
            at_rest: clients.map(|load| load.old + load.new).sum(),
        }
    }

    /// Returns whether a tenant may lose a connection at rest.
    ///
    /// A tenant with less than half as many connections as the largest tenant loses none to it,
    /// unless the connections at rest of all tenants together are as many as those of the largest.
    /// In that case, connections at rest fill the port, whatever their addresses, and one of them
    /// is closed instead of a connection with a request in service.
    fn may_take_from(&self, load: &Load) -> bool {
        2 * load.count() >= self.most || self.most < FEW || self.at_rest >= self.most
    }

    /// The tenant with the most idle connections loses an idle one. If no tenant has any, the
    /// tenant with the most new connections loses a new one. Otherwise, the tenant with the most
    /// connections loses one with a request in service.
    fn turn(&self, load: &Load) -> Turn {
        let (kind, number) = match (self.may_take_from(load), load.idle(), load.new) {
            (true, idle @ 1.., _) => (Kind::Idle, idle),
            (true, 0, new @ 1..) => (Kind::New, new),
            _ => (Kind::InService, 0),
        };
        let next = Reverse(load.connections.last().map(|one| one.rank));
        (
            kind,
            load.is_client(),
            number,
            load.count(),
            next,
            load.tenant,
        )
    }
}

/// Returns the connections to close for the next `most` new ones, in order. Returns fewer if no
/// more can be closed.
pub(super) fn losers(
    connections: impl Iterator<Item = (Tenant, Candidate)>,
    most: usize,
) -> Vec<Candidate> {
    let mut of_tenant: HashMap<Tenant, Vec<Candidate>> = HashMap::new();
    for (tenant, candidate) in connections {
        of_tenant.entry(tenant).or_default().push(candidate);
    }
    let loads = of_tenant.into_iter();
    let mut loads: Vec<Load> = loads.map(|(tenant, all)| Load::new(tenant, all)).collect();
    // Computed once: too few connections are closed to change the totals noticeably.
    let crowd = Crowd::of(&loads);
    let turns = loads.iter().enumerate();
    let mut turns: BinaryHeap<_> = turns.map(|(at, load)| (crowd.turn(load), at)).collect();
    let next = || {
        let ((kind, ..), at) = turns.pop()?;
        let load = &mut loads[at];
        if kind == Kind::InService && load.count() < FEW {
            return None;
        }
        let closed = load.close();
        turns.push((crowd.turn(load), at));
        closed
    };
    std::iter::from_fn(next).take(most).collect()
}
