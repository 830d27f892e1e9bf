//! The exchange between nodes before they accept any other message from each other.
//!
//! - sending and answering hellos: [`hello`]
//! - two starts that check each other: [`introduce`]
//! - a start that requests admission from all peers: [`admission`]

pub(crate) mod admission;
pub(crate) mod hello;
pub(crate) mod introduce;
