//! `seqd demo`: three nodes on loopback that die with it, however it dies.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use seqd_tests::{binary, faults, http, permits, wait};
use tempfile::TempDir;

/// From the command to three serving nodes, on a loaded machine with a debug build.
const READY: Duration = Duration::from_secs(40);

struct Demo {
    child: Child,
    out: std::path::PathBuf,
    folder: TempDir,
    _permit: permits::Permit,
}

impl Demo {
    fn start() -> Self {
        let permit = permits::acquire();
        let folder = tempfile::Builder::new()
            .prefix("seqd-demo-test.")
            .tempdir()
            .unwrap();
        let out = folder.path().join("stdout");
        let child = Command::new(binary::seqd())
            .arg("demo")
            .current_dir(folder.path())
            .env("TMPDIR", folder.path())
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&out).unwrap())
            .stderr(std::fs::File::create(folder.path().join("stderr")).unwrap())
            .spawn()
            .unwrap();
        Self {
            child,
            out,
            folder,
            _permit: permit,
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap_or_default()
    }

    /// The three addresses, which appear once all three serve.
    fn urls(&mut self) -> Vec<String> {
        wait::until("three addresses", READY, || {
            assert!(
                self.child.try_wait().unwrap().is_none(),
                "ended: {}",
                self.errors()
            );
            let said = self.said();
            let urls: Vec<String> = said
                .split_whitespace()
                .filter(|word| word.starts_with("http://"))
                .map(str::to_owned)
                .collect();
            (urls.len() == 3 && said.contains("DEV MODE")).then_some(urls)
        })
    }

    fn errors(&self) -> String {
        let mut text = String::new();
        let file = std::fs::File::open(self.folder.path().join("stderr"));
        let _ = file.and_then(|mut file| file.read_to_string(&mut text));
        format!("{}\n{text}", self.said())
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let children = faults::children_of(self.pid());
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Were they not to die with it, they would be killed here by their own ids.
        for child in children {
            if faults::runs(child) {
                let _ = kill_process(child, Signal::KILL);
            }
        }
    }
}

#[test]
fn the_demo_prints_three_addresses_that_serve_and_ctrl_c_ends_all() {
    let mut demo = Demo::start();
    let urls = demo.urls();
    let said = demo.said();
    assert_eq!(said.matches("http://").count(), 3, "{said}");
    assert!(
        !said.contains('\u{1b}'),
        "control codes without a terminal: {said:?}"
    );
    assert!(
        said.contains("leader") && said.contains("follower"),
        "{said}"
    );
    let mut ids: Vec<u64> = urls
        .iter()
        .map(|url| {
            http::get(&format!("{url}/v1/id"))
                .reply()
                .ok()
                .body
                .trim()
                .parse()
                .unwrap()
        })
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3);

    let children = faults::children_of(demo.pid());
    assert_eq!(children.len(), 3, "three real server processes");
    // A terminal sends SIGINT to the whole group; the demo alone is enough.
    kill_process(demo.pid(), Signal::INT).unwrap();
    let status = wait::until("a clean end", Duration::from_secs(15), || {
        demo.child.try_wait().unwrap()
    });
    assert_eq!(status.code(), Some(0), "{}", demo.errors());
    assert!(
        children.iter().all(|&child| !faults::runs(child)),
        "a node outlived the demo"
    );
    let left: Vec<_> = std::fs::read_dir(demo.folder.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| name != "stdout" && name != "stderr")
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn the_nodes_die_with_a_demo_that_is_killed() {
    let mut demo = Demo::start();
    demo.urls();
    let children = faults::children_of(demo.pid());
    assert_eq!(children.len(), 3);
    demo.child.kill().unwrap();
    demo.child.wait().unwrap();
    wait::until("the end of the nodes", Duration::from_secs(15), || {
        children
            .iter()
            .all(|&child| !faults::runs(child))
            .then_some(())
    });
}

#[test]
fn a_killed_node_is_reported_and_the_others_serve() {
    let mut demo = Demo::start();
    let urls = demo.urls();
    let before = demo.errors();
    let child = faults::children_of(demo.pid())[0];
    kill_process(child, Signal::KILL).unwrap();
    wait::until(
        "a word about the killed node",
        Duration::from_secs(10),
        || (demo.errors().len() > before.len()).then_some(()),
    );
    let serving = urls
        .iter()
        .filter(|url| {
            http::get(&format!("{url}/v1/id"))
                .send()
                .is_ok_and(|r| r.status == 200)
        })
        .count();
    assert!(serving >= 2, "{serving} of three serve: {}", demo.errors());
    assert!(demo.child.try_wait().unwrap().is_none(), "the demo goes on");
}
