//! A service that fences as LOCKS.md describes, killed and started again, with the document's
//! Python example.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use seqd_tests::cluster::{Cluster, integer};
use seqd_tests::http::{self, Reply};
use seqd_tests::{python, skips};
use serde_json::json;

/// The time limit for Python to start or to respond on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The service. Dropping it kills it without a clean stop.
struct Service {
    child: Child,
    url: String,
}

impl Service {
    fn start(database: &Path) -> Self {
        let mut command = python::example("fenced_service.py");
        command.arg("0").arg(database).stdout(Stdio::piped());
        let mut service = Self {
            child: command.spawn().unwrap(),
            url: String::new(),
        };
        let out = service.child.stdout.take().unwrap();
        let (send, printed) = mpsc::channel();
        // The thread ends with the service, whose end closes the pipe.
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(out).read_line(&mut line);
            let _ = send.send(read.map(|_| line));
        });
        let line = printed.recv_timeout(PATIENCE).expect("its address in time");
        service.url = line.unwrap().trim().to_owned();
        service
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

    // A deleted document still refuses an earlier token. Another document is not affected. A write
    // without a token is refused.
    let delete = service.send("DELETE", "report", &next.to_string(), "");
    assert_eq!(delete.status, 200);
    assert_eq!(service.write(paused, "back again"), 409);
    assert_eq!(service.send("GET", "report", "", "").status, 404);
    assert_eq!(service.send("PUT", "other", "1", "first").status, 200);
    for token in ["", "x", "-1", "9223372036854775808"] {
        assert_eq!(service.send("PUT", "report", token, "").status, 428);
    }
}

#[test]
fn the_body_of_a_delete_is_not_taken_for_the_next_request_of_its_connection() {
    if skips::ends("the example in Python", python::missing()) {
        return;
    }
    let service = Service::start(Path::new(":memory:"));
    let address = service.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = "PUT /report HTTP/1.1\r\nfencing-token: 9\r\ncontent-length: 0\r\n\r\n";
    let requests = format!(
        "DELETE /report HTTP/1.1\r\nfencing-token: 1\r\ncontent-length: {}\r\n\r\n{body}\
         GET /report HTTP/1.1\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(requests.as_bytes()).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    let statuses: Vec<&str> = answers
        .lines()
        .filter_map(|line| line.strip_prefix("HTTP/1.1 "))
        .map(|status| &status[..3])
        .collect();
    assert_eq!(statuses, ["200", "404"], "{answers}");
    assert!(answers.contains("Fencing-Token: 1\r\n"), "{answers}");
}

/// The reason for the database: the same service with its rows only in memory.
#[test]
fn a_service_that_keeps_tokens_in_memory_loses_them_and_accepts_an_earlier_holder() {
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
