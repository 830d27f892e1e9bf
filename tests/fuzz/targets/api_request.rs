//! Target `api_request`.
#![no_main]
seqd_fuzz::target!(seqd_api::fuzz::api_request);
