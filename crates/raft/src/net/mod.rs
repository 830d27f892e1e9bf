//! The ports of a node: how connections come in, at the clients' port and at the peers'.
//!
//! There is one way in for both: a [`Listen`] yields streams, an [`Acceptor`] bounds how many are
//! held at once, and [`serve`] answers HTTP/1 on each. TLS belongs into a [`Listen`], and so does a
//! simulated network.

mod acceptor;
mod http;
mod listen;

pub use acceptor::{Acceptor, Connection};
pub use http::{HttpLimits, serve};
pub use listen::{Accepting, BoxStream, Listen, Stream, TcpPort};
