//! Certificates, keys and TLS for nodes, clients and the tools.
//!
//! Layers, lowest first:
//!
//! - `error`, `certificate`: error messages, and the content of a certificate
//! - `words`, `files`, `issue`: messages for TLS errors, PEM files, creating certificates
//! - `material`: a certificate, its key and the CAs, checked for consistency
//! - `fit`, `rotating`, `server`: keys of certificates, new files in use, the clients' port
//! - `client`, `peer`, `stream`: connections of clients and between nodes
//!
//! The current time is an argument, except in a handshake, where rustls reads the clock.

mod certificate;
mod client;
mod error;
mod files;
mod fit;
pub mod issue;
mod material;
mod peer;
mod rotating;
mod server;
mod stream;
pub mod testing;
#[cfg(test)]
mod tests;
mod words;

pub use certificate::{Certificate, Validity, node_uri};
pub use client::{ClientConfig, ClientFiles, client, connect};
pub use error::TlsError;
pub use files::{check_private, read_certificates};
pub use fit::{KeyFit, key_fit};
pub use material::{Files, Material};
pub use peer::{PeerTls, dial};
pub use rotating::{Look, Rotating};
pub use server::{ServerTls, client_port};
pub use stream::{Accept, Certified, Secured, WRITE_BUFFER, accept};
pub use words::{is_certificate_refused, words_of};
