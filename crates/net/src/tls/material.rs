//! A certificate, its key and the CAs, read from files and checked for consistency.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;

use crate::tls::certificate::Certificate;
use crate::tls::error::TlsError;
use crate::tls::files;

/// The paths of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    pub cert: PathBuf,
    pub key: PathBuf,
    /// The CAs of the other side's certificates.
    pub ca: Option<PathBuf>,
}

/// The bytes of all files, to detect changes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    ca: Option<Vec<u8>>,
}

impl Files {
    pub(crate) fn contents(&self) -> Result<Contents, TlsError> {
        files::check_private(&self.key)?;
        Ok(Contents {
            cert: files::read(&self.cert)?,
            key: files::read(&self.key)?,
            ca: self.ca.as_deref().map(files::read).transpose()?,
        })
    }
}

/// The content of the files.
#[derive(Debug)]
pub struct Material {
    pub(crate) certified: Arc<CertifiedKey>,
    pub(crate) roots: Option<Arc<RootCertStore>>,
    /// The presented certificate.
    pub leaf: Certificate,
    pub(crate) files: Files,
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The CAs of a file.
pub(crate) fn roots(
    path: &std::path::Path,
    found: Vec<CertificateDer<'static>>,
) -> Result<Arc<RootCertStore>, TlsError> {
    let mut store = RootCertStore::empty();
    for der in found {
        let shown = path.display();
        let certificate =
            Certificate::read(&der).map_err(|error| TlsError(format!("{shown}: {error}")))?;
        if !certificate.is_ca {
            let owner = certificate.owner();
            return Err(TlsError(format!(
                "{shown} has the certificate of {owner}, which is not a CA: give the certificate \
                 of the CA that signed it"
            )));
        }
        store
            .add(der)
            .map_err(|_| TlsError(format!("{shown} has a CA that cannot be used")))?;
    }
    Ok(Arc::new(store))
}

impl Material {
    pub(crate) fn of(files: &Files, contents: &Contents, now: i64) -> Result<Self, TlsError> {
        let shown = files.cert.display();
        let chain = files::certificates(&files.cert, &contents.cert)?;
        let key = files::key(&files.key, &contents.key)?;
        let leaf = chain.first().map(Certificate::read);
        let leaf = leaf.unwrap_or_else(|| Err(TlsError::new("no certificate")));
        let leaf = leaf.map_err(|error| TlsError(format!("{shown}: {error}")))?;
        leaf.validity
            .check(now)
            .map_err(|why| TlsError(format!("{shown}: the certificate {why}")))?;
        if leaf.is_ca {
            return Err(TlsError(format!(
                "{shown} begins with a CA certificate: the node's or client's own certificate \
                 must come first"
            )));
        }
        let certified = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| {
            let key = files.key.display();
            TlsError(match error {
                rustls::Error::InconsistentKeys(_) => {
                    format!("{key} is not the key of the certificate in {shown}")
                }
                _ => format!("{key} has a key of an unsupported kind: use ECDSA or RSA"),
            })
        })?;
        let roots = match (&files.ca, &contents.ca) {
            (Some(path), Some(bytes)) => Some(roots(path, files::certificates(path, bytes)?)?),
            _ => None,
        };
        Ok(Self {
            certified: Arc::new(certified),
            roots,
            leaf,
            files: files.clone(),
        })
    }

    /// Returns the presented chain.
    pub(crate) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }
}
