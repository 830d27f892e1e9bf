//! Target `store_snapshot`.
#![no_main]
seqd_fuzz::target!(seqd_store::fuzz::store_snapshot);
