//! The envelope before a message.
//!
//! Every message, request and response, contains its cluster, its sender, its target node, and the
//! sender's boot number and nonce. A message for another node or cluster is refused, whatever its
//! route.
//!
//! The envelope is encoded separately before the message, so that a node can read it even if the
//! message is of a newer version.

use seqd_state::codec::Versioned;
use serde::{Deserialize, Serialize};

use crate::table::Start;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    pub cluster_id: String,
    pub from: u64,
    pub to: u64,
    /// The sender's start: the number of starts of its folder, and a random number that differs
    /// between two copies of the same folder.
    pub start: Start,
}

impl Versioned for Envelope {
    const KIND: u8 = 110;
    const VERSION: u8 = 1;
}
