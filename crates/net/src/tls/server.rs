//! The clients' port: the certificate of this node, and the CAs of clients if they must present
//! certificates.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use seqd_guards::is_out;

use crate::tls::error::TlsError;
use crate::tls::material::{Material, provider};

/// The only protocol inside TLS.
pub(crate) const HTTP: &[u8] = b"http/1.1";

/// The TLS configuration of the clients' port.
#[derive(Clone, Debug)]
pub struct ServerTls(pub(crate) Arc<ServerConfig>);

/// Returns the TLS configuration of the clients' port. With a CA, each client must present a
/// certificate.
///
/// TLS 1.2 is accepted too: Java 8 and older versions of Windows support nothing newer, and the
/// HTTP library compiles its code in any case.
///
/// # Errors
/// The certificate is not valid for a server.
pub fn client_port(material: &Material) -> Result<ServerTls, TlsError> {
    if !material.leaf.for_server {
        let shown = material.files.cert.display();
        return Err(TlsError(format!("{shown} is not made for a server")));
    }
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| TlsError(error.to_string()))?;
    let builder = match &material.roots {
        None => builder.with_no_client_auth(),
        Some(roots) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), provider());
            let verifier = verifier.build();
            let verifier = verifier.map_err(|error| TlsError(error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = SingleCertAndKey::from(Arc::clone(&material.certified).as_ref().clone());
    let mut config = builder.with_cert_resolver(Arc::new(key));
    config.alpn_protocols = vec![HTTP.to_vec()];
    if material.roots.is_some() {
        disable_resumption(&mut config);
    }
    Ok(ServerTls(Arc::new(config)))
}

/// Disables session resumption, so that a port that requires certificates checks each connection
/// with the CAs and the time of its own beginning. A resumed session would keep the identity of a
/// certificate that has expired since, or whose CA was replaced, and its tickets could be chained
/// indefinitely.
pub(crate) fn disable_resumption(config: &mut ServerConfig) {
    if is_out!(NoResumption) {
        return;
    }
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
}
