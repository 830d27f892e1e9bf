//! Target `wal_open`.
#![no_main]
seqd_fuzz::target!(seqd_wal::fuzz::wal_open);
