//! What this node knows of the others' starts: which were introduced to it, and what each has
//! acknowledged.
//!
//! - [`table`]: what each node has acknowledged, by which a disk that lost its memory is found
//! - [`starts`]: the table and the introductions of this process
//! - [`file`]: the table on the disk
//! - [`clock`]: a peer's wall clock, as one exchange measures it

pub(crate) mod clock;
pub(crate) mod file;
pub(crate) mod starts;
pub(crate) mod table;
