//! The content of a certificate: its subject, its purpose, and its validity.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustls::pki_types::CertificateDer;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::tls::error::TlsError;

/// The prefix of a node's name in the URI of its certificate.
const NODE_URI: &str = "seqd:node:";

/// The number of seconds of a day.
const DAY: i64 = 24 * 3600;

/// Returns the URI that names the node of a certificate.
#[must_use]
pub fn node_uri(node: &str) -> String {
    format!("{NODE_URI}{node}")
}

/// The period in which a certificate is valid, in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub from: i64,
    pub until: i64,
}

impl Validity {
    /// A certificate should be renewed once less than a tenth of its period remains, at most two
    /// weeks.
    const SOON: i64 = 14 * DAY;

    /// Returns whether the certificate should be renewed.
    #[must_use]
    pub fn ends_soon(self, now: i64) -> bool {
        let left = self.until - now;
        left < Self::SOON.min((self.until - self.from) / 10)
    }

    /// Returns the remaining whole days, or 0 for an expired certificate.
    #[must_use]
    pub fn days_left(self, now: i64) -> i64 {
        ((self.until - now) / DAY).max(0)
    }

    /// Returns the reason why the certificate is not valid, or `None` if it is.
    #[must_use]
    pub fn state(self, now: i64) -> Option<String> {
        self.check(now).err()
    }

    pub(crate) fn check(self, now: i64) -> Result<(), String> {
        if now > self.until {
            return Err(format!("expired on {}", date(self.until)));
        }
        if now < self.from {
            let from = date(self.from);
            return Err(format!(
                "is valid from {from} on: check this machine's clock"
            ));
        }
        Ok(())
    }
}

/// Formats a moment as RFC 3339.
pub(crate) fn date(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds)
        .map_or_else(|_| format!("{seconds} s"), |at| at.to_string())
}

/// The fields that are read from a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    pub subject: String,
    pub issuer: String,
    /// Host names and addresses.
    pub hosts: Vec<String>,
    /// The node that the certificate belongs to, if it is the certificate of a node.
    pub node: Option<String>,
    pub validity: Validity,
    pub is_ca: bool,
    /// `true` if a server, or a client, may present it.
    pub for_server: bool,
    pub for_client: bool,
}

impl Certificate {
    /// Reads a certificate.
    ///
    /// # Errors
    /// The bytes are not a certificate.
    pub fn read(der: &CertificateDer<'_>) -> Result<Self, TlsError> {
        let unreadable = || TlsError::new("a certificate cannot be read");
        let (_, parsed) = X509Certificate::from_der(der).map_err(|_| unreadable())?;
        let usage = parsed.extended_key_usage().map_err(|_| unreadable())?;
        let may = |named: fn(&x509_parser::extensions::ExtendedKeyUsage<'_>) -> bool| {
            usage.as_ref().is_none_or(|usage| named(usage.value))
        };
        let mut found = Self {
            subject: common_name(parsed.subject()),
            issuer: common_name(parsed.issuer()),
            hosts: Vec::new(),
            node: None,
            validity: Validity {
                from: parsed.validity().not_before.timestamp(),
                until: parsed.validity().not_after.timestamp(),
            },
            is_ca: parsed.is_ca(),
            for_server: may(|usage| usage.any || usage.server_auth),
            for_client: may(|usage| usage.any || usage.client_auth),
        };
        for extension in parsed.extensions() {
            if let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() {
                names.general_names.iter().for_each(|name| found.take(name));
            }
        }
        Ok(found)
    }

    fn take(&mut self, name: &GeneralName<'_>) {
        match name {
            GeneralName::DNSName(host) => self.hosts.push((*host).to_owned()),
            GeneralName::IPAddress(bytes) => {
                let address = match <[u8; 4]>::try_from(*bytes) {
                    Ok(v4) => Some(IpAddr::from(Ipv4Addr::from(v4))),
                    Err(_) => {
                        let v6 = <[u8; 16]>::try_from(*bytes).ok();
                        v6.map(|v6| IpAddr::from(Ipv6Addr::from(v6)))
                    }
                };
                self.hosts
                    .extend(address.map(|address| address.to_string()));
            }
            GeneralName::URI(uri) => {
                let node = uri.strip_prefix(NODE_URI).map(str::to_owned);
                // One certificate names one node: further names are ignored.
                self.node = self.node.take().or(node);
            }
            _ => {}
        }
    }

    /// Returns the owner, for messages: `n1`, or its subject.
    #[must_use]
    pub fn owner(&self) -> &str {
        self.node.as_deref().unwrap_or(&self.subject)
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = date(self.validity.until);
        write!(out, "{}, until {until}", self.owner())
    }
}

fn common_name(name: &x509_parser::x509::X509Name<'_>) -> String {
    let common = name.iter_common_name().next();
    let text = common.and_then(|common| common.as_str().ok());
    text.map_or_else(|| name.to_string(), str::to_owned)
}
