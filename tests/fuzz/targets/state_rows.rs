//! Target `state_rows`.
#![no_main]
seqd_fuzz::target!(seqd_state::fuzz::state_rows);
