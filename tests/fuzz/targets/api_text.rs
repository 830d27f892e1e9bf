//! Target `api_text`.
#![no_main]
seqd_fuzz::target!(seqd_api::fuzz::api_text);
