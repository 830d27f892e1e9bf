//! Runs the demo: three processes, reports, and no process or file left however it ends.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails where it is wrong")]

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// One demo runs at a time: a demo with a kept folder needs its stored ports, which another demo
/// might have taken.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Enough for three nodes on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// A demo whose stdout goes to a file. It is killed when the test ends, whatever its outcome.
struct Demo {
    process: Child,
    out: PathBuf,
    folder: tempfile::TempDir,
}

impl Demo {
    fn start(args: &[&str]) -> Self {
        Self::start_through(Command::new(env!("CARGO_BIN_EXE_seqd")), args)
    }

    /// Starts the demo through a command that executes the program, such as `nohup`.
    fn start_through(mut command: Command, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("stdout");
        let process = command
            .arg("demo")
            .args(args)
            // The temporary folder of a killed demo is removed together with the test's folder.
            .env("TMPDIR", folder.path())
            .stdin(Stdio::null())
            .stdout(File::create(&out).unwrap())
            .spawn()
            .unwrap();
        let demo = Self {
            process,
            out,
            folder,
        };
        demo.until("Ctrl-C ends it.");
        demo
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.out).unwrap()
    }

    fn until(&self, what: &str) {
        wait_for(what, || self.text().contains(what));
    }

    fn addresses(&self) -> Vec<String> {
        let text = self.text();
        text.split_whitespace()
            .filter_map(|word| word.strip_prefix("http://"))
            .map(str::to_owned)
            .collect()
    }

    /// The process ID of the node of that name.
    fn node(&self, name: &str) -> Pid {
        let file = format!("/{name}.toml");
        children(self.process.id())
            .into_iter()
            .find(|pid| {
                let path = format!("/proc/{}/cmdline", pid.as_raw_nonzero());
                fs::read_to_string(path).is_ok_and(|line| line.contains(&file))
            })
            .unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(pid(self.process.id()), signal).unwrap();
    }

    fn exit_code(&mut self) -> Option<i32> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code();
            }
            assert!(started.elapsed() < PATIENCE, "the demo does not end");
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It fails only if the demo has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < PATIENCE, "no {what:?}");
        sleep(Duration::from_millis(20));
    }
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
}

/// The processes with this parent.
fn children(parent: u32) -> Vec<Pid> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let Ok(stat) = fs::read_to_string(path.join("stat")) else {
            continue;
        };
        // The name of the process is in brackets and may contain any characters.
        let Some((_, after)) = stat.rsplit_once(')') else {
            continue;
        };
        let own = path
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok());
        if after.split_whitespace().nth(1) == Some(&parent.to_string())
            && let Some(own) = own
        {
            found.push(pid(own));
        }
    }
    found
}

fn seqd(endpoint: &str, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seqd"))
        .arg("-e")
        .arg(endpoint)
        .args(args)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn left_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "stdout")
        .collect()
}

/// The lines after those of the nodes, and an ID from each memcached port.
fn serves_other_protocols(demo: &Demo) {
    let text = demo.text();
    let lines: Vec<&str> = text.lines().skip(4).take(3).collect();
    let ports = |line: &str| -> Vec<String> {
        let words = line
            .split(' ')
            .filter(|word| word.starts_with("127.0.0.1:"));
        words.map(str::to_owned).collect()
    };
    let redis = ports(lines[0]);
    let first = redis[0].rsplit(':').next().unwrap();
    let expected = format!(
        "  redis      {}     redis-cli -p {first} INCR order",
        redis.join(" ")
    );
    assert_eq!(lines[0], expected);
    let memcached = ports(lines[1]);
    let expected = format!("  memcached  {}", memcached.join(" "));
    assert_eq!(lines[1], expected);
    let pages = "  pages      /ui/ and /docs on each node; URLs of Leaf, TinyID, CosId and \
                 katsubushi too";
    assert_eq!(lines[2], pages);
    assert_eq!(memcached.len(), 3);
    for address in memcached {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(b"get id\r\nquit\r\n").unwrap();
        let mut read = String::new();
        stream.read_to_string(&mut read).unwrap();
        assert!(read.starts_with("VALUE id 0 "), "{address}: {read}");
    }
}

#[test]
fn three_nodes_serve_a_killed_one_is_reported_and_nothing_stays() {
    let _turn = turn();
    let mut demo = Demo::start(&[]);
    let text = demo.text();
    assert_eq!(text.lines().count(), 8, "{text}");
    assert!(text.starts_with("  cluster "), "{text}");
    assert!(text.contains("  3 nodes ready in "), "{text}");
    assert!(!text.contains('\x1b') && !text.contains("keys:"), "{text}");
    assert_eq!(
        text.matches(" leader    http://127.0.0.1:").count(),
        1,
        "{text}"
    );
    assert_eq!(
        text.matches(" follower  http://127.0.0.1:").count(),
        2,
        "{text}"
    );
    serves_other_protocols(&demo);
    let mut ids: Vec<u64> = demo
        .addresses()
        .iter()
        .map(|address| stdout(&seqd(address, &["id"])).trim().parse().unwrap())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3);

    kill_process(demo.node("n2"), Signal::KILL).unwrap();
    demo.until("n2 was killed (signal 9)");
    let nodes = children(demo.process.id());
    assert_eq!(nodes.len(), 2);
    let addresses = demo.addresses();
    let serves = |address: &&String| seqd(address, &["id"]).status.success();
    assert_eq!(addresses.iter().filter(serves).count(), 2);
    assert!(demo.process.try_wait().unwrap().is_none());
    assert_eq!(left_in(demo.folder.path()).len(), 1);

    // A terminal sends SIGINT to the whole process group; the demo handles it alone as well.
    demo.signal(Signal::INT);
    assert_eq!(demo.exit_code(), Some(0));
    assert!(nodes.iter().all(|pid| test_kill_process(*pid).is_err()));
    assert!(left_in(demo.folder.path()).is_empty());
    assert_eq!(demo.text().matches("http://").count(), 3);
}

#[test]
fn the_nodes_end_with_a_demo_that_is_killed() {
    let _turn = turn();
    let mut demo = Demo::start(&[]);
    let nodes = children(demo.process.id());
    assert_eq!(nodes.len(), 3);
    demo.signal(Signal::KILL);
    assert_eq!(demo.exit_code(), None);
    // A killed node may remain for a moment as a zombie of the process that adopted it, and then
    // has no command line.
    let gone = |pid: &Pid| {
        let path = format!("/proc/{}/cmdline", pid.as_raw_nonzero());
        fs::read(path).is_ok_and(|line| line.is_empty()) || test_kill_process(*pid).is_err()
    };
    wait_for("end of the nodes", || nodes.iter().all(gone));
}

#[test]
fn a_kept_folder_continues_where_it_was() {
    let _turn = turn();
    let kept = tempfile::tempdir().unwrap();
    let folder = kept.path().to_str().unwrap();
    let next = |demo: &Demo| {
        stdout(&seqd(
            &demo.addresses().join(","),
            &["seq", "next", "order"],
        ))
    };

    let mut demo = Demo::start(&["--data-dir", folder]);
    let first = demo.addresses();
    stdout(&seqd(
        &first[0],
        &["seq", "create", "order", "--mode", "strict"],
    ));
    assert_eq!(next(&demo), "1\n");
    demo.signal(Signal::INT);
    assert_eq!(demo.exit_code(), Some(0));

    let mut demo = Demo::start(&["--data-dir", folder]);
    assert_eq!(demo.addresses(), first);
    assert_eq!(next(&demo), "2\n");
    assert!(demo.text().contains("(kept)"));
    demo.signal(Signal::TERM);
    assert_eq!(demo.exit_code(), Some(0));
    assert!(kept.path().join("n1").is_dir());
}

#[test]
fn a_secure_demo_serves_clients_with_its_ca_and_its_token() {
    let _turn = turn();
    let mut demo = Demo::start(&["--secure"]);
    demo.until("curl ");
    let text = demo.text();
    assert!(
        !text.contains("http://") && !text.contains("DEV MODE"),
        "{text}"
    );
    let value = |name: &str| {
        let mut words = text.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)).unwrap()
    };
    let (urls, ca) = (value("SEQD_ENDPOINTS="), value("SEQD_CACERT="));
    let (token, more) = (value("SEQD_TOKEN_FILE="), ["--cacert", ca]);
    assert_eq!(urls.split(',').count(), 3);
    for url in urls.split(',') {
        let id = [&more[..], &["--token-file", token, "id"]].concat();
        stdout(&seqd(url, &id));
        let stranger = seqd(url, &[&more[..], &["id"]].concat());
        assert_eq!(stranger.status.code(), Some(4), "{stranger:?}");
        let trusting = seqd(url, &["--token-file", token, "id"]);
        assert_eq!(trusting.status.code(), Some(5), "{trusting:?}");
    }
    demo.signal(Signal::INT);
    assert_eq!(demo.exit_code(), Some(0));
    assert!(left_in(demo.folder.path()).is_empty());
}

#[test]
fn a_demo_under_nohup_outlives_its_terminal() {
    let _turn = turn();
    let mut nohup = Command::new("nohup");
    nohup.arg(env!("CARGO_BIN_EXE_seqd"));
    let mut demo = Demo::start_through(nohup, &[]);
    demo.signal(Signal::HUP);
    // If SIGHUP had an effect, the demo would stop its nodes before it serves this request.
    let address = &demo.addresses()[0];
    stdout(&seqd(address, &["id"]));
    kill_process(demo.node("n2"), Signal::KILL).unwrap();
    demo.until("n2 was killed (signal 9)");
    demo.signal(Signal::TERM);
    assert_eq!(demo.exit_code(), Some(0));
}
