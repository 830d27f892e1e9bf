//! Some nine hundred bad inputs over HTTP, at the command line and in configuration. Each must be
//! refused in time, with its status or exit code and with helpful words, and none may have an
//! effect.
//!
//! The inputs are in `tests/tests/contract/bad-inputs`, one per line. The top of each file
//! describes its format.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use seqd_tests::binary;
use seqd_tests::cluster::Cluster;
use seqd_tests::http::request;
use seqd_tests::wait;
use serde_json::{Value, json};

use crate::documented;
use crate::effects::all_that_counts;
use crate::pattern::missing;
use crate::script::{lines, words_of};

/// The time limit of a refusal. None needs more than one round of the cluster.
const PATIENCE: Duration = Duration::from_secs(8);

const SEPARATOR: &str = " | ";

/// The bytes that a text represents: `<c*N>` is N times the character c, `\xNN` is a byte.
fn expanded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((byte, behind)) = escaped(rest) {
            bytes.push(byte);
            rest = behind;
        } else if let Some((repeated, behind)) = repeated(rest) {
            bytes.extend_from_slice(repeated.as_bytes());
            rest = behind;
        } else {
            let (one, behind) = rest.split_at(first.len_utf8());
            bytes.extend_from_slice(one.as_bytes());
            rest = behind;
        }
    }
    bytes
}

fn escaped(text: &str) -> Option<(u8, &str)> {
    let (digits, behind) = text.strip_prefix("\\x")?.split_at_checked(2)?;
    Some((u8::from_str_radix(digits, 16).ok()?, behind))
}

fn repeated(text: &str) -> Option<(String, &str)> {
    let inside = text.strip_prefix('<')?;
    let what = inside.chars().next()?;
    let (count, behind) = inside
        .get(what.len_utf8()..)?
        .strip_prefix('*')?
        .split_once('>')?;
    Some((what.to_string().repeat(count.parse().ok()?), behind))
}

/// Three nodes with sequences of each kind, from which values were allocated.
fn with_sequences() -> Cluster {
    let cluster = Cluster::started(3);
    for (name, definition) in [
        ("live", json!({"segment": {"min": 100, "max": 100}})),
        ("strict", json!({"mode": "strict"})),
        ("small", json!({"mode": "strict", "max": 3})),
        ("shut", json!({"max": 5})),
        (
            "cycling",
            json!({"mode": "strict", "max": 10, "cycle": true}),
        ),
        ("down", json!({"mode": "strict", "increment": -1})),
    ] {
        cluster.create_sequence(0, name, &definition);
    }
    for (name, count) in [("live", 10), ("strict", 10), ("small", 3)] {
        cluster.next(0, name, count);
    }
    wait::until("the second segment", PATIENCE, || {
        let live = cluster.get(0, "/v1/sequences/live").ok().json();
        (live["allocated"] == json!("200")).then_some(())
    });
    cluster
}

/// The response to a request: status, code, and detail with hint.
struct Answer {
    status: u16,
    code: String,
    words: String,
}

fn send(address: &str, line: &str, head: &[&str], body: Option<&str>) -> Answer {
    let named = |name: &str| head.iter().any(|field| field.starts_with(name));
    let mut request = [&expanded(line)[..], b" HTTP/1.1\r\n"].concat();
    if !named("host:") {
        request.extend(format!("host: {address}\r\n").into_bytes());
    }
    for field in head.iter().filter(|field| **field != "content-type: -") {
        request.extend(expanded(field));
        request.extend(b"\r\n");
    }
    let body = body.map(expanded);
    if let Some(body) = &body {
        if !named("content-type:") {
            request.extend(b"content-type: application/json\r\n");
        }
        request.extend(format!("content-length: {}\r\n", body.len()).into_bytes());
    }
    request.extend(b"connection: close\r\n\r\n");
    request.extend(body.unwrap_or_default());
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // A node that refuses a head or a length stops reading.
    let _ = stream.write_all(&request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    let text = |field: &str| problem[field].as_str().unwrap_or_default().to_owned();
    Answer {
        status: status.unwrap_or_default(),
        code: if problem["code"].is_string() {
            text("code")
        } else {
            "-".to_owned()
        },
        words: format!("{}\n{}", text("detail"), text("hint")),
    }
}

#[test]
fn a_bad_request_is_refused_with_its_code_and_words_and_has_no_effect() {
    let inputs = include_str!("bad-inputs/http.txt");
    let cluster = with_sequences();
    let before = all_that_counts(&cluster);
    let mut wrong = Vec::new();
    let mut count = 0;
    for (at, input) in lines(inputs) {
        count += 1;
        let fields: Vec<&str> = input.split(SEPARATOR).collect();
        let [expected, line, between @ .., words] = fields.as_slice() else {
            panic!("line {at} reads otherwise: {input}");
        };
        let body = between
            .iter()
            .find_map(|field| field.strip_prefix("body: "));
        let head: Vec<&str> = between
            .iter()
            .filter(|field| !field.starts_with("body: "))
            .copied()
            .collect();
        let began = Instant::now();
        let answer = send(&cluster.address(at % 3), line, &head, body);
        let found = format!("{} {}", answer.status, answer.code);
        let (method, target) = line.split_once(' ').unwrap_or((line, ""));
        if answer.code != "-"
            && let Err(why) = documented::check(method, target, &answer.code)
        {
            wrong.push(format!("{at}: {line}: {why}"));
        }
        let missing = missing(words, &answer.words);
        if found != *expected || !missing.is_empty() || began.elapsed() >= PATIENCE {
            let words = &answer.words;
            wrong.push(format!("{at}: {line}: lacks {missing:?}: {found}: {words}"));
        }
        assert!(
            !expected.starts_with('5') && !expected.starts_with('2'),
            "{at}"
        );
    }
    println!("{count} requests");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 400);
    assert_eq!(all_that_counts(&cluster), before);
    // The node serves as before.
    assert_eq!(cluster.next(1, "strict", 1), (11, 11));
    let none = request("DELETE", &cluster.url(2, "/v1/sequences/new")).reply();
    none.refused(404, "not-found");
}

/// Runs a command that must end in time. Returns its exit code and its stderr.
fn run(command: &mut Command, what: &str) -> (Option<i32>, String) {
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("seqd runs");
    let mut stderr = child.stderr.take().expect("a pipe");
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    });
    let ended = wait::within(PATIENCE, || child.try_wait().expect("an own child"));
    if ended.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let text = reading.join().expect("a reader");
    assert!(ended.is_some(), "{what} still runs: {text}");
    (ended.and_then(|status| status.code()), text)
}

#[test]
fn a_bad_command_line_is_refused_with_its_exit_code_and_words_and_has_no_effect() {
    let inputs = include_str!("bad-inputs/cli.txt");
    let cluster = with_sequences();
    let before = all_that_counts(&cluster);
    let mut wrong = Vec::new();
    let mut count = 0;
    for (at, input) in lines(inputs) {
        count += 1;
        let fields: Vec<&str> = input.split(SEPARATOR).collect();
        let [expected, line, words] = fields.as_slice() else {
            panic!("line {at} reads otherwise: {input}");
        };
        let mut arguments = words_of(line);
        let mut command = binary::command(&[]);
        command.env("SEQD_ENDPOINTS", cluster.urls().join(","));
        command.current_dir(cluster.folder());
        while let Some((name, value)) = arguments
            .first()
            .and_then(|word| word.split_once('='))
            .filter(|(name, _)| name.starts_with("SEQD_"))
        {
            command.env(name, value);
            arguments.remove(0);
        }
        let (exit, stderr) = run(command.args(&arguments), line);
        let missing = missing(words, &stderr);
        let exit = exit.map_or_else(String::new, |exit| exit.to_string());
        if exit != *expected || !missing.is_empty() {
            wrong.push(format!(
                "{at}: {line}: lacks {missing:?}: exit {exit}: {stderr}"
            ));
        }
        assert_ne!(*expected, "0", "{at}");
    }
    println!("{count} command lines");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 100);
    assert_eq!(all_that_counts(&cluster), before);
}

/// A configuration file that is valid except for `bad`.
fn config_with(bad: &str, folder: &Path) -> Vec<u8> {
    if let Some(whole) = bad.strip_prefix("raw ") {
        return expanded(&whole.replace("\\n", "\n"));
    }
    let bad = bad.replace("\\n", "\n");
    let mut file = Vec::new();
    for (key, value) in [
        ("node.name", "n1"),
        ("node.data_dir", &folder.join("data").display().to_string()),
        ("http.listen", "127.0.0.1:7400"),
        ("peer.listen", "127.0.0.1:7401"),
    ] {
        let is_given = |line: &str| line.starts_with(&format!("{key} "));
        if !bad.lines().any(is_given) {
            file.extend(format!("{key} = {value:?}\n").into_bytes());
        }
    }
    file.extend(expanded(&bad));
    file.push(b'\n');
    file
}

#[test]
fn a_bad_configuration_is_refused_with_words_by_the_check_and_by_the_server() {
    let inputs = include_str!("bad-inputs/config.txt");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bad.toml");
    let mut wrong = Vec::new();
    let mut count = 0;
    for (at, input) in lines(inputs) {
        count += 1;
        let (bad, words) = input
            .rsplit_once(SEPARATOR)
            .unwrap_or_else(|| panic!("line {at} reads otherwise: {input}"));
        std::fs::write(&file, config_with(bad, folder.path())).expect("a file");
        for command in [&["config", "check"][..], &["server"]] {
            let mut seqd = binary::command(command);
            let (exit, stderr) = run(seqd.arg("--config").arg(&file), input);
            // The name of the file is between a key's value and the permitted values.
            let missing = missing(words, &stderr);
            if exit != Some(2) || !missing.is_empty() {
                wrong.push(format!(
                    "{at}: {command:?}: {bad}: lacks {missing:?}: {exit:?}: {stderr}"
                ));
            }
        }
    }
    println!("{count} configurations");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 50);
    assert!(!folder.path().join("data").exists(), "a folder was made");
}
