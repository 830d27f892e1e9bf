//! The commands, one file per command.

pub(crate) mod access;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod data;
pub(crate) mod decode;
pub(crate) mod doctor;
pub(crate) mod drain;
pub(crate) mod elect;
#[cfg(test)]
pub(crate) mod example;
pub(crate) mod id;
pub(crate) mod import;
pub(crate) mod key;
pub(crate) mod layout;
pub(crate) mod leader;
pub(crate) mod lock;
pub(crate) mod man;
pub(crate) mod member;
mod pages;
pub(crate) mod run_held;
pub(crate) mod seq;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod takeover;
pub(crate) mod timestamp;
pub(crate) mod tls;
pub(crate) mod token;
pub(crate) mod uuid;
pub(crate) mod verify_ids;
pub(crate) mod version;
pub(crate) mod worker;
