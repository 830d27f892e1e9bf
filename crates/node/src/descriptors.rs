//! File descriptors: the limit of this process, and its division.
//!
//! A node that has no descriptor left for its log stops. The log, the checkpoint and the links to
//! the peers therefore have a reserved share, and connections get the rest.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For the log's segments, the checkpoint, snapshots that are written, read or sent, and the
/// runtime.
const STORAGE: usize = 192;

/// The most connections of clients, if there are descriptors for them: more than the connection
/// pools of a few hundred clients need. A connection costs up to 48 KiB of buffers, so all of them
/// cost less than 200 MiB.
pub(crate) const CLIENTS: usize = 4096;

/// The most connections to the health port: several balancers and monitors.
pub(crate) const HEALTH: usize = 32;

/// With fewer descriptors, not even a few clients could connect.
const LEAST: usize = 512;

/// More descriptors are useless: this is several times the number of permitted connections.
const MOST: u64 = 65_536;

/// The limits of concurrent connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Open files of the whole process.
    pub all: usize,
    /// Connections of clients to one port, if there is no other.
    pub clients: usize,
    /// Connections to the peers' port, from peers and from strangers.
    pub peers: usize,
}

impl Descriptors {
    /// Raises the limit of this process as far as permitted, and divides it.
    ///
    /// # Errors
    /// The limit is too low. The error names the remedy.
    pub fn raised() -> io::Result<Self> {
        let limit = getrlimit(Resource::Nofile);
        let allowed = limit.maximum.unwrap_or(MOST).min(MOST);
        let mut current = limit.current.unwrap_or(MOST);
        if current < allowed {
            let raised = Rlimit {
                current: Some(allowed),
                maximum: limit.maximum,
            };
            match setrlimit(Resource::Nofile, raised) {
                Ok(()) => current = allowed,
                Err(error) => tracing::warn!(%error, "the limit of open files was not raised"),
            }
        }
        Self::of(usize::try_from(current).unwrap_or(usize::MAX))
    }

    /// The limits of client connections for the HTTP port, and for each of the other ports. Their
    /// sum is the limit that the HTTP port alone would have, so that several ports need no more
    /// memory.
    pub(crate) fn clients_of(&self, others: usize) -> (usize, usize) {
        match others {
            0 => (self.clients, 0),
            others => (self.clients / 2, self.clients / 2 / others),
        }
    }

    fn of(all: usize) -> io::Result<Self> {
        if all < LEAST {
            return Err(io::Error::other(format!(
                "this process may have {all} open files, and a node needs at least {LEAST}: raise \
                 the limit (ulimit -n, or LimitNOFILE of its unit)"
            )));
        }
        Ok(Self {
            all,
            clients: for_clients(all).min(CLIENTS),
            peers: from_peers(all),
        })
    }
}

fn from_peers(all: usize) -> usize {
    (all / 8).min(1025)
}

/// The descriptors that remain for clients after those of storage and peers. There are five
/// connections to each of at most 63 other nodes.
fn for_clients(all: usize) -> usize {
    let to_peers = (all / 16).min(315);
    all - STORAGE - from_peers(all) - to_peers - HEALTH
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: usize) -> (usize, usize) {
        let parts = Descriptors::of(all).unwrap();
        (parts.clients, parts.peers)
    }

    #[test]
    fn clients_get_the_descriptors_that_storage_and_peers_leave() {
        assert_eq!(of(512), (192, 64));
        assert_eq!(of(1024), (608, 128));
        assert_eq!(of(65_536), (CLIENTS, 1025));
    }

    #[test]
    fn several_ports_share_the_connections_of_clients() {
        let of = |others| Descriptors::of(65_536).unwrap().clients_of(others);
        assert_eq!(
            (of(0), of(1), of(2)),
            ((4096, 0), (2048, 2048), (2048, 1024))
        );
    }

    #[test]
    fn too_few_descriptors_are_refused_with_a_remedy() {
        let refused = Descriptors::of(511).unwrap_err().to_string();
        assert!(
            refused.contains("511") && refused.contains("ulimit -n"),
            "{refused}"
        );
    }
}
