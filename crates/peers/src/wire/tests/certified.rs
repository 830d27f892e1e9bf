//! Senders and the certificates of their connections.

use std::sync::Arc;

use seqd_net::tls::Certified;

use crate::wire::incoming::Sender;
use crate::wire::places::Places;
use crate::wire::transport::{Rejection, RejectionCode};

/// Returns the sender on a connection with the certificate of this node, or without TLS.
fn sender(certified: Option<&str>) -> Sender {
    let certified = certified.map(|name| {
        let known = Certified::default();
        known.set(name.to_owned()).unwrap();
        known
    });
    Sender(Places::new().enter(None, certified).0)
}

fn name_of(node: u64) -> Option<String> {
    (node < 9).then(|| format!("n{node}"))
}

fn code(checked: Result<(), Rejection>) -> Option<RejectionCode> {
    checked.err().map(|rejection| rejection.code)
}

#[test]
fn a_message_is_taken_from_the_node_of_the_certificate_alone() {
    let n2 = sender(Some("n2"));
    let wrong = n2.check_id(3, || name_of(3)).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "wrong-certificate: the certificate belongs to n2, but the message is from n3"
    );
    assert_eq!(code(n2.check_id(2, || name_of(2))), None);
    // The names are looked up once, and the result for one ID does not apply to another.
    assert_eq!(code(n2.check_id(2, || unreachable!())), None);
    let still = n2.check_id(3, || name_of(3));
    assert_eq!(code(still), Some(RejectionCode::WrongCertificate));
    // A node that is not known yet must introduce itself.
    let unknown = n2.check_id(9, || name_of(9));
    assert_eq!(code(unknown), Some(RejectionCode::Unintroduced));
    let lying = n2.check_name("n1");
    assert_eq!(code(lying), Some(RejectionCode::WrongCertificate));
}

#[test]
fn before_the_handshake_has_finished_a_sender_has_no_name() {
    let place = Places::new().enter(None, Some(Certified::default())).0;
    let nobody = Sender(Arc::clone(&place));
    let early = nobody.check_id(2, || name_of(2));
    assert_eq!(code(early), Some(RejectionCode::WrongCertificate));
}

#[test]
fn without_tls_a_sender_has_the_name_in_its_envelope() {
    let anybody = sender(None);
    assert_eq!(code(anybody.check_id(2, || unreachable!())), None);
    assert_eq!(code(anybody.check_name("n1")), None);
    assert!(!anybody.is_certified());
}
