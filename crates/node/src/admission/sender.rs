//! The sender of a request.

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
    /// The sender of a request on this connection, which is charged to the caller's token.
    pub(crate) fn on(connection: ClientConnection, caller: Caller) -> Self {
        if !matches!(caller, Caller::Anyone) {
            connection.charge(caller.tenant(None));
        }
        let connection = Some(connection);
        Self { caller, connection }
    }

    /// The tenant that is charged for the request.
    pub(crate) fn tenant(&self) -> Tenant {
        let address = self.connection.as_ref().and_then(ClientConnection::address);
        self.caller.tenant(address)
    }
}
