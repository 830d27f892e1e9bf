//! Target `peer_frames`.
#![no_main]
seqd_fuzz::target!(seqd_peers::wire::fuzz::peer_frames);
