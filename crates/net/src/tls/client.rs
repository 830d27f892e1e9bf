//! A client of the HTTP interface: the CAs that it trusts, and the certificate that it presents.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

pub use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, TlsStream};

use crate::tls::error::TlsError;
use crate::tls::files;
use crate::tls::material::{provider, roots};
use crate::tls::server::HTTP;
use crate::tls::stream::Secured;
use crate::tls::words::io_words;

/// The files of a client. All are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// The CAs of the nodes' certificates. The default is the CAs of the operating system.
    pub cacert: Option<PathBuf>,
    /// The client's own certificate and key.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

impl ClientFiles {
    /// Returns whether any file is given, so that the client uses TLS.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.cacert.is_some() || self.cert.is_some() || self.key.is_some()
    }
}

/// Returns the TLS configuration of a client. The CAs of the operating system are read only for
/// `https` endpoints.
///
/// # Errors
/// The files cannot be used.
pub fn client(files: &ClientFiles, any_https: bool) -> Result<ClientConfig, TlsError> {
    let trusted = match &files.cacert {
        Some(path) => roots(path, files::read_certificates(path)?)?,
        None if any_https => {
            let mut store = RootCertStore::empty();
            let found = rustls_native_certs::load_native_certs();
            store.add_parsable_certificates(found.certs);
            if store.is_empty() {
                let why = "this machine has no CA certificates: give --cacert with the CAs that \
                    signed the nodes' certificates";
                return Err(TlsError::new(why));
            }
            store.into()
        }
        None => RootCertStore::empty().into(),
    };
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| TlsError(error.to_string()))?;
    let builder = builder.with_root_certificates(trusted);
    let mut config = match (&files.cert, &files.key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(cert), Some(key)) => {
            let chain = files::read_certificates(cert)?;
            files::check_private(key)?;
            let own = builder.with_client_auth_cert(chain, files::read_key(key)?);
            own.map_err(|_| {
                let (cert, key) = (cert.display(), key.display());
                TlsError(format!("{key} is not the key of the certificate in {cert}"))
            })?
        }
        (cert, _) => {
            let missing = if cert.is_some() { "--key" } else { "--cert" };
            return Err(TlsError(format!(
                "--cert and --key belong together: {missing} is missing"
            )));
        }
    };
    config.alpn_protocols = vec![HTTP.to_vec()];
    Ok(config)
}

/// Runs the handshake of a client on a connection to `host`, the name or address that the
/// certificate of the other side must contain.
///
/// # Errors
/// `host` is neither a name nor an address, or the handshake failed.
pub async fn connect(
    config: Arc<ClientConfig>,
    host: &str,
    stream: TcpStream,
) -> io::Result<Secured<TcpStream>> {
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let open = TlsConnector::from(config).connect(name, stream).await;
    let open = open.map_err(io_words)?;
    Ok(Secured::open(TlsStream::Client(open), Box::new(|_| {})))
}
