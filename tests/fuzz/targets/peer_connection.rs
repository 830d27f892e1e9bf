//! Target `peer_connection`.
#![no_main]
seqd_fuzz::target!(seqd_peers::wire::fuzz::peer_connection);
