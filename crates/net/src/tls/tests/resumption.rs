//! Sessions that a client would resume.

use rustls::{ClientConfig, HandshakeKind, SupportedProtocolVersion};

use super::*;
use crate::tls::Accept;

/// A client with a session cache, and the certificate in these files.
fn resuming(
    folder: &Folder,
    name: &str,
    version: &'static SupportedProtocolVersion,
) -> ClientConfig {
    let mut trusted = rustls::RootCertStore::empty();
    for cert in crate::tls::files::read_certificates(&folder.path("ca.crt")).unwrap() {
        trusted.add(cert).unwrap();
    }
    let chain = crate::tls::files::read_certificates(&folder.path(&format!("{name}.crt"))).unwrap();
    let key = crate::tls::files::read_key(&folder.path(&format!("{name}.key"))).unwrap();
    ClientConfig::builder_with_provider(crate::tls::material::provider())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(trusted)
        .with_client_auth_cert(chain, key)
        .unwrap()
}

/// Returns the kind of the handshake of a connection, after an exchange in which tickets arrive.
async fn handshake(tls: &impl Accept, client: &Arc<ClientConfig>) -> Result<HandshakeKind, String> {
    let (near, far) = duplex(1 << 16);
    let mut accepted = accept(tls, far, None, |_| {});
    let server = async move {
        let mut first = [0; 1];
        if accepted.read_exact(&mut first).await.is_ok() {
            accepted.write_all(&first).await.unwrap();
        }
    };
    let connecting = async {
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(client));
        let host = "localhost".try_into().unwrap();
        let mut stream = connector.connect(host, near).await?;
        stream.write_all(b"x").await?;
        stream.read_u8().await?;
        Ok(stream.get_ref().1.handshake_kind().unwrap())
    };
    let (kind, ()) = tokio::join!(connecting, server);
    kind.map_err(|error: io::Error| words_of(&error).unwrap_or_else(|| error.to_string()))
}

#[tokio::test]
async fn no_session_is_resumed_where_certificates_are_required() {
    let folder = Folder::new();
    let required = clients_port(&folder, Some(folder.path("ca.crt")));
    let open = clients_port(&folder, None);
    let peers = folder.peer("n1");
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let client = || Arc::new(resuming(&folder, "n1", version));
        let dialled = client();
        for _ in 0..3 {
            let kind = handshake(&required, &dialled).await;
            assert_eq!(
                kind,
                Ok(HandshakeKind::Full),
                "a session was resumed: {version:?}"
            );
        }
        // The client does resume sessions if the server permits it.
        let dialled = client();
        handshake(&open, &dialled).await.unwrap();
        let kind = handshake(&open, &dialled).await;
        assert_eq!(kind, Ok(HandshakeKind::Resumed), "{version:?}");
    }
    let dialled = Arc::new(resuming(&folder, "n1", &rustls::version::TLS13));
    for _ in 0..2 {
        let kind = handshake(&peers, &dialled).await;
        assert_eq!(
            kind,
            Ok(HandshakeKind::Full),
            "a peer's session was resumed"
        );
    }
}

#[tokio::test]
async fn a_certificate_whose_ca_was_replaced_opens_no_further_connection() {
    let (old, new) = (Folder::new(), Folder::new());
    old.issue("app", valid());
    let files = Files {
        ca: Some(old.path("ca.crt")),
        ..old.issue("n1", valid())
    };
    let port = Rotating::load(files, now(), client_port).unwrap();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        old.write("ca.crt", old.cert());
        port.look(now());
        let client = Arc::new(resuming(&old, "app", version));
        assert_eq!(
            handshake(&port.get(), &client).await,
            Ok(HandshakeKind::Full)
        );
        old.write("ca.crt", new.cert());
        let looked = port.look(now());
        assert!(matches!(looked, Look::Taken(_)), "{looked:?}");
        let refused = handshake(&port.get(), &client).await.unwrap_err();
        assert!(refused.contains("does not trust the CA"), "{refused}");
    }
}
