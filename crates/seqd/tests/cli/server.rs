//! Runs one real server and checks its log lines and its reaction to signals.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::stub::without_variables;

/// Enough for the start of a node on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// A single node with its own configuration file. It is killed when the test ends, whatever its
/// outcome.
struct Server {
    process: Child,
    folder: tempfile::TempDir,
}

impl Server {
    fn start(format: &str, level: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_config(folder.path(), level);
        let stderr = fs::File::create(folder.path().join("stderr")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_seqd"));
        without_variables(&mut command)
            .args(["server", "--http-listen", "127.0.0.1:0"])
            .args(["--peer-listen", "127.0.0.1:0", "--log-format", format])
            .arg("--config")
            .arg(folder.path().join("seqd.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr);
        let process = command.spawn().unwrap();
        Self { process, folder }
    }

    fn stderr(&self) -> String {
        fs::read_to_string(self.folder.path().join("stderr")).unwrap()
    }

    fn until(&self, what: &str) {
        self.until_in(what, |stderr| stderr);
    }

    /// Waits until the last line contains this text.
    fn until_last(&self, what: &str) {
        self.until_in(what, |stderr| stderr.lines().last().unwrap_or_default());
    }

    /// Waits until this part of stderr contains the text.
    fn until_in(&self, what: &str, part: fn(&str) -> &str) {
        let deadline = Instant::now() + PATIENCE;
        while !part(&self.stderr()).contains(what) {
            let stderr = self.stderr();
            assert!(Instant::now() < deadline, "no {what:?} in {stderr}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success());
    }

    fn ends(&mut self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code().unwrap();
            }
            assert!(Instant::now() < deadline, "it does not end");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It fails only if the process has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn write_config(folder: &Path, level: &str) {
    let data: PathBuf = folder.join("data");
    let text = format!("[node]\nname = \"n1\"\ndata_dir = {data:?}\n[log]\nlevel = {level:?}\n");
    fs::write(folder.join("seqd.toml"), text).unwrap();
}

/// Returns whether the text is a number or the `Debug` form of a Rust value.
fn is_raw(text: &str) -> bool {
    text.parse::<f64>().is_ok()
        || ["Some(", "None", "Ok(", "Err("]
            .iter()
            .any(|of| text.contains(of))
}

#[test]
fn a_log_for_programs_is_json_with_the_facts_that_operators_need() {
    let mut server = Server::start("json", "info");
    server.until("worker leased");
    server.signal("TERM");
    assert_eq!(server.ends(), 0);
    let text = server.stderr();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        for (key, value) in line.as_object().unwrap() {
            let raw = value.as_str().is_some_and(is_raw);
            assert!(!raw, "{key} in {line}");
        }
    }
    let expected = [
        r#""message":"seqd starts","version":"#,
        r#""message":"addresses","clients":"127.0.0.1:0""#,
        "configuration that differs from the defaults: node.name = ",
        "this node founds the cluster",
        "the cluster is founded",
        "this node runs",
        r#""message":"a member that votes","member":"n1""#,
        r#""message":"worker leased","layout":"default","worker":0"#,
        "SIGTERM: stopping",
    ];
    for expected in expected {
        assert!(text.contains(expected), "no {expected} in {text}");
    }
}

#[test]
fn a_hangup_reloads_the_level_and_ends_nothing() {
    let mut server = Server::start("text", "info");
    server.until("worker leased");
    server.signal("HUP");
    server.until("SIGHUP: nothing was reloaded: the log level is unchanged");
    write_config(server.folder.path(), "loud");
    server.signal("HUP");
    server.until("SIGHUP: nothing was reloaded: log.level = loud");
    for level in ["warn", "info", "warn"] {
        write_config(server.folder.path(), level);
        server.signal("HUP");
        server.until_last(&format!(
            "SIGHUP: the log level was reloaded level={level:?}"
        ));
    }
    server.signal("TERM");
    assert_eq!(server.ends(), 0);
    assert!(!server.stderr().contains("SIGTERM"), "{}", server.stderr());
}

#[test]
fn a_failure_to_start_is_json_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_seqd"));
    let output = without_variables(&mut command)
        .args([
            "server",
            "--http-listen",
            "192.0.2.1:7400",
            "--insecure",
            "--log-format",
            "json",
            "--name",
            "n2",
        ])
        .arg("--data-dir")
        .arg(folder.path().join("n2"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    for line in String::from_utf8(output.stderr).unwrap().lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{line}"));
    }
}
