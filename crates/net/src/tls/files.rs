//! PEM files: certificates and private keys, read with a size limit.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::tls::error::TlsError;

/// The largest file. It fits several hundred certificates, and the bundles of operating systems.
const MAX_BYTES: u64 = 1 << 20;

/// The mode bits that let every user of the machine access the file. Its group may read it, so that
/// a service can use a key owned by root.
const EVERYBODY: u32 = 0o007;

/// The bytes of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let shown = path.display();
    let failed = |error: std::io::Error| {
        let text = error.to_string();
        let reason = text.split(" (os error").next().unwrap_or_default();
        TlsError(format!("cannot read {shown}: {}", reason.to_lowercase()))
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(TlsError(format!(
            "{shown} is longer than {MAX_BYTES} bytes: it is not a file of certificates or keys"
        )));
    }
    Ok(bytes)
}

/// Rejects a key that every user of the machine can read.
///
/// # Errors
/// The mode of the file permits it.
pub fn check_private(path: &Path) -> Result<(), TlsError> {
    let Ok(known) = std::fs::metadata(path) else {
        // The code that reads the file reports the error.
        return Ok(());
    };
    let mode = known.mode() & 0o777;
    if mode & EVERYBODY == 0 {
        return Ok(());
    }
    let shown = path.display();
    Err(TlsError(format!(
        "{shown} is a private key and open to every user of this machine (mode {mode:04o}): \
         chmod 0600 {shown}"
    )))
}

/// The certificates of a file, at least one. A private key in the same file is ignored.
pub(crate) fn certificates(
    path: &Path,
    bytes: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let shown = path.display();
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(TlsError(format!(
            "{shown} has no certificate: PEM is expected, \"-----BEGIN CERTIFICATE-----\""
        ))),
        Err(_) => Err(TlsError(format!("{shown} is not complete PEM"))),
    }
}

/// The private key of a file.
pub(crate) fn key(path: &Path, bytes: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    let shown = path.display();
    PrivateKeyDer::from_pem_slice(bytes).map_err(|_| {
        let text = String::from_utf8_lossy(bytes);
        TlsError(if text.contains("ENCRYPTED") {
            format!("{shown} is encrypted with a password, which a service cannot enter")
        } else {
            format!("{shown} has no private key: PEM is expected, \"-----BEGIN PRIVATE KEY-----\"")
        })
    })
}

/// The certificates of a PEM file.
///
/// # Errors
/// The file cannot be read, or has none.
pub fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    certificates(path, &read(path)?)
}

/// The private key of a PEM file.
///
/// # Errors
/// The file cannot be read, or has none.
pub(crate) fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    key(path, &read(path)?)
}
