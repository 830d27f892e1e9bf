//! Workers for external generators, at the command line.

use seqd_tests::binary;
use seqd_tests::cluster::{Cluster, integer};
use serde_json::{Value, json};

#[test]
fn the_command_line_leases_and_verifies_a_column() {
    let cluster = Cluster::started(3);
    let endpoint = cluster.url(0, "");
    let seqd = |line: &str| {
        let words = ["-e", &endpoint, "-o", "json"];
        let words: Vec<&str> = words.into_iter().chain(line.split(' ')).collect();
        let output = binary::run(&words);
        let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), json)
    };
    let (code, lease) = seqd("worker lease --owner job-1 --layout js53");
    assert_eq!(code, Some(0), "{lease}");
    let held = |word: &str| {
        let code = lease["lease"].as_str().unwrap();
        format!(
            "worker {word} {} --owner job-1 --lease {code} --layout js53",
            lease["id"]
        )
    };
    assert_eq!(seqd(&held("renew")).0, Some(0));
    let from = integer(&lease["from_tick"]);
    assert_eq!(
        seqd(&format!("{} --last-tick {from}", held("release"))).0,
        Some(0)
    );
    assert_eq!(seqd(&held("renew")).0, Some(6));

    let minted = cluster.get(1, "/v1/ids?count=2000").ok().json();
    let ids: Vec<&str> = minted["ids"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let path = cluster.folder().join("column.txt");
    let shown = path.to_str().unwrap();
    std::fs::write(&path, ids.join("\n")).unwrap();
    let (code, found) = seqd(&format!("verify-ids {shown}"));
    assert_eq!(
        (code, &found["lines"], &found["ok"]),
        (Some(0), &json!(2000), &json!(true))
    );
    assert_eq!(found["holders"], json!([{"holder": "n2", "ids": 2000}]));
    // A repeated ID, an ID without a lease, a line that is not a number, and an ID with a future
    // time.
    let planted = format!(
        "{}\n{}\n{}\nx\n9223372036854775807\n",
        ids.join("\n"),
        ids[7],
        5 << 12
    );
    std::fs::write(&path, planted).unwrap();
    let (code, found) = seqd(&format!("verify-ids {shown}"));
    assert_eq!((code, &found["ok"]), (Some(1), &json!(false)));
    let findings = found["findings"].as_array().unwrap().iter();
    let findings: Vec<(&str, u64)> = findings
        .map(|found| {
            (
                found["finding"].as_str().unwrap(),
                found["count"].as_u64().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("malformed", 1),
        ("held", 2001),
        ("ahead", 1),
        ("never-leased", 1),
        ("duplicate", 1),
    ];
    assert_eq!(findings, expected);
}
