//! Target `node_header`.
#![no_main]
seqd_fuzz::target!(seqd_node::fuzz::node_header);
