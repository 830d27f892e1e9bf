//! File descriptors: how many this process may have, and what they are for.
//!
//! A node that has none left for its log ends. So connections get what is left when the log, the checkpoint
//! and the links to the peers have theirs.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Of the log's segments, the checkpoint, snapshots that are written, read and sent, and the runtime.
const STORAGE: usize = 192;

/// Connections of clients, where there are descriptors for them: more than a pool of each of a few hundred clients
/// needs. One costs up to 48 KiB of buffers, so all together less than 200 MiB.
pub(crate) const CLIENTS: usize = 4096;

/// With fewer there is no place for a few clients.
const LEAST: usize = 512;

/// More are of no use: every connection that is allowed, several times.
const MOST: u64 = 65_536;

/// What connections may have at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Of the whole process.
    pub all: usize,
    /// Connections of clients.
    pub clients: usize,
    /// Connections that peers and strangers open to the peers' port.
    pub peers: usize,
}

impl Descriptors {
    /// Raises the limit of this process as far as it may, and parts it.
    ///
    /// # Errors
    /// Too few, with what to do.
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

    fn of(all: usize) -> io::Result<Self> {
        if all < LEAST {
            return Err(io::Error::other(format!(
                "this process may have {all} open files, and a node needs {LEAST} at least: raise the limit \
                 (ulimit -n, or LimitNOFILE of its unit)"
            )));
        }
        let peers = (all / 8).min(1025);
        // Five to each of at most 63 others.
        let to_peers = (all / 16).min(315);
        Ok(Self {
            all,
            clients: (all - STORAGE - peers - to_peers).min(CLIENTS),
            peers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: usize) -> (usize, usize) {
        let parts = Descriptors::of(all).unwrap();
        (parts.clients, parts.peers)
    }

    #[test]
    fn clients_get_what_storage_and_peers_leave() {
        assert_eq!(of(512), (224, 64));
        assert_eq!(of(1024), (640, 128));
        assert_eq!(of(65_536), (CLIENTS, 1025));
    }

    #[test]
    fn too_few_are_refused_with_what_to_do() {
        let refused = Descriptors::of(511).unwrap_err().to_string();
        assert!(
            refused.contains("511") && refused.contains("ulimit -n"),
            "{refused}"
        );
    }
}
