//! The only place that creates connections to nodes, with their limits and their TLS settings.

use std::time::Duration;

use reqwest::redirect;
use seqd_net::tls::ClientFiles;

use crate::error::Error;

/// The longest wait for a connection. A running host accepts much faster, and the next endpoint
/// waits for its turn.
const MAX_CONNECT: Duration = Duration::from_secs(2);

/// Creates a pool of connections. `whole` is the longest time of a request without a limit of its
/// own. Proxies and redirects are disabled: a request that changes something is sent once, to the
/// named node.
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
