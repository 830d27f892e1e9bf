//! Tests of the parts together: openraft's own storage suite, and whole replicas in one process.

mod cluster;
mod storage_suite;
