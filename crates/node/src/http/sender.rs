//! The sender of a request.

use axum::body::Body;
use axum::http;
use seqd_state::Tenant;

use crate::access::Caller;
use crate::connections::ClientConnection;

/// The caller of a request and its connection. Hot operations get it as an argument, because an
/// extension of the request costs three allocations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sender {
    pub(crate) caller: Caller,
    /// `None` within one process.
    pub(crate) connection: Option<ClientConnection>,
}

impl Sender {
    /// Takes the sender of a request that the router has matched.
    pub(super) fn take(request: &mut http::Request<Body>) -> Self {
        request.extensions_mut().remove().unwrap_or_default()
    }

    /// The tenant that is charged for the request.
    pub(super) fn tenant(&self) -> Tenant {
        let address = self.connection.as_ref().and_then(ClientConnection::address);
        self.caller.tenant(address)
    }
}
