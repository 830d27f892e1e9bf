//! Runs `seqd config` as an operator would.

use std::path::Path;

use serde_json::{Value, json};

use crate::stub::{seqd, texts};

const PEERS: &str = "n1.example,n2.example,n3.example";

fn init(options: &[&str]) -> String {
    let line = ["config", "init", "--peers", PEERS];
    let (code, stdout, stderr) = texts(&seqd("x", &[&line[..], options].concat(), ""));
    assert_eq!((code, stderr.as_str()), (0, ""), "{options:?}");
    stdout
}

/// Checks this file, with a data folder in `folder` that can be created.
fn check(folder: &Path, text: &str, options: &[&str]) -> (i32, String, String) {
    let file = folder.join("seqd.toml");
    let data = folder.join("data").display().to_string();
    std::fs::write(&file, text.replace("/var/lib/seqd", &data)).unwrap();
    let line = ["config", "check", "--config", file.to_str().unwrap()];
    texts(&seqd("x", &[&line[..], options].concat(), ""))
}

#[test]
fn config_init_prints_a_file_that_check_accepts() {
    let folder = tempfile::tempdir().unwrap();
    let check = |text: &str, options: &[&str]| check(folder.path(), text, options);
    let plain = init(&["--name", "n1", "--insecure"]);
    let (code, stdout, stderr) = check(&plain, &[]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let (warning, rest) = stdout.split_once('\n').unwrap();
    assert!(
        warning.starts_with("warning: insecure: http.listen"),
        "{stdout}"
    );
    // Only what is wrong or unwise; the limits of the process on request.
    assert_eq!(rest, "ok\n");
    let (_, stdout, _) = check(&plain, &["-v"]);
    assert!(stdout.contains(" connections of clients and "), "{stdout}");
    let joins = init(&["--name", "n4", "--insecure", "--join"]);
    assert_eq!(check(&joins, &[]).1, format!("{warning}\nok\n"));
    // The certificates and the token do not exist yet: the message has the command.
    let (code, _, stderr) = check(&init(&["--name", "n1"]), &[]);
    assert_eq!(code, 2);
    assert!(stderr.contains("cannot read /etc/seqd/tls/n1"), "{stderr}");
    assert!(
        stderr.contains("`seqd tls init` makes the files"),
        "{stderr}"
    );
    let (code, _, stderr) = check(&init(&["--name", "n1", "--insecure", "--auth"]), &[]);
    assert_eq!(code, 2);
    let command = "(umask 077; openssl rand -hex 32 > /etc/seqd/token)";
    assert!(stderr.contains(command), "{stderr}");
    assert!(!folder.path().join("data").exists(), "a folder was made");
}

#[test]
fn values_are_json_of_their_own_types() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("seqd.toml");
    std::fs::write(&file, init(&["--name", "n1", "--insecure"])).unwrap();
    let line = ["config", "show", "--config", file.to_str().unwrap(), "-o"];
    let show = |format: &str| texts(&seqd("x", &[&line[..], &[format]].concat(), "")).1;
    let items: Value = serde_json::from_str(&show("json")).unwrap();
    let value = |key: &str| {
        let mut items = items.as_array().unwrap().iter();
        items.find(|item| item["key"] == key).unwrap()["value"].clone()
    };
    assert_eq!(value("node.name"), json!("n1"));
    assert_eq!(value("node.insecure"), json!(true));
    assert_eq!(value("http.max_count"), json!(10000));
    assert_eq!(value("raft.election"), json!(["400ms", "800ms"]));
    assert_eq!(value("http.hosts"), json!([]));
    assert_eq!(value("tls.cert"), Value::Null);
    assert!(show("csv").contains("node.name,n1\n"));
    assert!(show("plain").contains("\nraft.election\t400ms,800ms\n"));
}
