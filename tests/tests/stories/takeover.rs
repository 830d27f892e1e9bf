//! A cluster ends and another one takes its place: from a snapshot, or from the data that one node
//! still has. Nothing that the old cluster issued, before the backup or after it, is issued again.

use std::process::Output;

use seqd_tests::binary::run;
use seqd_tests::cluster::READY;
use seqd_tests::takeover::Takeover;
use seqd_tests::{http, wait};
use serde_json::{Value, json};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command line with more words at its end.
fn run_with(line: &[String], more: &[&str]) -> Output {
    let line = line.iter().map(String::as_str);
    run(&line.chain(more.iter().copied()).collect::<Vec<_>>())
}

#[test]
fn no_value_is_issued_again_after_a_restore() {
    let mut takeover = Takeover::begin(300);
    let file = takeover.backup();
    takeover.work(3_000);
    takeover.kill_all();

    // The machine of n1 gets the new folder. The others have their old ones.
    let folder = takeover.cluster.folder().join("restored");
    let first = 0;
    let mut line = takeover.restore_line(&file, &folder.display().to_string());
    let silent = run_with(&line, &["--yes"]);
    assert_eq!(silent.status.code(), Some(2), "{silent:?}");
    let stderr = text(&silent.stderr);
    assert!(
        stderr.contains("order: segment") && stderr.contains("--margin"),
        "{stderr}"
    );

    line.extend(takeover.floor("order"));
    line.extend(["--margin", "5000"].map(str::to_owned));
    let unasked = run_with(&line, &[]);
    assert_eq!(unasked.status.code(), Some(2), "{unasked:?}");
    let stderr = text(&unasked.stderr).to_lowercase();
    for promise in [
        "not a guarantee",
        "superseded",
        "ago",
        "floor",
        "margin 5000",
        "holds that are dropped: 0",
    ] {
        assert!(stderr.contains(promise), "{promise} is missing: {stderr}");
    }
    assert!(!folder.join("identity").exists());
    let done = run_with(&line, &["--yes", "-o", "json"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(
        report["sequences"][1]["next_after"],
        takeover.first_ungranted("order").to_string()
    );
    assert_eq!(report["freed_holds"], 0);
    let again = run_with(&line, &["--yes"]);
    assert_eq!(again.status.code(), Some(6), "{again:?}");

    let cluster = &mut takeover.cluster;
    cluster.node_mut(first).set_data(&folder);
    cluster.node_mut(first).start();
    let sequence = cluster.url(first, "/v1/sequences/invoice");
    let bare = wait::until("the new node to answer", READY, || {
        let ask = http::request("PUT", &sequence).json(&json!({"mode": "strict"}));
        let reply = ask.send().ok()?;
        (!reply.retryable()).then_some(reply)
    });
    bare.refused(400, "invalid-argument");
    for old in [1, 2] {
        for _ in 0..2 {
            cluster.node_mut(old).start();
            let status = cluster.node_mut(old).exit_within(READY);
            let node = cluster.node(old);
            assert_eq!(status.code(), Some(9), "{}", node.tail());
            assert!(
                node.last_line().contains("code=superseded"),
                "{}",
                node.tail()
            );
        }
    }
    takeover.go_on(first, &[1, 2], 2_000).unwrap();
    let stated = json!({"mode": "strict", "start": 70});
    http::request("PUT", &sequence).json(&stated).reply().ok();
    assert_eq!(takeover.cluster.next(first, "invoice", 1), (70, 70));
}

#[test]
fn no_value_is_issued_again_after_a_lost_majority_is_recovered() {
    let mut takeover = Takeover::begin(300);
    takeover.work(3_000);
    takeover.kill_all();
    for lost in [0, 1] {
        std::fs::remove_dir_all(takeover.cluster.node(lost).data()).unwrap();
    }

    let folder = takeover.cluster.node(2).data();
    let path = folder.display().to_string();
    let mut line = ["data", "recover-quorum", "--data-dir", &path]
        .map(str::to_owned)
        .to_vec();
    line.extend(takeover.floor("order"));
    line.extend(takeover.floor("bill"));
    for how in ["--dry-run", "--yes"] {
        let done = run_with(&line, &[how]);
        assert!(done.status.success(), "{how}: {}", text(&done.stderr));
    }
    let kept = std::fs::read_dir(&folder).unwrap().flatten();
    let kept: Vec<_> = kept
        .map(|entry| entry.path())
        .filter(|path| path.display().to_string().contains("before-"))
        .collect();
    assert!(kept.len() == 1 && kept[0].join("wal").is_dir(), "{kept:?}");

    takeover.cluster.node_mut(2).start();
    takeover.go_on(2, &[0, 1], 2_000).unwrap();
    let bill = takeover.values("bill");
    let first = *bill.first().unwrap();
    let whole = first..=*bill.last().unwrap();
    assert!(
        whole.eq(bill.iter().copied()),
        "a strict sequence has no gap at its floor"
    );
}
