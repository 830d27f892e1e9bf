//! Messages for TLS errors, so that operators do not see the names of the library.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError, InvalidMessage, PeerIncompatible};

use crate::tls::certificate::date;

/// Returns the message for an error with a TLS error in its chain of causes, or `None` if there is
/// none.
#[must_use]
pub fn words_of(error: &(dyn Error + 'static)) -> Option<String> {
    find(error).map(words)
}

/// Returns whether the other side ended the connection because this side's certificate is wrong or
/// missing. It has then processed nothing that was sent.
#[must_use]
pub fn is_certificate_refused(error: &(dyn Error + 'static)) -> bool {
    use AlertDescription as Alert;
    matches!(
        find(error),
        Some(rustls::Error::AlertReceived(
            Alert::UnknownCA
                | Alert::CertificateExpired
                | Alert::CertificateRequired
                | Alert::CertificateUnknown
                | Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::AccessDenied
                | Alert::DecryptError
        ))
    )
}

fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        // `source` of an I/O error skips the inner error and returns the source of that.
        let inside = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        if let Some(found) = inside.and_then(|inside| find(inside)) {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

/// Returns the same error as an I/O error with the message as its text.
pub(crate) fn io_words(error: io::Error) -> io::Error {
    match words_of(&error) {
        Some(words) => io::Error::new(error.kind(), words),
        None => error,
    }
}

pub(crate) fn words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(error) => certificate(error),
        rustls::Error::AlertReceived(alert) => alert_words(*alert),
        rustls::Error::NoCertificatesPresented => "it presented no certificate".to_owned(),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it does not speak TLS".to_owned()
        }
        rustls::Error::InvalidMessage(_) => "it sent data that is not TLS".to_owned(),
        rustls::Error::PeerIncompatible(why) => match why {
            PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::Tls13RequiredForQuic
            | PeerIncompatible::ServerDoesNotSupportTls12Or13 => {
                "it speaks only versions of TLS that are too old".to_owned()
            }
            _ => "it has no cipher suite in common with this side".to_owned(),
        },
        rustls::Error::NoApplicationProtocol => "it does not support HTTP/1.1".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the message for an error of the other side's certificate.
fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::ExpiredContext { not_after, .. } => {
            let until = date(not_after.as_secs() as i64);
            format!("its certificate expired on {until}")
        }
        CertificateError::Expired => "its certificate has expired".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            let from = date(not_before.as_secs() as i64);
            format!("its certificate is valid from {from} on: check the clocks")
        }
        CertificateError::NotValidYet => "its certificate is not valid yet".to_owned(),
        CertificateError::UnknownIssuer => {
            "its certificate is not signed by a CA that is trusted here".to_owned()
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let expected = expected.to_str();
            let presented: Vec<&str> = presented.iter().map(|name| shown_name(name)).collect();
            let presented = presented.join(", ");
            format!("its certificate is for {presented} and not for {expected}")
        }
        CertificateError::NotValidForName => "its certificate is for another name".to_owned(),
        CertificateError::InvalidPurposeContext { .. } | CertificateError::InvalidPurpose => {
            "its certificate is not made for this side of a connection".to_owned()
        }
        CertificateError::Other(why) => why.to_string(),
        CertificateError::BadEncoding => "its certificate cannot be read".to_owned(),
        CertificateError::BadSignature => {
            "its certificate is signed by another CA of the same name".to_owned()
        }
        other => format!("its certificate is refused: {other}"),
    }
}

/// Removes the kind from a name that the library prints as `DnsName("a")` or
/// `IpAddress(127.0.0.1)`.
fn shown_name(name: &str) -> &str {
    let inside = name.split_once('(').map_or(name, |(_, inside)| inside);
    inside.trim_end_matches(')').trim_matches('"')
}

/// Returns the message for an alert of the other side.
fn alert_words(alert: AlertDescription) -> String {
    let why = match alert {
        AlertDescription::UnknownCA => "does not trust the CA of this side's certificate",
        AlertDescription::CertificateExpired => {
            "rejects this side's certificate: it has expired or is not valid yet; compare the \
             clocks"
        }
        AlertDescription::CertificateRequired => "requires a client's certificate",
        // For a node, this alert results from `NotThisNode`.
        AlertDescription::CertificateUnknown => {
            "rejects this side's certificate: it does not belong to the expected node"
        }
        AlertDescription::UnsupportedCertificate => {
            "rejects this side's certificate: it is not made for this side of a connection"
        }
        AlertDescription::BadCertificate => {
            "rejects this side's certificate: it is for another name, or cannot be read"
        }
        AlertDescription::AccessDenied => "rejects this side's certificate",
        AlertDescription::DecryptError => "could not check this side's signature",
        AlertDescription::ProtocolVersion => "supports no TLS version that this side supports",
        AlertDescription::HandshakeFailure => "has no cipher suite in common with this side",
        AlertDescription::DecodeError | AlertDescription::UnexpectedMessage => {
            "could not parse this side's TLS messages"
        }
        other => return format!("it ended the connection: {other:?}"),
    };
    format!("it {why}")
}
