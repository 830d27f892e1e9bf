//! Whole clusters in one process, from one seed, in virtual time.
//!
//! Three to five nodes are real but for what they take from the process around them: this crate with
//! openraft, the log, snapshots and state, proposals, leases, the handshake and the connections
//! between peers. Simulated are the time ([`tokio::time`] paused: it jumps to the next timer when no
//! task can run), the disks ([`seqd_disk::simulated`]), the network ([`net`]), the clocks ([`nodes`])
//! and the random numbers ([`crate::platform`]).
//!
//! A run founds a cluster, lives through a [`plan`] of faults under load of [`clients`], heals, and must
//! be well within a bound of virtual time. Equal seeds are equal runs, byte for byte.
//!
//! What is checked:
//! 1. One leader per term: as every node stores it.
//! 2. Each entry is of one term and leads to one digest of the state, on whichever node and however
//!    often it is applied.
//! 3. The [`history`]: no index of a sequence twice; counters as one machine would have them
//!    (linearizable, reads too); what was acknowledged is there at the end; nothing was carried out
//!    twice; windows of a worker are disjoint.
//! 4. Logs with an entry of one index and term are equal up to there, applied or not.
//! 5. The IDs that every node mints ([`minters`]): none twice, over all workers and starts; each lease's
//!    rise and lie in the window that was committed before; windows of a worker are disjoint.
//! 6. No node ends by itself, unless it was removed.
//! 7. After the faults every member takes a write and answers a read within 20 s, and all states are
//!    equal.

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
