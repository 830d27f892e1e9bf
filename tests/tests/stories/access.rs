//! Access tokens: the responses to a caller without a token, and the replacement of the operator's
//! token.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use seqd_api::OPERATIONS;
use seqd_tests::callers::{OPERATOR, guarded};
use seqd_tests::cluster::Cluster;
use seqd_tests::http::{self, Reply};
use seqd_tests::{binary, wait};
use serde_json::json;

const SECOND: &str = "second-0123456789abcdef0123456789abcdef";

/// The time for many polls of the file on a busy machine.
const TAKEN: Duration = Duration::from_secs(30);

/// Writes a token's file in one step.
fn write_token(path: &Path, token: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, format!("{token}\n")).expect("the token's file");
    std::fs::set_permissions(&new, Permissions::from_mode(0o600)).expect("its mode");
    std::fs::rename(&new, path).expect("the token's place");
}

fn with_token(method: &str, url: &str, token: &str) -> http::Request {
    http::request(method, url).header("authorization", &format!("Bearer {token}"))
}

/// The refusal of a caller without a token, without the fields that differ between any two
/// responses.
#[track_caller]
fn to_a_stranger(reply: Reply) -> (String, Vec<(String, String)>) {
    let reply = reply.refused(401, "unauthorized");
    assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    let differs = |name: &str| matches!(name, "date" | "x-request-id" | "connection");
    let headers = reply.headers.iter().filter(|(name, _)| !differs(name));
    (reply.body.clone(), headers.cloned().collect())
}

#[test]
fn a_stranger_without_a_token_learns_nothing_and_changes_nothing() {
    let (cluster, _file) = guarded(Cluster::planned(1));
    let url = |path: &str| cluster.url(0, path);
    let order = url("/v1/sequences/order");
    let definition = json!({"mode": "strict"});
    with_token("PUT", &order, OPERATOR)
        .json(&definition)
        .reply()
        .ok();
    let seen = || {
        let all = [order.clone(), url("/v1/sequences")];
        all.map(|url| with_token("GET", &url, OPERATOR).reply().ok().body)
    };
    let before = seen();

    let nothing = to_a_stranger(http::get(&url("/v1/no-such-path")).reply());
    let wrong = |method: &str, url: &str| to_a_stranger(with_token(method, url, SECOND).reply());
    let as_wrong = wrong("GET", &url("/v1/no-such-path"));
    for told in [&nothing.0, &as_wrong.0] {
        assert!(!told.contains("n1"), "{told}");
    }
    for route in OPERATIONS {
        let path = route.path.replace("{name}", "order");
        let path = path.replace("{grant}", "7").replace("{id}", "7");
        let path = path
            .replace("{code}", "not-found")
            .replace("{layout}", "default")
            .replace("{key}", "pay")
            .replace("{token}", "0");
        assert!(!path.contains('{'), "{path}");
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            let ask = || http::request(method, &url(&path));
            if route.is_public() {
                assert_ne!(ask().reply().status, 401, "{method} {path}");
                continue;
            }
            assert_eq!(to_a_stranger(ask().reply()), nothing, "{method} {path}");
            assert_eq!(wrong(method, &url(&path)), as_wrong, "{method} {path}");
        }
        assert_eq!(
            http::request("HEAD", &url(&path)).reply().status == 401,
            !route.is_public()
        );
    }
    // The node checks the token before it reads a body or the host.
    let broken = http::post(&url("/v1/sequences/order/next")).body("{\"count\":");
    assert_eq!(to_a_stranger(broken.reply()), nothing);
    let elsewhere = http::get(&url("/v1/id")).header("host", "evil.example");
    assert_eq!(to_a_stranger(elsewhere.reply()), nothing);
    let basic = http::get(&url("/v1/id")).header("authorization", &format!("Basic {OPERATOR}"));
    assert_eq!(to_a_stranger(basic.reply()), nothing);

    assert_eq!(seen(), before);
    let config = with_token("GET", &url("/v1/config"), OPERATOR).reply().ok();
    let told = cluster.node(0).stderr();
    for token in [OPERATOR, SECOND] {
        assert!(
            !config.body.contains(token) && !told.contains(token),
            "a token is shown"
        );
    }
}

/// Requests that allocate come thousands of times a second, and one has a one-time token in its
/// path.
#[test]
fn allocations_are_not_logged_and_one_time_tokens_never_are() {
    let cluster = Cluster::planned(1)
        .with("log", "level", "\"trace\"")
        .ready();
    let ask = |path: &str, body: serde_json::Value| {
        let asked = http::post(&cluster.url(0, path)).json(&body).reply();
        asked.ok().json()
    };
    let held = ask("/v1/locks/report/acquire", json!({"owner": "a"}));
    let hold = json!({"lease": held["lease"]});
    ask("/v1/locks/report/renew", hold.clone());
    ask("/v1/locks/report/verify", json!({"token": held["token"]}));
    ask("/v1/locks/report/release", hold.clone());
    let again = http::post(&cluster.url(0, "/v1/locks/report/release")).json(&hold);
    again.reply().refused(409, "lease-lost");
    let begun = ask("/v1/idempotency/pay/begin", json!({}));
    let result = json!({"claim": begun["claim"], "result": 1});
    ask("/v1/idempotency/pay/complete", result);
    let begun = ask("/v1/idempotency/other/begin", json!({}));
    let claim = json!({"claim": begun["claim"]});
    ask("/v1/idempotency/other/abandon", claim);
    let token = ask("/v1/tokens", json!({}))["token"].clone();
    let token = token.as_str().expect("a text").to_owned();
    ask(&format!("/v1/tokens/{token}/consume"), json!({}));
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    cluster.next(0, "order", 1);

    let log = cluster.node(0).stderr();
    let audited: Vec<&str> = log.lines().filter(|line| line.contains("audit:")).collect();
    assert_eq!(audited.len(), 1, "{audited:?}");
    assert!(
        audited[0].contains("PUT /v1/sequences/order"),
        "{audited:?}"
    );
    assert!(log.contains("DEBUG"), "the log is at its most detailed");
    assert!(!log.contains(&token), "a one-time token is in the log");
}

#[test]
fn commands_show_the_token_of_a_file_and_a_new_one_takes_its_place() {
    let (cluster, file) = guarded(Cluster::planned(1));
    let (url, file_text) = (cluster.url(0, ""), file.display().to_string());
    let run = |more: &[&str]| {
        let output = binary::run(&[&["-e", &url], more, &["id"]].concat());
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!words.contains(OPERATOR), "{words}");
        (output.status.code(), words)
    };
    assert_eq!(run(&["--token-file", &file_text]).0, Some(0));
    let (code, words) = run(&[]);
    assert!(
        code == Some(4) && words.contains("--token-file"),
        "{code:?} {words}"
    );

    let is_let_in = |token: &str| {
        with_token("GET", &cluster.url(0, "/v1/id"), token)
            .reply()
            .status
            == 200
    };
    write_token(&file, SECOND);
    wait::until("the new token", TAKEN, || is_let_in(SECOND).then_some(()));
    assert!(!is_let_in(OPERATOR), "the token before is let in");

    // A file that cannot be used changes nothing, and commands do not read it.
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("its mode");
    let warned = || {
        cluster
            .node(0)
            .stderr()
            .contains("the token in force is kept")
    };
    wait::until("a warning", TAKEN, || warned().then_some(()));
    assert!(is_let_in(SECOND));
    let (code, words) = run(&["--token-file", &file_text]);
    assert!(
        code == Some(2) && words.contains("chmod 0600"),
        "{code:?} {words}"
    );
}

#[test]
fn a_node_that_needs_tokens_and_has_none_does_not_start() {
    let mut cluster = Cluster::planned(1);
    let node = cluster.node_mut(0);
    node.set("auth", "enabled", "true");
    node.write_config();
    let config = node.config().display().to_string();
    let check = || {
        let output = binary::run(&["config", "check", "--config", &config]);
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, words) = check();
    assert_eq!(code, Some(2), "{words}");
    assert!(
        words.contains("it requires auth.bootstrap_token_file"),
        "{words}"
    );
    let node = cluster.node_mut(0);
    node.set("auth", "bootstrap_token_file", "\"/nonexistent/token\"");
    node.write_config();
    let (code, words) = check();
    assert_eq!(code, Some(2), "{words}");
    assert!(
        words.contains("cannot read /nonexistent/token: no such file"),
        "{words}"
    );
}
