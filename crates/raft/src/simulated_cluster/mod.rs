//! Whole clusters in one process, from one seed, in virtual time.
//!
//! Three to five nodes run the real code except for their access to the process: this crate with
//! openraft, the log, snapshots and state, proposals, leases, the handshake and the connections
//! between peers. Simulated are the time ([`tokio::time`] paused: it jumps to the next timer when
//! no task can run), the disks ([`seqd_disk::simulated`]), the network ([`net`]), the clocks
//! ([`nodes`]) and the random numbers ([`crate::platform`]).
//!
//! A run founds a cluster, applies a [`plan`] of faults under the load of [`clients`], heals all
//! faults, and must recover within a bound of virtual time. Equal seeds give equal runs, byte for
//! byte.
//!
//! The checks:
//! 1. There is one leader per term, as every node stores it.
//! 2. Each entry has one term and leads to one digest of the state, on every node and each time it
//!    is applied.
//! 3. The [`history`] is consistent: no index of a sequence is returned twice; counters behave like
//!    those of a single machine (linearizable, reads too); everything acknowledged is present at
//!    the end; nothing was carried out twice; windows of a worker are disjoint.
//! 4. Logs that share an entry of one index and term are equal up to it, applied or not.
//! 5. The IDs that all nodes mint ([`minters`]) are unique over all workers and starts. The IDs of
//!    each lease rise and are in the window that was committed before. Windows of a worker are
//!    disjoint.
//! 6. No node stops on its own, unless it was removed.
//! 7. After the faults, every member accepts a write and answers a read within 20 s, and all states
//!    are equal.

mod clients;
mod far_links;
mod guards;
mod handovers;
mod history;
mod ids;
mod locks;
mod lost_leaders;
mod minters;
mod net;
mod nodes;
mod pipe;
mod plan;
mod record;
mod run;
mod scenarios;
mod shrink;
mod tests;
mod wrong_clocks;
