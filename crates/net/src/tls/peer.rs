//! The peers' port: each side presents the certificate of its node, signed by the cluster's CA.
//!
//! Invariants:
//! - The certificates of both sides are signed by a CA of `tls.peer_ca`, and name a node.
//! - A node dials a name, not an address: the other side must be that node.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, OtherError,
    PeerIncompatible, RootCertStore, ServerConfig, SignatureScheme,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsConnector, TlsStream};

use crate::tls::certificate::Certificate;
use crate::tls::error::TlsError;
use crate::tls::material::{Material, provider};
use crate::tls::server::disable_resumption;
use crate::tls::stream::Secured;
use crate::tls::words::{io_words, words};

/// The TLS configuration of connections between nodes.
#[derive(Clone, Debug)]
pub struct PeerTls {
    pub(crate) accept: Arc<ServerConfig>,
    dial: Arc<ClientConfig>,
    judge: Arc<Judge>,
}

impl PeerTls {
    /// Creates the TLS configuration between this node, `node`, and its peers.
    ///
    /// # Errors
    /// The certificate belongs to another node, or the peers would not accept it.
    pub fn new(material: &Material, node: &str) -> Result<Self, TlsError> {
        let shown = material.files.cert.display();
        let owner = material.leaf.owner();
        match &material.leaf.node {
            Some(named) if named == node => {}
            Some(_) => {
                let why = format!("{shown} is the certificate of {owner}, and this node is {node}");
                return Err(TlsError(why));
            }
            None => {
                return Err(TlsError(format!(
                    "{shown} does not name a node: `seqd tls init` makes certificates that do"
                )));
            }
        }
        let roots = material.roots.clone();
        let roots = roots.ok_or_else(|| TlsError::new("tls.peer_ca is missing"))?;
        let judge = Arc::new(Judge::new(roots)?);
        judge.check_own(material.chain()).map_err(|error| {
            let why = words(&error);
            TlsError(format!("the peers would refuse {shown}: {why}"))
        })?;
        let key = SingleCertAndKey::from(material.certified.as_ref().clone());
        let key = Arc::new(key);
        let failed = |error: rustls::Error| TlsError(error.to_string());
        let mut accept = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(failed)?
            .with_client_cert_verifier(Arc::clone(&judge) as _)
            .with_cert_resolver(Arc::clone(&key) as _);
        disable_resumption(&mut accept);
        let mut dial = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(failed)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Expecting {
                judge: Arc::clone(&judge),
                node: None,
            }))
            .with_client_cert_resolver(key);
        dial.resumption = Resumption::disabled();
        dial.enable_sni = false;
        Ok(Self {
            accept: Arc::new(accept),
            dial: Arc::new(dial),
            judge,
        })
    }
}

/// Runs TLS on a connection to a peer: to `node`, or to any node of the cluster if it is unknown
/// which node has that address. `failed` is called if one side rejects the other, even if the peer
/// does so after this side has finished its part of the handshake.
///
/// # Errors
/// The connection broke, or one side rejected the certificate of the other. The error has a
/// readable message.
pub async fn dial<S>(
    tls: &PeerTls,
    node: Option<String>,
    stream: S,
    failed: impl Fn(&io::Error) + Send + 'static,
) -> io::Result<Secured<S>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut config = tls.dial.as_ref().clone();
    config
        .dangerous()
        .set_certificate_verifier(Arc::new(Expecting {
            judge: Arc::clone(&tls.judge),
            node,
        }));
    // Neither sent nor checked: the verifier compares the name of the node.
    let name = ServerName::try_from("node").map_err(io::Error::other)?;
    let connected = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await;
    let connected = connected.map_err(|error| {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            let why = "it closed the connection in the TLS handshake: check that its [tls] \
                settings match";
            return io::Error::new(error.kind(), why);
        }
        io_words(error)
    });
    match connected {
        Ok(stream) => Ok(Secured::open(TlsStream::Client(stream), Box::new(failed))),
        Err(error) => {
            failed(&error);
            Err(error)
        }
    }
}

/// Returns the node that the other side's certificate names.
pub(crate) fn node_of(chain: Option<&[CertificateDer<'_>]>) -> Option<String> {
    Certificate::read(chain?.first()?).ok()?.node
}

/// Verifies the certificates of nodes.
#[derive(Debug)]
struct Judge {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
    clients: Arc<dyn ClientCertVerifier>,
}

impl Judge {
    fn new(roots: Arc<RootCertStore>) -> Result<Self, TlsError> {
        let provider = provider();
        let algorithms = provider.signature_verification_algorithms;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider);
        let clients = clients.build();
        Ok(Self {
            roots,
            algorithms,
            clients: clients.map_err(|error| TlsError(error.to_string()))?,
        })
    }

    /// Verifies this side's own certificate as peers will, both as a server's and as a client's.
    fn check_own(&self, chain: &[CertificateDer<'_>]) -> Result<(), rustls::Error> {
        let Some((leaf, rest)) = chain.split_first() else {
            return Err(rustls::Error::NoCertificatesPresented);
        };
        let now = UnixTime::now();
        self.check_dialled(leaf, rest, now, None)?;
        self.verify_client_cert(leaf, rest, now).map(|_| ())
    }

    fn check_dialled(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
        node: Option<&str>,
    ) -> Result<(), rustls::Error> {
        let parsed = ParsedCertificate::try_from(leaf)?;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            rest,
            now,
            self.algorithms.all,
        )?;
        check_node(leaf, node)
    }
}

/// Rejects a certificate that names no node, or another node than `expected`.
fn check_node(leaf: &CertificateDer<'_>, expected: Option<&str>) -> Result<(), rustls::Error> {
    let read = Certificate::read(leaf).map_err(|_| CertificateError::BadEncoding)?;
    let why = match (&read.node, expected) {
        (Some(node), Some(expected)) if node != expected => {
            let (found, expected) = (node.clone(), expected.to_owned());
            NotThisNode::Other { found, expected }
        }
        (Some(_), _) => return Ok(()),
        (None, _) => NotThisNode::None {
            subject: read.subject,
        },
    };
    Err(CertificateError::Other(OtherError(Arc::new(why))).into())
}

/// A certificate of the right CA for another node.
#[derive(Debug)]
enum NotThisNode {
    Other { found: String, expected: String },
    None { subject: String },
}

impl fmt::Display for NotThisNode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other { found, expected } => {
                write!(
                    out,
                    "its certificate belongs to {found}, but {expected} is expected there"
                )
            }
            Self::None { subject } => {
                write!(
                    out,
                    "its certificate, of {subject}, is not a node certificate"
                )
            }
        }
    }
}

impl std::error::Error for NotThisNode {}

impl ClientCertVerifier for Judge {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // The other side has only one certificate.
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.clients.verify_client_cert(leaf, rest, now)?;
        check_node(leaf, None)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Verifies the certificate of a dialed peer.
#[derive(Debug)]
struct Expecting {
    judge: Arc<Judge>,
    node: Option<String>,
}

impl ServerCertVerifier for Expecting {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.judge
            .check_dialled(leaf, rest, now, self.node.as_deref())?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.judge.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.judge.supported_verify_schemes()
    }
}
