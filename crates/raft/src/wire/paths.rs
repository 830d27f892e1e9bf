//! The paths of the peers' port.

pub(crate) const APPEND: &str = "/raft/append";
pub(crate) const VOTE: &str = "/raft/vote";
pub(crate) const PRE_VOTE: &str = "/raft/pre-vote";
pub(crate) const TRANSFER: &str = "/raft/transfer";
pub(crate) const SNAPSHOT: &str = "/raft/snapshot";
pub(crate) const FORWARD: &str = "/forward";
pub(crate) const READ_INDEX: &str = "/read-index";
pub(crate) const MEMBERS: &str = "/members";
pub(crate) const PING: &str = "/ping";
pub(crate) const WATCH: &str = "/watch";
pub(crate) const HELLO: &str = "/hello";
pub(crate) const PREPARE: &str = "/prepare";
pub(crate) const ADOPT: &str = "/adopt";
