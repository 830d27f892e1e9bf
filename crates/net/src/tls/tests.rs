//! Handshakes and files, with invalid certificates of every kind.

mod resumption;

use std::io;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use crate::tls::issue::{Authority, Subject};
use crate::tls::stream::HANDSHAKE_WAIT;
use crate::tls::testing::{Certificates, DAY, days, node, now};
use crate::tls::{Files, Look, PeerTls, Rotating, Validity, accept, client_port, dial, words_of};

fn valid() -> Validity {
    days(100)
}

/// Certificates in a separate folder.
struct Folder {
    _root: tempfile::TempDir,
    made: Certificates,
}

impl Deref for Folder {
    type Target = Certificates;

    fn deref(&self) -> &Certificates {
        &self.made
    }
}

impl Folder {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let made = Certificates::new(root.path(), "tls");
        Self { _root: root, made }
    }

    fn issue(&self, name: &str, validity: Validity) -> Files {
        self.issue_node(name, validity);
        self.files(name)
    }

    fn files(&self, name: &str) -> Files {
        Files {
            cert: self.path(&format!("{name}.crt")),
            key: self.path(&format!("{name}.key")),
            ca: Some(self.path("ca.crt")),
        }
    }

    fn peer(&self, name: &str) -> PeerTls {
        let files = self.issue(name, valid());
        load_peer(files, name).unwrap()
    }
}

fn load_peer(files: Files, name: &str) -> Result<PeerTls, String> {
    let name = name.to_owned();
    let loaded = Rotating::load(files, now(), move |material| PeerTls::new(material, &name));
    loaded.map(|peer| peer.get()).map_err(|e| e.to_string())
}

/// Returns the results of both sides of a connection between nodes: of the dialing side and of the
/// accepting side.
async fn meet(dialling: &PeerTls, expected: &str, accepting: &PeerTls) -> (String, String) {
    let (near, far) = duplex(1 << 16);
    let why = Arc::new(Mutex::new(String::new()));
    let told = Arc::clone(&why);
    let failed = move |error: &io::Error| *told.lock().unwrap() = error.to_string();
    let mut accepted = accept(accepting, far, None, failed);
    let certified = accepted.certified();
    let server = async move {
        let mut first = [0; 4];
        match accepted.read_exact(&mut first).await {
            Ok(_) => accepted.write_all(b"pong").await.unwrap(),
            Err(error) => {
                let mut why = why.lock().unwrap();
                if why.is_empty() {
                    *why = error.to_string();
                }
            }
        }
        let why = why.lock().unwrap().clone();
        certified.get().cloned().unwrap_or(why)
    };
    let client = async {
        let mut stream = match dial(dialling, Some(expected.to_owned()), near, |_| {}).await {
            Ok(stream) => stream,
            Err(error) => return error.to_string(),
        };
        let mut answer = [0; 4];
        let talked = async {
            stream.write_all(b"ping").await?;
            stream.read_exact(&mut answer).await
        };
        match talked.await {
            Ok(_) => String::from_utf8(answer.to_vec()).unwrap(),
            Err(error) => error.to_string(),
        }
    };
    tokio::join!(client, server)
}

#[tokio::test]
async fn nodes_of_a_cluster_meet_by_name() {
    let folder = Folder::new();
    let (n1, n2) = (folder.peer("n1"), folder.peer("n2"));
    let (dialling, accepting) = meet(&n1, "n2", &n2).await;
    assert_eq!((dialling.as_str(), accepting.as_str()), ("pong", "n1"));
}

#[tokio::test]
async fn the_right_certificate_of_another_node_is_refused_with_both_names() {
    let folder = Folder::new();
    let (n1, n3) = (folder.peer("n1"), folder.peer("n3"));
    let (dialling, accepting) = meet(&n1, "n2", &n3).await;
    assert_eq!(
        dialling,
        "its certificate belongs to n3, but n2 is expected there"
    );
    assert!(
        accepting.contains("not belong to the expected node"),
        "{accepting}"
    );
}

#[tokio::test]
async fn another_cluster_s_certificate_is_refused_by_the_side_that_checks_it_first() {
    let (ours, theirs) = (Folder::new(), Folder::new());
    let (n1, n2) = (ours.peer("n1"), theirs.peer("n2"));
    let (dialling, accepting) = meet(&n1, "n2", &n2).await;
    assert_eq!(
        dialling,
        "its certificate is not signed by a CA that is trusted here"
    );
    assert!(accepting.contains("does not trust the CA"), "{accepting}");
    // A dialing node with a certificate of its own cluster, which trusts both CAs.
    theirs.write("ca.crt", &format!("{}{}", theirs.cert(), ours.cert()));
    let both = load_peer(theirs.files("n2"), "n2").unwrap();
    let (dialling, accepting) = meet(&both, "n1", &n1).await;
    assert!(dialling.contains("does not trust the CA"), "{dialling}");
    assert_eq!(
        accepting,
        "its certificate is not signed by a CA that is trusted here"
    );
}

#[tokio::test]
async fn two_cas_in_a_bundle_are_trusted_while_one_takes_the_other_s_place() {
    let (old, new) = (Folder::new(), Folder::new());
    old.issue("n1", valid());
    new.issue("n2", valid());
    let bundle = format!("{}{}", old.cert(), new.cert());
    old.write("ca.crt", &bundle);
    new.write("ca.crt", &bundle);
    let n1 = load_peer(old.files("n1"), "n1").unwrap();
    let n2 = load_peer(new.files("n2"), "n2").unwrap();
    assert_eq!(meet(&n1, "n2", &n2).await.0, "pong");
    assert_eq!(meet(&n2, "n1", &n1).await.0, "pong");
}

#[tokio::test]
async fn a_client_s_certificate_opens_no_peer_port() {
    let folder = Folder::new();
    let n1 = folder.peer("n1");
    let client = Subject::Client {
        name: "app".to_owned(),
    };
    let issued = folder.authority().issue(&client, valid()).unwrap();
    folder.put("app", &issued);
    let refused = load_peer(folder.files("app"), "app").unwrap_err();
    assert!(refused.contains("does not name a node"), "{refused}");
    drop(n1);
}

#[test]
fn files_that_do_not_fit_are_refused_with_words() {
    let folder = Folder::new();
    let expired = Validity {
        from: now() - 20 * DAY,
        until: now() - DAY,
    };
    let early = Validity {
        from: now() + DAY,
        until: now() + 20 * DAY,
    };
    let refused = |files: Files, name: &str| load_peer(files, name).unwrap_err();
    let says = |found: String, part: &str| assert!(found.contains(part), "{found:?}: {part}");
    says(refused(folder.issue("n1", expired), "n1"), "expired on 20");
    says(
        refused(folder.issue("n1", early), "n1"),
        "check this machine's clock",
    );
    let n1 = folder.issue("n1", valid());
    let n2 = folder.issue("n2", valid());
    says(
        refused(n1.clone(), "n2"),
        "is the certificate of n1, and this node is n2",
    );
    let crossed = Files {
        key: n2.key,
        ..n1.clone()
    };
    says(
        refused(crossed, "n1"),
        "n2.key is not the key of the certificate in",
    );
    let swapped = Files {
        cert: n1.key.clone(),
        ..n1.clone()
    };
    says(refused(swapped, "n1"), "has no certificate");
    let missing = Files {
        cert: folder.path("nosuch.crt"),
        ..n1.clone()
    };
    says(
        refused(missing, "n1"),
        "nosuch.crt: no such file or directory",
    );
    let no_ca = Files {
        ca: Some(n1.cert.clone()),
        ..n1.clone()
    };
    says(refused(no_ca, "n1"), "n1, which is not a CA");
    let foreign = Folder::new();
    let other = Files {
        ca: Some(foreign.path("ca.crt")),
        ..n1.clone()
    };
    says(refused(other, "n1"), "the peers would refuse");
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&n1.key, open).unwrap();
    says(refused(n1.clone(), "n1"), "open to every user");
    std::fs::write(&n1.key, "not PEM").unwrap();
    let closed = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(&n1.key, closed).unwrap();
    says(refused(n1, "n1"), "has no private key");
}

#[test]
fn new_files_are_loaded_and_unfit_ones_are_reported_once() {
    let folder = Folder::new();
    let files = folder.issue("n1", valid());
    let loaded = Rotating::load(files, now(), |material| PeerTls::new(material, "n1"));
    let loaded = loaded.unwrap();
    assert_eq!(loaded.look(now()), Look::Same);
    let later = Validity {
        until: now() + 200 * DAY,
        ..valid()
    };
    let issued = folder.authority().issue(&node("n1"), later).unwrap();
    // Between the copies of the two files.
    folder.write("n1.crt", &issued.cert);
    assert_eq!(loaded.look(now()), Look::Same);
    folder.write("n1.key", &issued.key);
    let looked = loaded.look(now());
    assert!(matches!(looked, Look::Taken(_)), "{looked:?}");
    assert_eq!(loaded.validity().until, later.until);
    folder.write("n1.key", "gone wrong");
    assert_eq!(loaded.look(now()), Look::Same);
    assert!(matches!(loaded.look(now()), Look::Refused(_)));
    assert_eq!(loaded.look(now()), Look::Same);
    assert_eq!(
        loaded.validity().until,
        later.until,
        "what was in force stays"
    );
    folder.write("n1.key", &issued.key);
    assert_eq!(loaded.look(now()), Look::Same);
}

#[test]
fn a_certificate_is_to_be_renewed_in_its_last_tenth_or_two_weeks() {
    let of = |days: i64, left: i64| Validity {
        from: (left - days) * DAY,
        until: left * DAY,
    };
    assert!(of(365, 13).ends_soon(0) && !of(365, 15).ends_soon(0));
    assert!(of(30, 2).ends_soon(0) && !of(30, 4).ends_soon(0));
    assert_eq!(of(365, 13).days_left(0), 13);
    assert_eq!(of(365, -1).days_left(0), 0);
}

fn clients_port(folder: &Folder, ca: Option<PathBuf>) -> crate::tls::ServerTls {
    let files = Files {
        ca,
        ..folder.issue("n1", valid())
    };
    Rotating::load(files, now(), client_port).unwrap().get()
}

async fn connect(
    tls: &crate::tls::ServerTls,
    files: &crate::tls::ClientFiles,
    host: &str,
) -> Result<(), String> {
    let (near, far) = duplex(1 << 16);
    let mut accepted = accept(tls, far, None, |_| {});
    let server = async move {
        let mut first = [0; 1];
        let read = accepted.read_exact(&mut first).await;
        if read.is_ok() {
            accepted.write_all(&first).await.unwrap();
        }
    };
    let config = crate::tls::client(files, true).map_err(|error| error.to_string())?;
    let host = host.to_owned().try_into().unwrap();
    let client = async {
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect(host, near).await?;
        stream.write_all(b"x").await?;
        stream.read_u8().await.map(|_| ())
    };
    let (connected, ()) = tokio::join!(client, server);
    connected.map_err(|error| words_of(&error).unwrap_or_else(|| error.to_string()))
}

#[tokio::test]
async fn a_client_receives_the_reason_of_a_refused_handshake() {
    let folder = Folder::new();
    let tls = clients_port(&folder, None);
    let trusting = crate::tls::ClientFiles {
        cacert: Some(folder.path("ca.crt")),
        ..Default::default()
    };
    assert_eq!(connect(&tls, &trusting, "localhost").await, Ok(()));
    assert_eq!(connect(&tls, &trusting, "127.0.0.1").await, Ok(()));
    let wrong = connect(&tls, &trusting, "n9.example").await.unwrap_err();
    assert_eq!(
        wrong,
        "its certificate is for localhost, 127.0.0.1, seqd:node:n1 and not for n9.example"
    );
    let foreign = Folder::new();
    let strange = crate::tls::ClientFiles {
        cacert: Some(foreign.path("ca.crt")),
        ..Default::default()
    };
    let unknown = connect(&tls, &strange, "localhost").await.unwrap_err();
    assert!(unknown.contains("not signed by a CA"), "{unknown}");
}

#[tokio::test]
async fn a_port_that_requires_certificates_accepts_only_those_of_its_ca() {
    let folder = Folder::new();
    let tls = clients_port(&folder, Some(folder.path("ca.crt")));
    let mut files = crate::tls::ClientFiles {
        cacert: Some(folder.path("ca.crt")),
        ..Default::default()
    };
    let without = connect(&tls, &files, "localhost").await.unwrap_err();
    assert_eq!(without, "it requires a client's certificate");
    let client = |of: &Folder| {
        let subject = Subject::Client {
            name: "app".to_owned(),
        };
        of.put("app", &of.authority().issue(&subject, valid()).unwrap());
        (Some(of.path("app.crt")), Some(of.path("app.key")))
    };
    (files.cert, files.key) = client(&folder);
    assert_eq!(connect(&tls, &files, "localhost").await, Ok(()));
    (files.cert, files.key) = client(&Folder::new());
    let missing = connect(&tls, &files, "localhost").await.unwrap_err();
    assert!(
        missing.contains("cannot read"),
        "its folder is gone: {missing}"
    );
    let foreign = Folder::new();
    (files.cert, files.key) = client(&foreign);
    let strange = connect(&tls, &files, "localhost").await.unwrap_err();
    assert_eq!(
        strange,
        "it does not trust the CA of this side's certificate"
    );
    files.key = None;
    let half = connect(&tls, &files, "localhost").await.unwrap_err();
    assert_eq!(half, "--cert and --key belong together: --key is missing");
}

#[tokio::test]
async fn a_request_without_tls_gets_an_answer_that_it_can_read() {
    let folder = Folder::new();
    let tls = clients_port(&folder, None);
    let (mut near, far) = duplex(1 << 16);
    let plain: Arc<[u8]> = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec().into();
    let told = Arc::new(Mutex::new(String::new()));
    let tells = Arc::clone(&told);
    let failed = move |error: &io::Error| *tells.lock().unwrap() = error.to_string();
    let mut accepted = accept(&tls, far, Some(plain), failed);
    let client = async {
        near.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        read_some(&mut near, &mut answer).await;
        drop(near);
        answer
    };
    let (answer, read) = tokio::join!(client, accepted.read_u8());
    assert!(answer.starts_with(b"HTTP/1.1 400"));
    assert!(read.is_err());
    assert_eq!(*told.lock().unwrap(), "it does not speak TLS");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_stays_half_open_is_closed() {
    let folder = Folder::new();
    let tls = clients_port(&folder, None);
    for sent in [&b""[..], b"\x16\x03\x01"] {
        let (mut near, far) = duplex(1 << 16);
        near.write_all(sent).await.unwrap();
        let mut accepted = accept(&tls, far, None, |_| {});
        let read = tokio::time::timeout(2 * HANDSHAKE_WAIT, accepted.read_u8()).await;
        let error = read.expect("the handshake has a time limit").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}

async fn read_some(stream: &mut DuplexStream, into: &mut Vec<u8>) {
    stream.read_buf(into).await.unwrap();
}

#[test]
fn a_ca_is_loaded_again_and_signs_on() {
    let folder = Folder::new();
    let (ca, issued) = Authority::create("again", valid()).unwrap();
    drop(ca);
    let again = Authority::load(&issued.cert, &issued.key).unwrap();
    folder.write("ca.crt", &issued.cert);
    folder.put("n1", &again.issue(&node("n1"), valid()).unwrap());
    load_peer(folder.files("n1"), "n1").unwrap();
    let (_, other) = Authority::create("other", valid()).unwrap();
    let mixed = Authority::load(&issued.cert, &other.key).map(|_| ());
    assert_eq!(
        mixed.unwrap_err().to_string(),
        "the key does not belong to the certificate"
    );
    assert!(Path::new(&folder.path("ca.crt")).exists());
}
