//! Target `state_frame`.
#![no_main]
seqd_fuzz::target!(seqd_state::fuzz::state_frame);
