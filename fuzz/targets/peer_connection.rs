//! Target `peer_connection`.
#![no_main]
seqd_fuzz::target!(seqd_raft::fuzz::peer_connection);
