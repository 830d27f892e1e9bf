//! The ports of a node: how connections come in, at the clients' port and at the peers'.
//!
//! Both ports accept connections in the same way: a [`Listen`] yields streams, and an [`Acceptor`]
//! bounds their number. Connections to peers come from a [`Dial`]. TLS wraps these two ([`secure`]),
//! and a simulated network replaces them.

mod acceptor;
mod dial;
mod listen;
mod secure;

pub use acceptor::{Acceptor, Connection};
pub use dial::{Dial, Dialing, TcpDial, WhoIsAt};
pub use listen::{Accepted, Accepting, BoxStream, Listen, Stream, TcpPort};
pub use secure::{SecureDial, SecurePort};
