//! The bootstrap of a cluster, and the ways in which a node gets its identity.
//!
//! A bootstrap has two phases. The founder is the listed peer with the smallest name. Once it
//! reaches every listed peer, all of them are empty (or prepared by it), and all lists are equal,
//! it syncs its own identity and then gives each peer its own (`Prepare`). Only after all have
//! synced theirs does it write the first entry of the log. After a crash, it repeats the same
//! prepare. From the first entry on, an empty folder under a member's name counts as lost and is
//! refused.
//!
//! - this node's identity: [`obtain_identity`], or [`take`]n from another node
//! - the founder's two phases: [`founder`]
//! - an empty folder under a member's name: [`wiped`]

pub(crate) mod founder;
pub(crate) mod obtain_identity;
pub(crate) mod take;
mod wiped;
