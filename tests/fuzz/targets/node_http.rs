//! Target `node_http`.
#![no_main]
seqd_fuzz::target!(seqd_node::fuzz::node_http);
