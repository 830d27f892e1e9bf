//! Creates certificates: the CA of a cluster, and the certificates that it signs.

use std::net::IpAddr;

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::tls::certificate::{Certificate, Validity, node_uri};
use crate::tls::error::TlsError;

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct Issued {
    pub cert: String,
    pub key: String,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Issued").finish_non_exhaustive()
    }
}

/// The subject of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A node, for both of its ports, as server and as client.
    Node { name: String, hosts: Vec<String> },
    /// A client of the HTTP interface.
    Client { name: String },
}

/// A CA with its key.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    validity: Validity,
}

impl Authority {
    /// Creates a new CA. Its name ends with the first digits of the digest of its key, so names are
    /// unique.
    ///
    /// # Errors
    /// No key can be generated.
    pub fn create(name: &str, validity: Validity) -> Result<(Self, Issued), TlsError> {
        let key = KeyPair::generate().map_err(failed)?;
        let digest = CertificateParams::default().key_identifier(&key);
        let digest: String = digest.iter().take(4).map(|b| format!("{b:02x}")).collect();
        let mut params = params(&format!("{name} {digest}"), validity);
        // The CA signs certificates of nodes and clients, but no further CA.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issued = Issued {
            cert: params.self_signed(&key).map_err(failed)?.pem(),
            key: key.serialize_pem(),
        };
        let issuer = Issuer::new(params, key);
        Ok((Self { issuer, validity }, issued))
    }

    /// Loads a CA from PEM texts.
    ///
    /// # Errors
    /// The texts are not a certificate and its key.
    pub fn load(cert: &str, key: &str) -> Result<Self, TlsError> {
        let der = CertificateDer::from_pem_slice(cert.as_bytes())
            .map_err(|_| TlsError::new("it has no certificate"))?;
        let read = Certificate::read(&der)?;
        if !read.is_ca {
            return Err(TlsError::new("it is not a CA certificate"));
        }
        let key = KeyPair::from_pem(key).map_err(|_| TlsError::new("it has no private key"))?;
        let parsed = rustls::server::ParsedCertificate::try_from(&der);
        let public = parsed.map_err(|error| TlsError(error.to_string()))?;
        let own = rcgen::PublicKeyData::subject_public_key_info(&key);
        if public.subject_public_key_info().as_ref() != own.as_slice() {
            return Err(TlsError::new("the key does not belong to the certificate"));
        }
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(failed)?;
        let validity = read.validity;
        Ok(Self { issuer, validity })
    }

    /// The part of a period in which the CA itself is valid.
    #[must_use]
    pub fn within(&self, validity: Validity) -> Validity {
        let until = validity.until.min(self.validity.until);
        Validity { until, ..validity }
    }

    /// Issues a certificate with a new key. It does not outlive the CA itself.
    ///
    /// # Errors
    /// The name is not valid in a certificate.
    pub fn issue(&self, subject: &Subject, validity: Validity) -> Result<Issued, TlsError> {
        let validity = self.within(validity);
        let (name, hosts, uses) = match subject {
            Subject::Node { name, hosts } => {
                let both = [
                    ExtendedKeyUsagePurpose::ServerAuth,
                    ExtendedKeyUsagePurpose::ClientAuth,
                ];
                (name, hosts.as_slice(), both.to_vec())
            }
            Subject::Client { name } => {
                let client = [ExtendedKeyUsagePurpose::ClientAuth];
                (name, [].as_slice(), client.to_vec())
            }
        };
        let mut params = params(name, validity);
        params.extended_key_usages = uses;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        for host in hosts {
            params.subject_alt_names.push(match host.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(ia5(host)?),
            });
        }
        if let Subject::Node { name, .. } = subject {
            let uri = SanType::URI(ia5(&node_uri(name))?);
            params.subject_alt_names.push(uri);
        }
        let key = KeyPair::generate().map_err(failed)?;
        let cert = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Issued {
            cert: cert.pem(),
            key: key.serialize_pem(),
        })
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Authority").finish_non_exhaustive()
    }
}

fn params(name: &str, validity: Validity) -> CertificateParams {
    let at = |seconds: i64| {
        let since = std::time::Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        date_time_ymd(1970, 1, 1) + since
    };
    let mut params = CertificateParams::default();
    params.not_before = at(validity.from);
    params.not_after = at(validity.until);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn ia5(text: &str) -> Result<Ia5String, TlsError> {
    Ia5String::try_from(text)
        .map_err(|_| TlsError(format!("{text:?} cannot be put into a certificate")))
}

fn failed(error: rcgen::Error) -> TlsError {
    TlsError(format!("cannot make a certificate: {error}"))
}
