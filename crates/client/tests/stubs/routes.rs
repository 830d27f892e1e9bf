//! Every route of the contract has a call, and every call has a route.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use seqd_client::Client;
use seqd_client::api::OPERATIONS;
use seqd_client::api::{
    AcquireRequest, AddMember, AdvanceRequest, BeginKey, BreakLockRequest, ConsumeToken,
    CreateAccess, CreateLayout, EncodeRequest, GetKeyQuery, GrantRequest, IdPartsQuery, IdQuery,
    IssueTokens, JsonText, KeysQuery, LayoutQuery, LeaderMove, LeaseRequest, ListQuery, LockQuery,
    LocksQuery, NextRequest, ReleaseLockRequest, ReleaseRequest, RenewLockRequest, RenewRequest,
    ReturnRequest, SequenceSpec, SequencesQuery, SnapshotQuery, TimestampsRequest, TokensQuery,
    UpdateMember, UuidQuery, VerifyLockRequest, WorkersQuery,
};

use super::client;

type Asked = Arc<Mutex<BTreeSet<(String, String)>>>;

/// Records the method and the path of each request, and returns no usable response.
fn noting() -> (SocketAddr, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Asked::default();
    let noted = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0_u8; 4096];
            let length = stream.read(&mut bytes).unwrap();
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            let mut words = text.split([' ', '?']);
            let method = words.next().unwrap_or_default().to_owned();
            let path = words.next().unwrap_or_default().to_owned();
            noted.lock().unwrap().insert((method, path));
            let head = "HTTP/1.1 404 X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            stream.write_all(head.as_bytes()).unwrap();
        }
    });
    (address, asked)
}

/// Makes each call once. A path parameter is `P`, and a grant is 7.
async fn call_all(client: &Client) {
    let list = ListQuery::default();
    drop(client.id(&IdQuery::default()).await);
    drop(client.ids(&IdQuery::default()).await);
    drop(client.id_parts("P", &IdPartsQuery::default()).await);
    drop(client.uuid(&UuidQuery::default()).await);
    drop(client.uuids(&UuidQuery::default()).await);
    drop(client.timestamps(&TimestampsRequest::default()).await);
    drop(client.layouts(&list).await);
    drop(client.layout("P", &LayoutQuery::default()).await);
    drop(client.create_layout(&CreateLayout::default()).await);
    drop(client.encode_id("P", &EncodeRequest::default()).await);
    drop(client.sequences(&SequencesQuery::default()).await);
    drop(client.sequence("P").await);
    drop(client.create_sequence("P", &SequenceSpec::default()).await);
    drop(
        client
            .update_sequence("P", &SequenceSpec::default(), None)
            .await,
    );
    drop(client.delete_sequence("P").await);
    drop(client.next("P", &NextRequest::default()).await);
    drop(client.advance("P", &AdvanceRequest { to: 1 }).await);
    drop(client.grant_segment("P", &GrantRequest::default()).await);
    drop(
        client
            .return_segment("P", 7, &ReturnRequest::default())
            .await,
    );
    drop(client.begin_key("P", &BeginKey::default()).await);
    let result = JsonText::new("1".to_owned()).unwrap();
    drop(client.complete_key("P", "7", &result).await);
    drop(client.abandon_key("P", "7").await);
    drop(client.key("P", &GetKeyQuery::default()).await);
    drop(client.issue_tokens(&IssueTokens::default()).await);
    drop(client.consume_token("P", &ConsumeToken::default()).await);
    drop(client.workers(&WorkersQuery::default()).await);
    drop(client.lease_worker(&LeaseRequest::default()).await);
    drop(client.renew_worker("P", 7, &RenewRequest::default()).await);
    let release = ReleaseRequest::default();
    drop(client.release_worker("P", 7, &release).await);
    drop(client.locks(&LocksQuery::default()).await);
    drop(client.lock("P", &LockQuery::default()).await);
    drop(client.acquire_lock("P", &AcquireRequest::default()).await);
    drop(client.renew_lock("P", &RenewLockRequest::default()).await);
    let release = ReleaseLockRequest::default();
    drop(client.release_lock("P", &release).await);
    drop(client.break_lock("P", &BreakLockRequest::default()).await);
    drop(client.keys(&KeysQuery::default()).await);
    drop(client.delete_key("P").await);
    drop(client.delete_keys(&KeysQuery::default()).await);
    drop(client.one_time_tokens(&TokensQuery::default()).await);
    drop(client.delete_one_time("P").await);
    drop(client.delete_all_one_time(&TokensQuery::default()).await);
    drop(client.verify_lock("P", &VerifyLockRequest::default()).await);
    call_members(client, &list).await;
    drop(client.tokens(&list).await);
    drop(client.create_token(&CreateAccess::default()).await);
    drop(client.revoke_token("P").await);
    drop(client.config().await);
    drop(client.live().await);
    drop(client.ready().await);
    drop(client.metrics().await);
    drop(client.version().await);
    drop(client.code_page("P").await);
    drop(client.openapi().await);
}

async fn call_members(client: &Client, list: &ListQuery) {
    let member = AddMember {
        name: "P".to_owned(),
        peer: "a:1".to_owned(),
        http: None,
    };
    drop(client.cluster().await);
    drop(client.facts().await);
    drop(client.members(list).await);
    drop(client.add_member(&member).await);
    drop(client.update_member("P", &UpdateMember::default()).await);
    drop(client.promote_member("P").await);
    drop(client.demote_member("P").await);
    drop(client.drain_member("P").await);
    drop(client.resume_member("P").await);
    drop(client.reset_workers("P").await);
    drop(client.remove_member("P").await);
    drop(client.move_leader(&LeaderMove::default()).await);
    drop(client.snapshot(&SnapshotQuery::default()).await);
}

/// Returns the path as filled by [`call_all`].
fn filled(template: &str) -> String {
    let parts = template.split('/').map(|part| match part {
        "{grant}" => "7",
        "{id}" if template.ends_with("/lease") => "7",
        part if part.starts_with('{') => "P",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn every_operation_has_a_call_and_every_call_an_operation() {
    let (address, asked) = noting();
    call_all(&client(&[address], None)).await;
    let asked = asked.lock().unwrap().clone();
    let rows = OPERATIONS.iter();
    let rows = rows.map(|row| (row.method.as_str().to_owned(), filled(row.path)));
    let rows: BTreeSet<_> = rows.collect();
    let without_call: Vec<_> = rows.difference(&asked).collect();
    assert!(
        without_call.is_empty(),
        "no call in `call_all`: {without_call:?}"
    );
    let without_row: Vec<_> = asked.difference(&rows).collect();
    assert!(without_row.is_empty(), "no operation: {without_row:?}");
}
