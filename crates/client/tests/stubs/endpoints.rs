//! The selection of endpoints, and the error if none of them gives a good response.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use seqd_client::api::{IdQuery, LockQuery, NextRequest, exit};
use seqd_client::{Error, Verifier};

use super::{
    BUSY, Stub, answer, answers, assert_was_cut, client, closed, counted, endless, hung, response,
    stub,
};

/// Half of it is enough for a stub on a busy machine.
const TIMEOUT: Option<Duration> = Some(Duration::from_secs(5));
/// Half of it is enough to read 64 MiB on a busy machine.
const PATIENT: Option<Duration> = Some(Duration::from_secs(60));
const ID: &str = r#"{"id":"7","layout":"default","worker":1,"node":"n1","news":true}"#;
const NEXT: &str =
    r#"{"ranges":[],"first":"1","last":"2","count":2,"increment":"1","mode":"strict"}"#;
const LOCK: &str = r#"{"name":"a","permits":null,"holders":[],"held":0,"waiting":0}"#;
const MISSING: &str = r#"{"status":404,"code":"not-found","detail":"none","retryable":false}"#;

async fn id(addresses: &[SocketAddr]) -> Result<String, Error> {
    client(addresses, TIMEOUT)
        .id(&IdQuery::default())
        .await
        .map(|answer| answer.id)
}

async fn next(addresses: &[SocketAddr]) -> Result<u64, Error> {
    client(addresses, TIMEOUT)
        .next("a", &NextRequest::default())
        .await
        .map(|answer| answer.count)
}

#[tokio::test]
async fn a_refused_connection_leads_to_the_next_endpoint() {
    assert_eq!(id(&[closed(), answers(200, ID)]).await.unwrap(), "7");
}

#[tokio::test]
async fn a_retryable_answer_leads_to_the_next_endpoint() {
    let busy = answers(503, BUSY);
    assert_eq!(id(&[busy, answers(200, ID)]).await.unwrap(), "7");
}

#[tokio::test]
async fn a_node_that_is_not_a_member_leads_to_the_next_endpoint_for_a_view_of_the_cluster() {
    let cluster = |node: &str, members: &str| {
        let quorum = r#"{"voters":1,"reachable":1,"can_lose":0}"#;
        let view = format!(
            r#"{{"cluster_id":null,"node":"{node}","applied":0,"digest":"","leader":null,"term":0,
            "quorum":{quorum},"members":[{members}]}}"#
        );
        answers(200, &view)
    };
    let member = r#"{"name":"n1","id":1,"role":"leader","state":"ready","http":null,"peer":"a:1"}"#;
    let waiting = cluster("n2", "");
    let found = client(&[waiting, cluster("n1", member)], TIMEOUT);
    assert_eq!(found.cluster_of_member().await.unwrap().node, "n1");
    let error = client(&[waiting], TIMEOUT).cluster_of_member().await;
    let error = error.unwrap_err();
    assert_eq!(error.exit(), exit::UNAVAILABLE);
    assert!(error.to_string().contains("n2 is not a member"), "{error}");
    let own = client(&[waiting], TIMEOUT).cluster().await.unwrap();
    assert_eq!(own.node, "n2");
}

#[tokio::test]
async fn the_endpoint_of_the_last_good_response_is_known() {
    let second = answers(200, ID);
    let client = client(&[closed(), second, answers(200, ID)], TIMEOUT);
    client.id(&IdQuery::default()).await.unwrap();
    assert_eq!(client.last_answered().to_string(), second.to_string());
}

#[tokio::test]
async fn an_answer_that_is_not_retryable_ends_the_round() {
    let missing = answers(404, MISSING);
    let error = id(&[missing, answers(200, ID)]).await.unwrap_err();
    assert_eq!(error.exit(), exit::NOT_FOUND);
}

#[tokio::test]
async fn refused_everywhere_is_unavailable() {
    let error = next(&[closed(), closed()]).await.unwrap_err();
    assert_eq!(error.exit(), exit::UNAVAILABLE);
    assert!(error.to_string().contains("connection refused"), "{error}");
}

#[tokio::test]
async fn a_problem_takes_precedence_over_a_refused_connection() {
    let error = next(&[answers(503, BUSY), closed()]).await.unwrap_err();
    assert_eq!(
        error.problem().map(|problem| &*problem.code),
        Some("overloaded")
    );
}

#[tokio::test]
async fn a_change_without_an_answer_is_unknown_and_not_sent_again() {
    for silence in [Stub::Hang, Stub::Close] {
        let started = Instant::now();
        let error = next(&[stub(silence), answers(200, "{}")])
            .await
            .unwrap_err();
        assert!(matches!(error, Error::OutcomeUnknown(_)), "{error}");
        assert_eq!(error.exit(), exit::OUTCOME_UNKNOWN);
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}

#[tokio::test]
async fn an_id_request_without_a_response_is_sent_to_the_next_endpoint() {
    for silence in [Stub::Hang, Stub::Close] {
        let silent = stub(silence);
        assert_eq!(id(&[silent, answers(200, ID)]).await.unwrap(), "7");
    }
    let error = id(&[stub(Stub::Close), closed()]).await.unwrap_err();
    assert!(matches!(error, Error::NoAnswer(_)), "{error}");
    assert_eq!(error.exit(), exit::UNAVAILABLE);
}

#[tokio::test]
async fn a_node_that_hangs_leaves_time_for_the_next_and_is_sent_nothing_that_changes() {
    let (silent, _listener) = hung();
    let client = |second| client(&[silent, second], Some(Duration::from_secs(10)));
    let (id, request) = (IdQuery::default(), NextRequest::default());
    assert_eq!(client(answers(200, ID)).id(&id).await.unwrap().id, "7");
    let next = client(answers(200, NEXT)).next("a", &request).await;
    assert_eq!(next.unwrap().count, 2);
    let error = client(closed()).next("a", &request).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("(/livez timed out)"), "{text}");
}

#[tokio::test]
async fn each_endpoint_gets_the_whole_wait_that_the_node_may_use_up() {
    // Endpoints that shared the wait would each have less time than it takes.
    const WAIT: Duration = Duration::from_secs(3);
    const TIMEOUT: Option<Duration> = Some(Duration::from_secs(4));
    let lock = || response(200, "", LOCK.len(), LOCK.as_bytes());
    let late = || counted(Stub::SendAfter(WAIT, lock()));
    let waits = LockQuery {
        wait_ms: Some(3000),
        ..LockQuery::default()
    };
    let ((first, _), (second, asked)) = (late(), late());
    let three = client(&[first, second, second], TIMEOUT);
    three.lock("a", &waits).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    let (silent, _listener) = hung();
    let last = client(&[silent, silent, first], TIMEOUT);
    last.lock("a", &waits).await.unwrap();
}

#[tokio::test]
async fn the_last_working_endpoint_is_tried_first() {
    let (busy, asked) = counted(answer(503, "", BUSY.len(), BUSY.as_bytes()));
    let client = client(&[busy, answers(200, NEXT)], TIMEOUT);
    for _ in 0..3 {
        client.next("a", &NextRequest::default()).await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_response_that_is_not_from_seqd_is_an_error() {
    let error = id(&[answers(200, "<html>")]).await.unwrap_err();
    assert_eq!(error.exit(), exit::FAILURE);
    assert!(error.to_string().contains("<html>"), "{error}");
    let gateway = next(&[answers(502, "bad gateway")]).await.unwrap_err();
    assert_eq!(gateway.exit(), exit::OUTCOME_UNKNOWN);
}

#[tokio::test]
async fn a_redirect_is_an_error_and_is_not_followed() {
    let (elsewhere, asked) = counted(answer(200, "", ID.len(), ID.as_bytes()));
    for status in [301, 302, 303, 307, 308] {
        let head = format!("location: http://{elsewhere}/v1/id\r\n");
        let error = id(&[stub(answer(status, &head, 0, b""))])
            .await
            .unwrap_err();
        assert_eq!(error.exit(), exit::FAILURE, "{status}: {error}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_answer_without_end_is_not_read_to_its_end() {
    let (address, sent) = endless(200);
    let asked = client(&[address], PATIENT).id(&IdQuery::default()).await;
    let text = asked.unwrap_err().to_string();
    assert!(text.contains("the response is longer than"), "{text}");
    assert_was_cut(&sent, 1);
}

#[tokio::test]
async fn a_sign_of_life_without_end_is_not_read_to_its_end() {
    let (address, sent) = endless(200);
    let request = NextRequest::default();
    let asked = client(&[address], PATIENT).next("a", &request).await;
    let text = asked.unwrap_err().to_string();
    assert!(text.contains("the response is longer than"), "{text}");
    // The first response is that to `/livez`.
    assert_was_cut(&sent, 2);
}

#[tokio::test]
async fn leases_whose_next_page_is_the_same_page_are_refused() {
    let same = answers(200, r#"{"items":[],"next_cursor":"a"}"#);
    let verifier = Verifier::of(&client(&[same], TIMEOUT), "default", true).await;
    let text = verifier.err().unwrap().to_string();
    assert!(text.contains("is that of the same page"), "{text}");
}
