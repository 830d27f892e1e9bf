//! Segment sequences on this node: buffers of granted ranges, their refills, and their return.
//!
//! A request is served from its sequence's buffer; the cluster is asked only for the next range,
//! ahead of need. The pure double buffer is `seqd_idgen::SegmentBuffer`; here are the waits, the
//! order of those who wait, and the proposals.

mod segments;
mod slot;
mod staged;
#[cfg(test)]
mod tests;

pub(crate) use segments::SegmentBuffers;
pub(crate) use slot::NextError;
