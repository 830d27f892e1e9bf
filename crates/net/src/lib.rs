//! Connections: listeners, dialing, TLS, and a limit on the number of connections.
//!
//! Both ports of a node accept connections in the same way: a [`Listen`] yields streams, and an
//! [`Acceptor`] limits their number. Connections to peers come from a [`Dial`]. A simulated network
//! replaces both traits.
//!
//! Layers, lowest first. A module imports only from its own layer and from those below it:
//!
//! - [`tls`]: certificates and TLS on a stream; everything that the client needs
//! - `lock`: a mutex without poisoning, for `peers` and `raft`
//! - `listen`, `dial`: the traits of both ends, and TCP
//! - `secure`: TLS around a listener and around dialed connections
//! - `acceptor`: the limit on connections

mod acceptor;
mod dial;
mod listen;
mod lock;
mod secure;
pub mod tls;

pub use acceptor::Acceptor;
pub use dial::{Dial, Dialing, TcpDial, WhoIsAt};
pub use listen::{Accepted, Accepting, BoxStream, Listen, Stream, TcpPort};
pub use lock::Lock;
pub use secure::{SecureDial, SecurePort};
pub use tls::WRITE_BUFFER;
