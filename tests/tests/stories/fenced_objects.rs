//! Objects of a store that fence as LOCKS.md describes, with the document's Python example.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use seqd_tests::binary::run;
use seqd_tests::cluster::{Cluster, integer};
use seqd_tests::http;
use seqd_tests::objects::{Conditions, METADATA, ObjectStore};
use seqd_tests::{python, skips, wait};
use serde_json::json;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

/// The number of times, 20 ms apart, that a slow holder checks whether it may write: one minute,
/// twice the longest wait of the story, so that no shell remains forever.
const LOOKS: usize = 3_000;

/// A holder with this token that adds a line to the object.
fn adds(store: &ObjectStore, token: i64, line: &str) -> Command {
    changes(store, token, &format!("cat; echo {line}"))
}

fn changes(store: &ObjectStore, token: i64, program: &str) -> Command {
    let mut command = python::example("fenced_object.py");
    command
        .args([&store.url("report"), &token.to_string()])
        .args(["sh", "-c", program])
        .stderr(Stdio::piped());
    command
}

fn done(mut command: Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn refused(output: &Output, words: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    assert!(text.contains(words), "{text}");
}

/// A holder that has read the object and writes when a file appears. Dropping it kills the holder.
struct Slow {
    /// The first process of a separate process group. `None` after it has ended.
    child: Option<Child>,
    folder: TempDir,
}

impl Slow {
    fn begins(store: &ObjectStore, token: i64, line: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let within = folder.path().display();
        let program = format!(
            "cat; echo {line}; touch {within}/read; looks=0; until test -e {within}/go; do \
             looks=$((looks + 1)); test $looks -lt {LOOKS} || exit 1; sleep 0.02; done"
        );
        let child = changes(store, token, &program).process_group(0).spawn();
        let slow = Self {
            child: Some(child.unwrap()),
            folder,
        };
        wait::until("it has read the object", PATIENCE, || {
            slow.folder.path().join("read").exists().then_some(())
        });
        slow
    }

    fn writes(mut self) -> Output {
        fs::write(self.folder.path().join("go"), "").unwrap();
        self.child.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            let _ = group.map(|group| kill_process_group(group, Signal::KILL));
            let _ = child.wait();
        }
    }
}

#[test]
fn an_object_refuses_the_write_of_a_holder_whose_lock_was_granted_again() {
    if skips::ends("the example in Python", python::missing()) {
        return;
    }
    let cluster = Cluster::started(1);
    let store = ObjectStore::start(Conditions::Kept);
    let acquire = |owner: &str, ttl_ms: u64| {
        let body = json!({"owner": owner, "ttl_ms": ttl_ms, "wait_ms": 30_000});
        let request = http::post(&cluster.url(0, "/v1/locks/report/acquire")).json(&body);
        integer(&request.patience(PATIENCE * 2).reply().ok().json()["token"])
    };
    let paused = acquire("paused", 300);
    done(adds(&store, paused, "one"));
    let next = acquire("next", 60_000);
    // The earlier holder may write until the next one has written once. Until then this cannot be
    // detected.
    done(adds(&store, paused, "late"));
    done(adds(&store, next, "two"));
    let output = adds(&store, paused, "too-late").output().unwrap();
    refused(&output, &format!("token {paused} is older than {next}"));
    done(adds(&store, next, "three"));
    let all = format!("fence {next}\none\nlate\ntwo\nthree\n");
    assert_eq!(store.content("report"), all);

    // The example of LOCKS.md, in which the command of `seqd lock run` is the holder.
    let program = "exec \"$0\" \"$1\" \"$2\" $SEQD_LOCK_TOKEN sh -c 'cat; echo four'";
    let example = changes(&store, 0, "");
    let words: Vec<&str> = example
        .get_args()
        .filter_map(|word| word.to_str())
        .collect();
    let endpoint = cluster.url(0, "");
    let output = run(&[
        "-e", &endpoint, "lock", "run", "other", "--", "sh", "-c", program, "python3", words[0],
        words[1],
    ]);
    assert!(output.status.success(), "{output:?}");
    assert!(store.content("report").ends_with("three\nfour\n"));
}

#[test]
fn of_two_that_have_read_the_object_the_later_holder_is_the_last_to_write() {
    if skips::ends("the example in Python", python::missing()) {
        return;
    }
    let store = ObjectStore::start(Conditions::Kept);
    // The earlier holder reads before the later one writes.
    let earlier = Slow::begins(&store, 41, "earlier");
    done(adds(&store, 42, "later"));
    refused(&earlier.writes(), "token 41 is older than 42");
    assert_eq!(store.content("report"), "fence 42\nlater\n");
    // The later holder reads before the earlier one writes, and reads again.
    let later = Slow::begins(&store, 43, "again");
    done(adds(&store, 42, "between"));
    assert!(later.writes().status.success());
    assert_eq!(store.content("report"), "fence 43\nlater\nbetween\nagain\n");
    assert_eq!(store.refused(), 2);
    // Concurrent threads of one holder lose no write either.
    let threads = [0; 4].map(|_| adds(&store, 44, "thread").spawn().unwrap());
    for thread in threads {
        let output = thread.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(store.content("report").matches("thread").count(), 4);
}

#[test]
fn a_store_that_ignores_conditions_takes_the_write_of_an_earlier_holder() {
    if skips::ends("the example in Python", python::missing()) {
        return;
    }
    let store = ObjectStore::start(Conditions::Ignored);
    let earlier = Slow::begins(&store, 41, "earlier");
    done(adds(&store, 42, "later"));
    assert!(earlier.writes().status.success(), "nothing refuses it");
    assert_eq!(store.content("report"), "fence 41\nearlier\n");
    // The test of a store in LOCKS.md: a condition that cannot hold.
    let trial = |store: &ObjectStore| {
        let request = http::request("PUT", &store.url("report"));
        request.header("if-match", "\"other\"").reply().status
    };
    assert_eq!(trial(&store), 200);
    let store = ObjectStore::start(Conditions::Kept);
    done(adds(&store, 1, "first"));
    assert_eq!(trial(&store), 412);
}

/// A port at which each request is answered with this status.
fn answers_only(status: &str) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/report", listener.local_addr().unwrap());
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        stream.write_all(answer.as_bytes()).unwrap();
    });
    (url, server)
}

#[test]
fn a_store_that_refuses_differs_from_one_that_fails_or_does_not_answer() {
    if skips::ends("the example in Python", python::missing()) {
        return;
    }
    let code = |url: &str| {
        let mut command = python::example("fenced_object.py");
        let output = command.args([url, "1", "cat"]).output().unwrap();
        output.status.code()
    };
    for (status, expected) in [("403 Forbidden", 1), ("500 Internal Server Error", 8)] {
        let (url, server) = answers_only(status);
        assert_eq!(code(&url), Some(expected), "{status}");
        server.join().unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = format!("http://{}/report", listener.local_addr().unwrap());
    drop(listener);
    assert_eq!(code(&closed), Some(8), "nobody listens");
}

/// The reason why the example has the token in the content: the ETag depends only on the content.
#[test]
fn a_token_in_the_metadata_admits_an_earlier_holder_if_the_content_is_unchanged() {
    let store = ObjectStore::start(Conditions::Kept);
    let url = store.url("report");
    let put = |token: &str, content: &str, etag: &str| {
        let request = http::request("PUT", &url).header(METADATA, token);
        let condition = if etag == "*" {
            "if-none-match"
        } else {
            "if-match"
        };
        request.header(condition, etag).body(content).reply().status
    };
    let read = || {
        let reply = http::get(&url).reply().ok();
        let header = |name| reply.header(name).unwrap_or_default().to_owned();
        (header("etag"), header(METADATA))
    };
    assert_eq!(put("40", "balance 10", "*"), 200);
    let (seen_by_41, _) = read();
    // The next holder finds that the balance is correct.
    assert_eq!(put("42", "balance 10", &seen_by_41), 200);
    assert_eq!(put("41", "balance 0", &seen_by_41), 200, "it was let in");
    assert_eq!(read().1, "41", "the larger token is gone");
}
