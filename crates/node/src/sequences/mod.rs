//! Segment sequences on this node: buffers of granted ranges, their refills, and their return.
//!
//! A request is served from the buffer of its sequence. Only the next range is requested from the
//! cluster, ahead of need. The pure double buffer is `seqd_idgen::SegmentBuffer`. This module adds
//! the waits, the order of waiting requests, and the proposals.

mod segments;
mod slot;
mod staged;
#[cfg(test)]
mod tests;

pub(crate) use segments::SegmentBuffers;
pub(crate) use slot::NextError;
