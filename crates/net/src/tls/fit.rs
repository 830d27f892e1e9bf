//! Checks whether a file has the key of a certificate.

use std::fmt;
use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;

use crate::tls::files;
use crate::tls::material::provider;

/// The result of the check of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFit {
    Fits,
    /// The file has the key of another certificate.
    Other,
    /// The file cannot be used, for this reason.
    Unfit(String),
}

impl fmt::Display for KeyFit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fits => out.write_str("fits"),
            Self::Other => out.write_str("is another certificate's"),
            Self::Unfit(why) => out.write_str(why),
        }
    }
}

/// Checks that the file `key` contains the private key of a certificate and is inaccessible to
/// other users.
#[must_use]
pub fn key_fit(cert: &CertificateDer<'static>, key: &Path) -> KeyFit {
    let read = files::check_private(key).and_then(|()| files::read_key(key));
    match read {
        Ok(read) => match CertifiedKey::from_der(vec![cert.clone()], read, &provider()) {
            Ok(_) => KeyFit::Fits,
            Err(rustls::Error::InconsistentKeys(_)) => KeyFit::Other,
            Err(_) => KeyFit::Unfit("is of an unsupported kind".to_owned()),
        },
        Err(error) => KeyFit::Unfit(error.to_string()),
    }
}
