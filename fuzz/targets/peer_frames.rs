//! Target `peer_frames`.
#![no_main]
seqd_fuzz::target!(seqd_raft::fuzz::peer_frames);
