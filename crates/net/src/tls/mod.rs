//! Certificates and keys, and TLS with them: what nodes, clients and the tools share.
//!
//! From below: `error`, and the `words` for what TLS refuses; PEM `files`; what a
//! `certificate` states; `material`, a certificate, its key and the CAs beside it, checked to
//! fit; `server`, `peer` and `client`, how each kind of connection is set up; `rotating`, which
//! takes new files while connections go on; `stream`, a connection that shakes hands when it is
//! first used. Beside these `issue` makes certificates, and `fit` compares keys with them.
//!
//! The current time is an argument, except in a handshake: rustls reads the clock there.

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
pub use client::{ClientConfig, ClientFiles, client};
pub use error::TlsError;
pub use files::read_certificates;
pub use fit::{KeyFit, key_fit};
pub use material::{Files, Material};
pub use peer::{PeerTls, dial};
pub use rotating::{Look, Rotating};
pub use server::{ServerTls, client_port};
pub use stream::{Accept, Certified, Secured, accept};
pub use words::{is_certificate_refused, words_of};
