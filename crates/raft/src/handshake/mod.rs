//! What nodes exchange before they take anything else from each other.
//!
//! - asking and answering: [`hello`]
//! - two starts that judge each other: [`introduce`]
//! - a start that asks all peers for admission: [`admission`]

pub(crate) mod admission;
pub(crate) mod hello;
pub(crate) mod introduce;
