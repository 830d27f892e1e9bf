//! Target `node_redis`.
#![no_main]
seqd_fuzz::target!(seqd_node::fuzz::node_redis);
