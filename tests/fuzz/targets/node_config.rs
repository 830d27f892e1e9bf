//! Target `node_config`.
#![no_main]
seqd_fuzz::target!(seqd_node::fuzz::node_config);
