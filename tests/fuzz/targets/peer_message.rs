//! Target `peer_message`.
#![no_main]
seqd_fuzz::target!(seqd_raft::fuzz::peer_message);
