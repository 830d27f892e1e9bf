//! The contract between servers and clients of seqd: paths, wire types, error codes and text forms.
//!
//! The crate defines only the HTTP contract: it opens no socket, reads no clock and no file except
//! that of a [`Token`], and contains no logic of sequences. A response type may gain fields at any
//! time, so clients ignore unknown fields. A request with an unknown field is rejected, and the
//! error names the nearest known field.
//!
//! Layers, lowest first. A module imports only from its own layer and from those below it:
//!
//! - `address`, `advice`, `exit`, `format`, `json_text`, `name`, `nearest`, `number_text`, `paths`,
//!   `scope`, `secrets`, `token`, `unique`: text forms and names
//! - `code`: error codes, with their status and whether to retry
//! - `problem`: the body of an error
//! - `request`, `words`: requests as they are read
//! - `wire`, `operation`: the types of bodies, and the properties of an operation
//! - `operations`: the table
//! - `examples`: examples of requests and responses
//! - `openapi`: the description of the API for other tools

#![warn(missing_docs)]

pub mod address;
pub mod advice;
pub mod code;
mod examples;
pub mod exit;
pub mod format;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod json_text;
#[cfg(test)]
#[path = "../../../tests/fuzz/kept.rs"]
mod kept;
pub mod name;
pub mod nearest;
pub mod number_text;
pub mod openapi;
pub mod operation;
pub mod operations;
pub mod paths;
pub mod problem;
pub mod request;
pub mod scope;
pub mod secrets;
pub mod token;
mod unique;
pub mod wire;
mod words;

pub use advice::{call_or_command, command_of};
pub use code::ErrorCode;
pub use format::{FormatError, IdFormat, IdText};
pub use json_text::JsonText;
pub use name::{NameError, validate_name};
pub use nearest::nearest;
pub use operation::{Media, Method, Operation, Repeat, Typed};
pub use operations::{OPERATIONS, op};
pub use problem::{Problem, TLS_REQUIRED};
pub use request::Request;
pub use scope::{Need, Permission, PermissionError, Scope};
pub use secrets::{ACCESS_MARK, without_secret};
pub use token::{Token, TokenError, read_private};
pub use wire::*;
