//! Target `store_record`.
#![no_main]
seqd_fuzz::target!(seqd_store::fuzz::store_record);
