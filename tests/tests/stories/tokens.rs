//! The cluster's tokens: what each permits, on every node, until it is revoked or expires.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use seqd_tests::cluster::Cluster;
use seqd_tests::http::{self, Reply};
use seqd_tests::{binary, wait};
use serde_json::{Value, json};

const OPERATOR: &str = "operator-0123456789abcdef0123456789abcdef";

/// A node applies what its leader has within milliseconds; on a busy machine within this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The cluster of planned nodes, whose callers need tokens, with the operator's file.
pub(crate) fn guarded(mut cluster: Cluster) -> (Cluster, PathBuf) {
    let file = cluster.folder().join("token");
    std::fs::write(&file, format!("{OPERATOR}\n")).expect("the token's file");
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its mode");
    let shown = format!("{:?}", file.display().to_string());
    for index in 0..cluster.size() {
        let node = cluster.node_mut(index);
        node.set("auth", "enabled", "true");
        node.set("auth", "bootstrap_token_file", &shown);
    }
    (cluster.ready(), file)
}

pub(crate) struct Caller<'a> {
    cluster: &'a Cluster,
    pub(crate) token: String,
}

impl<'a> Caller<'a> {
    pub(crate) fn operator(cluster: &'a Cluster) -> Self {
        let token = OPERATOR.to_owned();
        Self { cluster, token }
    }

    /// A caller with a new token that permits this.
    pub(crate) fn with(cluster: &'a Cluster, request: &Value) -> (Self, String) {
        let made = Self::operator(cluster)
            .post("/v1/access", request)
            .ok()
            .json();
        let text = |name: &str| made[name].as_str().expect("a text").to_owned();
        let token = text("token");
        (Self { cluster, token }, text("id"))
    }

    pub(crate) fn send(
        &self,
        method: &str,
        node: usize,
        path: &str,
        body: Option<&Value>,
    ) -> Reply {
        let request = http::request(method, &self.cluster.url(node, path));
        let request = request.header("authorization", &format!("Bearer {}", self.token));
        match body {
            Some(body) => request.json(body).reply(),
            None => request.reply(),
        }
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", 0, path, None)
    }

    pub(crate) fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", 0, path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", 0, path, Some(body))
    }
}

pub(crate) fn with_sequences(cluster: &Cluster) {
    let operator = Caller::operator(cluster);
    for name in ["order.eu", "order.us", "invoice.eu", "order"] {
        let path = format!("/v1/sequences/{name}");
        let strict = json!({"mode": "strict"});
        operator.send("PUT", 0, &path, Some(&strict)).ok();
    }
}

fn names(reply: Reply) -> Vec<String> {
    let items = reply.ok().json()["items"].as_array().cloned();
    let name = |item: &Value| item["name"].as_str().expect("a name").to_owned();
    items.expect("items").iter().map(name).collect()
}

#[test]
fn a_token_permits_its_scope_for_its_prefix_and_nothing_else() {
    let (cluster, _file) = guarded(Cluster::planned(1));
    with_sequences(&cluster);
    let (order, _) = Caller::with(&cluster, &json!({"scopes": ["allocate:order."]}));
    let (reader, _) = Caller::with(&cluster, &json!({"scopes": ["read"]}));

    let next = |caller: &Caller<'_>, name: &str| {
        caller.post(&format!("/v1/sequences/{name}/next"), &json!({}))
    };
    next(&order, "order.eu").ok();
    for name in ["invoice.eu", "order", "no-such"] {
        let refused = next(&order, name).refused(403, "forbidden");
        assert!(
            refused.detail().contains(&format!("allocate for {name}")),
            "{}",
            refused.body
        );
    }
    next(&reader, "order.eu").refused(403, "forbidden");

    // What has no name takes the scope alone.
    order.get("/v1/id").ok();
    order.get("/v1/uuids?count=2").ok();
    reader.get("/v1/id").refused(403, "forbidden");

    // Only the names that it may see.
    let list =
        |caller: &Caller<'_>, query: &str| names(caller.get(&format!("/v1/sequences{query}")));
    assert_eq!(list(&order, ""), ["order.eu", "order.us"]);
    assert_eq!(list(&order, "?prefix=ord"), ["order.eu", "order.us"]);
    assert_eq!(list(&order, "?prefix=order.u"), ["order.us"]);
    assert_eq!(list(&order, "?prefix=invoice"), [""; 0]);
    assert_eq!(list(&reader, "").len(), 4);
    let first = order.get("/v1/sequences?limit=1").ok().json();
    let cursor = first["next_cursor"].as_str().expect("a second page");
    assert_eq!(
        list(&order, &format!("?limit=1&cursor={cursor}")),
        ["order.us"]
    );
    let missing = order.get("/v1/sequences/order.e").refused(404, "not-found");
    assert!(
        !missing.body.contains("invoice") && missing.json()["hint"].is_null(),
        "{}",
        missing.body
    );
}

#[test]
fn a_token_permits_locks_of_its_prefix_and_nothing_else() {
    let (cluster, _file) = guarded(Cluster::planned(1));
    let (jobs, _) = Caller::with(&cluster, &json!({"scopes": ["allocate:jobs/"]}));
    let (reader, _) = Caller::with(&cluster, &json!({"scopes": ["read:jobs/"]}));
    let acquire = |caller: &Caller<'_>, name: &str| {
        caller.post(
            &format!("/v1/locks/{name}/acquire"),
            &json!({"owner": "pod"}),
        )
    };
    let held = acquire(&jobs, "jobs%2Fnightly").ok().json();
    for name in ["jobs", "other", "%2Fjobs%2F"] {
        acquire(&jobs, name).refused(403, "forbidden");
    }
    let operator = Caller::operator(&cluster);
    acquire(&operator, "other").ok();

    let token = json!({"owner": "pod", "token": held["token"]});
    let lease = json!({"lease": held["lease"]});
    let path = |verb: &str| format!("/v1/locks/jobs%2Fnightly/{verb}");
    jobs.post(&path("break"), &lease).refused(403, "forbidden");
    for verb in ["acquire", "renew", "release"] {
        reader.post(&path(verb), &lease).refused(403, "forbidden");
    }
    reader.post(&path("verify"), &token).ok();
    reader.get("/v1/locks/jobs%2Fnightly").ok();
    reader.get("/v1/locks/other").refused(403, "forbidden");
    assert_eq!(names(reader.get("/v1/locks")), ["jobs/nightly"]);
    assert_eq!(names(operator.get("/v1/locks")).len(), 2);
    jobs.post(&path("renew"), &lease).ok();
    jobs.post(&path("release"), &lease).ok();
}

#[test]
fn sequences_are_changed_by_their_owner_alone_and_the_cluster_by_nobody_with_a_prefix() {
    let (cluster, _file) = guarded(Cluster::planned(1));
    with_sequences(&cluster);
    let (order, _) = Caller::with(&cluster, &json!({"scopes": ["allocate:order."]}));
    let (reader, _) = Caller::with(&cluster, &json!({"scopes": ["read"]}));
    let (owner, _) = Caller::with(&cluster, &json!({"scopes": ["admin:order."]}));
    let definition = json!({"mode": "strict"});
    let put = |caller: &Caller<'_>, name: &str| {
        caller.send(
            "PUT",
            0,
            &format!("/v1/sequences/{name}"),
            Some(&definition),
        )
    };
    put(&owner, "order.asia").ok();
    put(&owner, "invoice.asia").refused(403, "forbidden");
    put(&order, "order.africa").refused(403, "forbidden");
    put(&reader, "order.africa").refused(403, "forbidden");
    for path in [
        "/v1/cluster",
        "/v1/cluster/members",
        "/v1/workers",
        "/v1/config",
        "/metrics",
    ] {
        for caller in [&order, &owner] {
            caller.get(path).refused(403, "forbidden");
        }
        reader.get(path).ok();
    }
    let operator_id = Caller::operator(&cluster).get("/v1/id").ok().body;
    for caller in [&order, &owner, &reader] {
        for path in ["/v1/access", "/v1/cluster/snapshot"] {
            caller.get(path).refused(403, "forbidden");
        }
        caller
            .post("/v1/cluster/leader", &json!({}))
            .refused(403, "forbidden");
        let grown = json!({"scopes": ["admin"]});
        caller.post("/v1/access", &grown).refused(403, "forbidden");
        let n1 = "/v1/cluster/members/n1";
        caller.delete(n1).refused(403, "forbidden");
        caller.get("/version").ok();
        let id = operator_id.trim();
        let parts = caller.get(&format!("/v1/ids/{id}")).ok().json();
        let sees = std::ptr::eq(caller, &reader);
        assert_eq!(parts["holder"].is_null(), !sees, "{parts}");
        caller.get("/v1/layouts").ok();
    }
    let all = names(Caller::operator(&cluster).get("/v1/sequences"));
    assert!(!all.contains(&"order.africa".to_owned()) && !all.contains(&"no-such".to_owned()));
}

#[test]
fn a_token_ends_at_its_time_and_has_its_rate_on_each_node() {
    let (mut cluster, _file) = guarded(Cluster::planned(1));
    let short = json!({"scopes": ["read"], "ttl_ms": 1});
    let (over, id) = Caller::with(&cluster, &short);
    let refused = over.get("/v1/cluster").refused(401, "unauthorized");
    assert!(
        refused.detail().contains(&format!("{id} expired at 20")),
        "{}",
        refused.body
    );

    let slow = json!({"scopes": ["allocate"], "per_second": 2, "description": "slow"});
    let (slow, _) = Caller::with(&cluster, &slow);
    let replies: Vec<Reply> = (0..20).map(|_| slow.get("/v1/id")).collect();
    let refused = replies
        .iter()
        .find(|reply| reply.status == 429)
        .expect("a refusal");
    refused.clone().refused(429, "rate-limited");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(
        refused.detail().contains("2 requests a second"),
        "{}",
        refused.body
    );
    Caller::operator(&cluster).get("/v1/id").ok();

    // They are part of the replicated state, so they are there after a start.
    let listed = |cluster: &Cluster| {
        let list = Caller::operator(cluster).get("/v1/access").ok().json();
        let tokens = list["items"].as_array().expect("items").clone();
        let shown = tokens.iter().map(|token| {
            let field = |name: &str| token[name].to_string();
            (
                field("description"),
                field("scopes"),
                field("expired"),
                field("per_second"),
            )
        });
        shown.collect::<BTreeSet<_>>()
    };
    let before = listed(&cluster);
    let expected = |parts: [&str; 4]| {
        let [description, scopes, expired, rate] = parts.map(str::to_owned);
        (description, scopes, expired, rate)
    };
    assert_eq!(
        before,
        BTreeSet::from([
            expected([r#""""#, r#"["read"]"#, "true", "null"]),
            expected([r#""slow""#, r#"["allocate"]"#, "false", "2"]),
        ])
    );
    cluster.node_mut(0).stop();
    cluster.node_mut(0).start();
    cluster.wait_ready();
    assert_eq!(listed(&cluster), before);
}

#[test]
fn changes_are_in_the_log_with_who_made_them_and_no_secret_is_anywhere() {
    let (cluster, file) = guarded(Cluster::planned(1));
    let (url, file) = (cluster.url(0, ""), file.display().to_string());
    let run = |arguments: &[&str]| {
        let output = binary::run(&[&["-e", &url, "--token-file", &file], arguments].concat());
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{words}");
        (String::from_utf8_lossy(&output.stdout).into_owned(), words)
    };
    let create = [
        "access",
        "create",
        "--scope",
        "admin:order.",
        "--description",
        "shop",
    ];
    let (plan, _) = run(&[&create[..], &["--dry-run"]].concat());
    assert_eq!(plan, "makes a token that permits admin:order.\n");
    let (token, words) = run(&create);
    let token = token.trim().to_owned();
    let id = token.split('_').nth(1).expect("its ID").to_owned();
    assert!(words.contains(&id) && !words.contains(&token), "{words}");
    let caller = Caller {
        cluster: &cluster,
        token: token.clone(),
    };
    let definition = json!({"mode": "strict"});
    caller
        .send("PUT", 0, "/v1/sequences/order.eu", Some(&definition))
        .ok();
    caller
        .send("PUT", 0, "/v1/sequences/bill", Some(&definition))
        .refused(403, "forbidden");
    let metrics = Caller::operator(&cluster).get("/metrics").ok().body;
    let config = Caller::operator(&cluster).get("/v1/config").ok().body;
    let (list, _) = run(&["access", "list"]);
    assert!(
        list.contains(&id) && list.contains("admin:order."),
        "{list}"
    );
    run(&["access", "revoke", &id, "--yes"]);

    let log = cluster.node(0).stderr();
    let line = |parts: &[&str]| {
        let found = log
            .lines()
            .find(|line| parts.iter().all(|part| line.contains(part)));
        found.unwrap_or_else(|| panic!("no line of {parts:?} in\n{log}"));
    };
    let who = format!("token {id}");
    line(&["audit: POST /v1/access", "operator", "127.0.0.1", "201"]);
    line(&["audit: POST /v1/access?dry_run=1", "operator", "200"]);
    line(&["audit: PUT /v1/sequences/order.eu", &who, "201"]);
    line(&["audit: PUT /v1/sequences/bill", &who, "403"]);
    line(&[&format!("audit: DELETE /v1/access/{id}"), "operator", "200"]);

    let secret = token.rsplit('_').next().expect("its secret");
    let stored = binary::files_below(&cluster.node(0).data()).expect("the folder");
    assert!(!stored.is_empty());
    for path in stored {
        let bytes = std::fs::read(&path).expect("a file");
        for secret in [secret, OPERATOR] {
            let is_in = bytes
                .windows(secret.len())
                .any(|part| part == secret.as_bytes());
            assert!(!is_in, "{} has a token", path.display());
        }
    }
    for text in [&log, &metrics, &config, &list] {
        assert!(
            !text.contains(secret) && !text.contains(OPERATOR),
            "a token is shown: {text}"
        );
    }
    assert_eq!(core_limits(&cluster), ["1", "1"], "core dumps are on");
}

/// The soft and the hard limit of a core dump of the first node.
fn core_limits(cluster: &Cluster) -> [String; 2] {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", cluster.node(0).pid()));
    let limits = limits.expect("its limits");
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    let core: Vec<&str> = core.expect("a line").split_whitespace().collect();
    [core[4].to_owned(), core[5].to_owned()]
}

#[test]
fn a_node_that_may_write_no_core_dump_at_all_leaves_its_limit_and_starts() {
    let (mut cluster, _file) = guarded(Cluster::planned(1));
    cluster.node_mut(0).stop();
    let launcher = ["sh", "-c", "ulimit -c 0 && exec \"$@\"", "sh"];
    cluster.node_mut(0).set_launcher(&launcher);
    cluster.node_mut(0).start();
    cluster.wait_ready();
    assert_eq!(core_limits(&cluster), ["0", "0"]);
    let log = cluster.node(0).stderr();
    assert!(!log.contains("core dump"), "{log}");
}

#[test]
fn a_prefix_that_no_sequence_can_have_is_noted_and_taken() {
    let (cluster, file) = guarded(Cluster::planned(1));
    let (url, file) = (cluster.url(0, ""), file.display().to_string());
    for (scope, is_noted) in [("allocate:order/", true), ("allocate:order.", false)] {
        let create = ["access", "create", "--scope", scope];
        let output = binary::run(&[&["-e", &url, "--token-file", &file], &create[..]].concat());
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words}");
        let note = format!("{scope}: no sequence has a name that begins so");
        assert_eq!(words.contains(&note), is_noted, "{words}");
        assert!(output.stdout.starts_with(b"seqd_"), "{words}");
    }
}

#[test]
fn a_token_s_file_is_its_owner_s_alone_and_none_is_left_where_there_is_no_token() {
    let (cluster, file) = guarded(Cluster::planned(1));
    let (url, file) = (cluster.url(0, ""), file.display().to_string());
    let run = |arguments: &[&str]| {
        binary::run(&[&["-e", &url, "--token-file", &file], arguments].concat())
    };
    let new = cluster.folder().join("shop");
    let path = new.display().to_string();
    let create = [
        "access",
        "create",
        "--scope",
        "allocate,read:order.",
        "--out",
        &path,
    ];
    let refused = run(&[&create[..], &["--rate", "0"]].concat());
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(!new.exists(), "a file without a token");
    assert_eq!(run(&create).status.code(), Some(0));
    let mode = new.metadata().expect("the file").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let output = binary::run(&["-e", &url, "--token-file", &path, "id"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let again = run(&create);
    assert_eq!(again.status.code(), Some(2), "it is overwritten: {again:?}");
}

#[test]
fn whoever_leaves_before_the_answer_is_in_the_log_too() {
    let (cluster, _file) = guarded(Cluster::planned(1));
    let cluster = &cluster;
    let leave = |after: Duration| {
        let body = r#"{"scopes":["read"],"description":"left"}"#;
        let request = format!(
            "POST /v1/access HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {OPERATOR}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(cluster.address(0)).expect("a connection");
        stream.write_all(request.as_bytes()).expect("a request");
        let asked = Instant::now();
        // Shorter than any timer.
        while asked.elapsed() < after {
            std::hint::spin_loop();
        }
    };
    let lines = |part: &str| {
        let log = cluster.node(0).stderr();
        let lines = log
            .lines()
            .filter(|line| line.contains("audit: POST /v1/access"));
        lines.filter(|line| line.contains(part)).count()
    };
    let made = || {
        let list = Caller::operator(cluster).get("/v1/access?limit=1000").ok();
        list.json()["items"].as_array().expect("items").len()
    };
    // Some leave too early, and nothing has happened; some too late.
    let mut tries = 0..400;
    while lines("\"status\":0") == 0 || made() == 0 {
        let number: u64 = tries.next().expect("one that leaves while it is served");
        leave(Duration::from_micros(20 + number % 40 * 50));
    }
    wait::until("a line for each token", PATIENCE, || {
        (lines("") >= made()).then_some(())
    });
}
