//! Backups and a stopped node's folder: saved under load, verified, damaged, interrupted.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;

use rustix::process::{Pid, Signal, kill_process};
use seqd_tests::binary::{command, run};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::damage::{files, flip_bit};
use seqd_tests::http;
use seqd_tests::wait;
use seqd_tests::workload::{Route, Workload};
use serde_json::{Value, json};

/// The JSON output of a command that must succeed.
#[track_caller]
fn json_of(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["-o", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The stderr of a command that must fail.
#[track_caller]
fn fails(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        output.status.code(),
        Some(code),
        "{arguments:?}: {output:?}"
    );
    stderr
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of UTF-8")
}

#[test]
fn a_backup_under_load_contains_all_acknowledged_writes_and_is_checked() {
    let cluster = Cluster::started(3).with_order();
    let load = Workload::order(&cluster, 4, Route::Fixed, 2);
    load.wait_for(100, READY);
    let follower = cluster.follower();
    let node = cluster.address(follower);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup.snap");
    let other = (0..3).find(|at| *at != follower).unwrap();
    cluster.next(other, "order", 1);
    let acknowledged = cluster.get(other, "/v1/cluster").ok().json()["applied"]
        .as_u64()
        .unwrap();
    let saved = json_of(&["-e", &node, "snapshot", "save", text(&file)]);
    assert!(
        saved["index"].as_u64() >= Some(acknowledged),
        "{saved} after {acknowledged}"
    );
    assert_eq!(saved["node"], cluster.node(follower).name());
    load.wait_for(100, READY);
    load.finish();

    // The same state has the same digest on every node.
    wait::until("a backup of the state that a node shows", READY, || {
        let view = cluster.get(other, "/v1/cluster").ok().json();
        let again = json_of(&["-e", &node, "snapshot", "save", text(&file), "--yes"]);
        let same = view["applied"] == again["index"];
        assert!(!same || view["digest"] == again["digest"], "{view} {again}");
        same.then_some(())
    });
    let inspected = json_of(&["snapshot", "inspect", text(&file)]);
    assert_eq!(inspected["records"]["sequences"], 1);
    assert_eq!(inspected["members"].as_array().map(Vec::len), Some(3));
    let verified = json_of(&["snapshot", "verify", text(&file)]);
    assert_eq!(verified["digest"], inspected["digest"]);
    assert_eq!(files(folder.path(), ""), [file.as_path()]);
    for index in 0..3 {
        let kept = files(&cluster.node(index).data().join("snap"), "");
        assert!(
            kept.is_empty(),
            "backups are none of a node's own: {kept:?}"
        );
    }

    // An existing file is not replaced without confirmation, and a flipped byte is detected.
    let before = std::fs::read(&file).unwrap();
    let asked = fails(&["-e", &node, "snapshot", "save", text(&file)], 2);
    assert!(
        asked.contains("replaces") && asked.contains("--yes"),
        "{asked}"
    );
    assert_eq!(std::fs::read(&file).unwrap(), before);
    flip_bit(&file, before.len() as u64 / 2);
    for what in ["verify", "inspect"] {
        let stderr = fails(&["snapshot", what, text(&file)], 1);
        assert!(
            stderr.contains("backup.snap") && stderr.contains("at byte"),
            "{stderr}"
        );
    }
}

/// Forwards one connection to `to`, but only the head and `bytes` bytes of the response. Then it
/// closes the connection or, with `silent`, waits until the sender is dropped.
fn cut_proxy(to: String, bytes: usize, silent: Option<mpsc::Receiver<()>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut request = [0; 4096];
        let (mut client, len) = loop {
            let (mut client, _) = listener.accept().unwrap();
            let len = client.read(&mut request).unwrap();
            if !request.starts_with(b"GET /livez ") {
                break (client, len);
            }
            let alive = "HTTP/1.1 200 X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            client.write_all(alive.as_bytes()).unwrap();
        };
        let mut server = TcpStream::connect(to).unwrap();
        server.write_all(&request[..len]).unwrap();
        let mut answer = Vec::new();
        let mut piece = [0; 512];
        let end = loop {
            let len = server.read(&mut piece).unwrap();
            answer.extend_from_slice(&piece[..len]);
            let head = answer.windows(4).position(|window| window == b"\r\n\r\n");
            if let Some(end) = head.map(|head| head + 4 + bytes)
                && answer.len() >= end
            {
                break end;
            }
            assert!(len > 0, "the answer is longer than the cut");
        };
        client.write_all(&answer[..end]).unwrap();
        if let Some(until) = silent {
            let _ = until.recv();
        }
    });
    address
}

#[test]
fn a_backup_to_a_pipe_that_nobody_reads_ends_by_a_signal_and_leaves_no_file() {
    let cluster = Cluster::started(1);
    let temporary = tempfile::tempdir().unwrap();
    let (_reader, mut full) = std::io::pipe().unwrap();
    // The default size of a pipe.
    full.write_all(&[0; 65536]).unwrap();
    let arguments = ["-e", &cluster.address(0), "snapshot", "save", "-"];
    let mut child = command(&arguments)
        .env("TMPDIR", temporary.path())
        .stdout(full)
        .spawn()
        .unwrap();
    // The copy blocks in a write to the pipe.
    let pid = child.id();
    wait::until("the copy began", READY, || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let calls =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("wchan")).ok());
        let mut calls = calls.filter(|call| call.contains("pipe_write"));
        calls.next().map(|_| ())
    });
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let code = wait::until("the command ends", READY, || child.try_wait().unwrap());
    assert_eq!(code.code(), Some(1));
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn a_backup_goes_to_stdout_and_its_description_to_stderr() {
    let cluster = Cluster::started(1);
    let output = command(&["-e", &cluster.address(0), "snapshot", "save", "-"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(talk.starts_with("saved - from n1: index "), "{talk}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup.snap");
    std::fs::write(&file, &output.stdout).unwrap();
    json_of(&["snapshot", "verify", text(&file)]);
    assert!(!std::path::Path::new("-").exists());
}

#[test]
fn a_download_that_breaks_off_leaves_no_file() {
    let cluster = Cluster::started(1);
    let node = cluster.address(0);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup.snap");
    let proxy = cut_proxy(node.clone(), 200, None);
    let stderr = fails(&["-e", &proxy, "snapshot", "save", text(&file)], 5);
    assert!(stderr.contains("after 200 of"), "{stderr}");
    assert!(files(folder.path(), "").is_empty());

    // The command uses the next endpoint as long as nothing has arrived.
    let both = format!("127.0.0.1:1,{node}");
    json_of(&["-e", &both, "snapshot", "save", text(&file)]);
    std::fs::remove_file(&file).unwrap();

    // A command that is ended leaves no file either.
    let (until, silent) = mpsc::channel();
    let proxy = cut_proxy(node, 200, Some(silent));
    let arguments = ["-e", &proxy, "snapshot", "save", text(&file)];
    let mut child: Child = command(&arguments).stderr(Stdio::null()).spawn().unwrap();
    wait::until("the temporary file", READY, || {
        (!files(folder.path(), "").is_empty()).then_some(())
    });
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(files(folder.path(), "").is_empty());
    drop(until);
}

#[test]
fn the_state_as_a_file_has_its_headers_and_its_refusals() {
    let cluster = Cluster::started(1);
    let url = cluster.url(0, "/v1/cluster/snapshot");
    let head = http::request("HEAD", &url).reply().ok();
    let view = cluster.get(0, "/v1/cluster").ok().json();
    let header = |name: &str| head.header(name).unwrap_or_default().to_owned();
    assert_eq!(header("content-type"), "application/octet-stream");
    assert_eq!(view["cluster_id"], header("seqd-cluster"));
    let index: u64 = header("seqd-snapshot-index").parse().unwrap();
    assert!(view["applied"].as_u64() >= Some(index), "{view}");
    assert_eq!(header("seqd-snapshot-digest").len(), 32);
    assert!(header("content-length").parse::<u64>().unwrap() > 500);
    let name = format!("filename=\"seqd-{}-{index}-", header("seqd-cluster"));
    assert!(header("content-disposition").contains(&name));
    assert_eq!(head.header("cache-control"), Some("no-store"));

    let json = http::get(&url).accept_json().reply();
    json.refused(406, "not-acceptable");
    let typo = http::get(&format!("{url}?stail=1")).reply();
    typo.refused(400, "unknown-field");
    let post = http::post(&url).reply();
    post.refused(405, "method-not-allowed");
    let other = http::get(&url).header("seqd-cluster", "another").reply();
    other.refused(421, "wrong-cluster");
}

#[test]
fn without_a_quorum_only_a_node_s_own_state_can_be_saved() {
    let mut cluster = Cluster::started(3);
    let survivor = cluster.follower();
    for index in (0..3).filter(|index| *index != survivor) {
        cluster.node_mut(index).kill();
    }
    let node = cluster.address(survivor);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup.snap");
    let stderr = fails(&["-e", &node, "snapshot", "save", text(&file)], 5);
    assert!(
        stderr.contains("no-quorum") && stderr.contains("stale"),
        "{stderr}"
    );
    let saved = json_of(&["-e", &node, "snapshot", "save", text(&file), "--stale"]);
    assert_eq!(saved["stale"], true);
    json_of(&["snapshot", "verify", text(&file)]);
}

#[test]
fn a_stopped_node_s_folder_is_reported_and_checked() {
    let cluster = Cluster::planned(3).with("raft", "snapshot_every", "100");
    let mut cluster = cluster.ready().with_order();
    let load = Workload::order(&cluster, 4, Route::Fixed, 2);
    let victim = cluster.follower();
    let data = cluster.node(victim).data();
    let snapshots = || files(&data.join("snap"), ".snap");
    wait::until("two snapshots", READY, || {
        (snapshots().len() == 2).then_some(())
    });
    let folder = ["--data-dir", text(&data)];
    let verify = [&["data", "verify"], &folder[..]].concat();
    let inspect = [&["data", "inspect"], &folder[..]].concat();
    for arguments in [&verify, &inspect] {
        let stderr = fails(arguments, 1);
        assert!(stderr.contains("folder-in-use"), "{stderr}");
    }

    cluster.node_mut(victim).kill();
    load.finish();
    let view = cluster.get((victim + 1) % 3, "/v1/cluster").ok().json();
    let inspected = json_of(&inspect);
    assert_eq!(inspected["identity"]["cluster_id"], view["cluster_id"]);
    assert_eq!(inspected["identity"]["name"], cluster.node(victim).name());
    // The kill may occur between a new snapshot and the removal of the oldest.
    let kept = snapshots().len();
    assert!((2..=3).contains(&kept), "{kept}");
    assert_eq!(inspected["snapshots"].as_array().map(Vec::len), Some(kept));
    assert!(
        inspected["log"]["last"]["index"].as_u64() > Some(100),
        "{inspected}"
    );
    assert!(
        inspected["checkpoint"]["applied"]["index"].as_u64() > Some(100),
        "{inspected}"
    );
    assert_eq!(inspected["problems"], json!([]));
    let checked = json_of(&verify);
    assert_eq!(checked["sound"], true);
    let replayed = checked["checks"].as_array().unwrap().iter();
    assert_eq!(
        replayed.filter(|check| check["what"] == "state").count(),
        kept + 1,
        "{checked}"
    );

    // A flipped byte in a snapshot is detected, with the name of the file. After the repair
    // everything is sound.
    let snapshot = snapshots().remove(0);
    let name = snapshot.file_name().unwrap().to_str().unwrap();
    let middle = std::fs::metadata(&snapshot).unwrap().len() / 2;
    flip_bit(&snapshot, middle);
    let stderr = fails(&verify, 1);
    assert!(stderr.contains(name), "{stderr}");
    flip_bit(&snapshot, middle);

    // The inspection changed nothing: the node starts from the folder, and it is sound after a
    // clean stop too.
    cluster.node_mut(victim).start();
    cluster.wait_ready();
    cluster.wait_same_state(&[0, 1, 2]);
    assert_eq!(cluster.node_mut(victim).stop().code(), Some(0));
    assert_eq!(json_of(&verify)["sound"], true);
}
