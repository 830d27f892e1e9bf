//! Target `state_entries`.
#![no_main]
seqd_fuzz::target!(seqd_state::fuzz::state_entries);
