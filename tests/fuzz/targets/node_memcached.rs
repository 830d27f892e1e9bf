//! Target `node_memcached`.
#![no_main]
seqd_fuzz::target!(seqd_node::fuzz::node_memcached);
