//! Two tenants of one cluster: the use of one leaves room for the other, and an operator can list
//! the use of each tenant and delete it.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use seqd_tests::asker::Asker;
use seqd_tests::binary;
use seqd_tests::cluster::Cluster;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use seqd_tests::callers::{Caller, guarded};

/// The limit, of which a tenant's share is a quarter.
const LIMIT: usize = 40;

const SHARE: usize = 10;

/// A quarter of the workers of a layout with six worker bits.
const WORKERS: usize = 16;

const PATIENCE: Duration = Duration::from_secs(20);

fn small() -> Cluster {
    let limit = LIMIT.to_string();
    let kinds = ["keys", "tokens", "locks", "sequences"];
    let planned = Cluster::planned(1);
    kinds.iter().fold(planned, |planned, kind| {
        planned.with("limits", kind, &limit)
    })
}

struct Tenant {
    runtime: Runtime,
    asker: Asker,
    /// The prefix of the tenant's names.
    prefix: &'static str,
}

impl Tenant {
    fn new(asker: Asker, prefix: &'static str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().expect("a runtime");
        Self {
            runtime,
            asker,
            prefix,
        }
    }

    /// Sends a request. Returns the status and the body of the response.
    fn ask(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let asked = (method, path, "");
        let answer = self.asker.ask(0, asked, &body, PATIENCE);
        let answer = self.runtime.block_on(answer).expect("an answer");
        (answer.status, answer.json())
    }

    /// Creates another object of this kind.
    fn take(&mut self, kind: &str, number: usize) -> (u16, Value) {
        let name = format!("{}{number}", self.prefix);
        let (method, path, body) = match kind {
            "keys" => ("POST", format!("/v1/idempotency/{name}/begin"), json!({})),
            "tokens" => ("POST", "/v1/tokens".to_owned(), json!({})),
            "workers" => (
                "POST",
                "/v1/workers".to_owned(),
                json!({"layout": "few", "owner": name}),
            ),
            "locks" => (
                "POST",
                format!("/v1/locks/{name}/acquire"),
                json!({"owner": "a", "ttl_ms": 600_000}),
            ),
            _ => (
                "PUT",
                format!("/v1/sequences/{name}"),
                json!({"mode": "strict"}),
            ),
        };
        self.ask(method, &path, &body)
    }

    /// Creates objects until it is refused. Returns their number.
    #[track_caller]
    fn take_all(&mut self, kind: &str) -> usize {
        for number in 0..=LIMIT {
            let (status, body) = self.take(kind, number);
            if !(200..300).contains(&status) {
                let code = if kind == "workers" {
                    "workers-exhausted"
                } else {
                    "overloaded"
                };
                assert_eq!(body["code"], code, "{kind}: {body}");
                assert_eq!(body["retryable"], true, "{kind}: {body}");
                return number;
            }
        }
        panic!("{kind}: all {LIMIT} were had by one tenant");
    }
}

fn cli(cluster: &Cluster, token: Option<&Path>, words: &[&str]) -> (Option<i32>, String) {
    let endpoint = cluster.url(0, "");
    let mut command = binary::command(&["-e", &endpoint]);
    if let Some(token) = token {
        command.arg("--token-file").arg(token);
    }
    let output = command.args(words).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text.into_owned())
}

/// Each tenant takes as much as it can, the other one has room, and the operator makes room.
fn two_tenants(
    cluster: &Cluster,
    (mut hostile, mut honest): (Tenant, Tenant),
    (name, token): (&str, Option<&Path>),
) {
    for kind in ["keys", "tokens", "locks", "sequences"] {
        assert_eq!(hostile.take_all(kind), SHARE, "{kind}");
        let (status, body) = honest.take(kind, 0);
        assert!((200..300).contains(&status), "{kind}: {body}");
    }
    let layout = [
        "layout",
        "create",
        "few",
        "--epoch",
        "2026-06-01T00:00:00Z",
        "--time-bits",
        "39",
        "--worker-bits",
        "6",
    ];
    let (code, text) = cli(cluster, token, &layout);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(hostile.take_all("workers"), WORKERS);
    let (status, body) = honest.take("workers", 0);
    assert_eq!(status, 200, "{body}");
    let list = |what: &str| {
        let words = [what, "list", "--tenant", name, "-o", "json"];
        let (code, text) = cli(cluster, token, &words);
        assert_eq!(code, Some(0), "{text}");
        let listed: Value = serde_json::from_str(&text).expect("JSON");
        listed.as_array().expect("a list").len()
    };
    for (what, kind) in [("key", "keys"), ("token", "tokens")] {
        assert_eq!(list(what), SHARE);
        let delete = [what, "delete", "--tenant", name];
        let (code, text) = cli(cluster, token, &[&delete[..], &["--dry-run"]].concat());
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains(&format!("deletes {SHARE} ")), "{text}");
        assert_eq!(list(what), SHARE, "a dry run deleted something");
        let (code, text) = cli(cluster, token, &[&delete[..], &["--yes"]].concat());
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains(&format!("deleted {SHARE} ")), "{text}");
        assert_eq!(list(what), 0);
        assert_eq!(
            hostile.take_all(kind),
            SHARE,
            "{kind} after they were deleted"
        );
    }
    let (code, text) = cli(cluster, token, &["lock", "break", "x.0", "--yes"]);
    assert_eq!(code, Some(0), "{text}");
    let (status, body) = hostile.take("locks", LIMIT);
    assert_eq!(status, 200, "after a lock was broken: {body}");
}

#[test]
fn one_token_leaves_room_for_others_and_an_operator_frees_more() {
    let (cluster, file) = guarded(small());
    let of = |prefix: &'static str| {
        let scopes = json!({"scopes": ["allocate", format!("admin:{prefix}")]});
        let (caller, id) = Caller::with(&cluster, &scopes);
        let asker = Asker::new(&cluster.addresses()).with_token(&caller.token);
        (Tenant::new(asker, prefix), id)
    };
    let ((hostile, id), (honest, _)) = (of("x."), of("y."));
    let name = format!("token:{id}");
    two_tenants(&cluster, (hostile, honest), (&name, Some(&file)));
}

#[test]
fn one_address_leaves_room_for_others_and_an_operator_frees_more() {
    let cluster = small().ready();
    let of = |address: &str, prefix| {
        let source: IpAddr = address.parse().expect("an address");
        let asker = Asker::new(&cluster.addresses()).from_source(source);
        Tenant::new(asker, prefix)
    };
    let (hostile, honest) = (of("127.0.0.2", "x."), of("127.0.0.3", "y."));
    two_tenants(&cluster, (hostile, honest), ("address:127.0.0.2", None));
}
