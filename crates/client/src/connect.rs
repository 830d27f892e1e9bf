//! The one place where connections to nodes are made: their limits, and what protects them.

use std::time::Duration;

use reqwest::redirect;
use seqd_net::tls::ClientFiles;

use crate::error::Error;

/// The longest wait for a connection: a host that is up answers in far less, and the next
/// endpoint is waiting for its turn.
const MAX_CONNECT: Duration = Duration::from_secs(2);

/// A pool of connections; `whole` is the longest time of a request that sets no limit of its own. No proxy and no redirect: a request that
/// changes something goes to the node that was named, once.
pub(crate) fn connector(
    whole: Duration,
    files: &ClientFiles,
    any_https: bool,
) -> Result<reqwest::Client, Error> {
    let tls = seqd_net::tls::client(files, any_https);
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls.map_err(|error| Error::Tls(error.to_string()))?)
        .connect_timeout(MAX_CONNECT.min(whole / 2))
        .timeout(whole)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .tcp_nodelay(true)
        .user_agent(concat!("seqd/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(Error::setup)
}
