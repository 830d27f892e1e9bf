//! The ports of a node: how connections come in, at the clients' port and at the peers'.
//!
//! There is one way in for both: a [`Listen`] yields streams, and an [`Acceptor`] bounds how many
//! are held at once. [`serve`] answers HTTP/1 on each of the clients'. Out to peers it is a
//! [`Dial`]. TLS stands around these two (`secure`), and a simulated network in their place.

mod acceptor;
mod dial;
mod held;
mod http;
mod listen;
mod paced;
mod secure;

pub use acceptor::{Acceptor, Connection};
pub use dial::{Dial, Dialing, TcpDial, WhoIsAt};
pub use held::Pause;
pub use http::{Answered, ClientConnection, HttpLimits, Streamed, Unreadable, serve};
pub use listen::{Accepted, Accepting, BoxStream, Listen, Stream, TcpPort};
pub use secure::{SecureDial, SecurePort};
