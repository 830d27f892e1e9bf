//! A service that fences as LOCKS.md does, killed and started again: the example in Python as it
//! stands there.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use seqd_tests::cluster::{Cluster, integer};
use seqd_tests::http::{self, Reply};
use seqd_tests::{python, skips};
use serde_json::json;

/// The service, which is killed when it is dropped: it is given no time for anything.
struct Service {
    child: Child,
    url: String,
}

impl Service {
    fn start(database: &Path) -> Self {
        let mut command = python::example("fenced_service.py");
        command.arg("0").arg(database).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        let out = child.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut url).unwrap();
        Self {
            child,
            url: url.trim().to_owned(),
        }
    }

    fn send(&self, method: &str, name: &str, token: &str, body: &str) -> Reply {
        let request = http::request(method, &format!("{}/{name}", self.url));
        let request = match token {
            "" => request,
            token => request.header("fencing-token", token),
        };
        request.body(body).reply()
    }

    fn write(&self, token: i64, body: &str) -> u16 {
        self.send("PUT", "report", &token.to_string(), body).status
    }

    fn body(&self) -> String {
        self.send("GET", "report", "", "").ok().body
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_service_that_is_killed_still_refuses_an_earlier_holder() {
    if skips::ends("the example in Python", python::missing()) {
        return;
    }
    let cluster = Cluster::started(1);
    let acquire = |owner: &str, ttl_ms: u64| {
        let body = json!({"owner": owner, "ttl_ms": ttl_ms, "wait_ms": 5_000});
        let request = http::post(&cluster.url(0, "/v1/locks/report/acquire")).json(&body);
        integer(&request.reply().ok().json()["token"])
    };
    let database = cluster.folder().join("documents.db");
    let service = Service::start(&database);
    let paused = acquire("paused", 300);
    assert_eq!(service.write(paused, "one"), 200);
    let next = acquire("next", 60_000);
    assert_eq!(service.write(next, "two"), 200);
    assert_eq!(service.write(paused, "late"), 409);

    drop(service);
    let service = Service::start(&database);
    let refused = service.send("PUT", "report", &paused.to_string(), "later still");
    assert_eq!(refused.status, 409);
    let words = format!("token {paused} is older than {next}");
    assert!(refused.body.contains(&words), "{}", refused.body);
    assert_eq!(service.body(), "two");
    assert_eq!(service.write(next, "three"), 200, "the holder goes on");

    // A document that was deleted still refuses; another is not concerned; no token, no write.
    let delete = service.send("DELETE", "report", &next.to_string(), "");
    assert_eq!(delete.status, 200);
    assert_eq!(service.write(paused, "back again"), 409);
    assert_eq!(service.send("GET", "report", "", "").status, 404);
    assert_eq!(service.send("PUT", "other", "1", "first").status, 200);
    for token in ["", "x", "-1", "9223372036854775808"] {
        assert_eq!(service.send("PUT", "report", token, "").status, 428);
    }
}

/// What the database is for: the same service, with its rows in memory alone.
#[test]
fn a_service_that_keeps_tokens_in_memory_forgets_them_and_lets_an_earlier_holder_in() {
    if skips::ends("the example in Python", python::missing()) {
        return;
    }
    let memory = Path::new(":memory:");
    let service = Service::start(memory);
    assert_eq!(service.write(42, "two"), 200);
    assert_eq!(service.write(41, "late"), 409, "while it runs");
    drop(service);
    let service = Service::start(memory);
    assert_eq!(service.write(41, "late"), 200, "it was let in");
    assert_eq!(service.body(), "late");
}
