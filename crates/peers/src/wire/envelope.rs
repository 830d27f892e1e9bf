//! The envelope before a message.
//!
//! Every message, request and reply, names its cluster, its sender, the node it is meant for, and
//! the sender's boot number and nonce. A message for another node or cluster is refused, whatever
//! way it took.
//!
//! The envelope is a value of its own before the message, so that a node can read it even if the
//! message is of a newer version.

use seqd_state::codec::Versioned;
use serde::{Deserialize, Serialize};

use crate::table::Start;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    pub cluster_id: String,
    pub from: u64,
    pub to: u64,
    /// The sender's start: how often its folder was started, and the number drawn at that start,
    /// in which two copies of one folder differ.
    pub start: Start,
}

impl Versioned for Envelope {
    const KIND: u8 = 110;
    const VERSION: u8 = 1;
}
