//! Compares the description of the API with running clusters: schemathesis derives requests from
//! `/openapi.json` and checks each response against it. `SCHEMATHESIS_EXAMPLES` sets the number of
//! generated requests per operation.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use seqd_tests::callers::{OPERATOR, guarded};
use seqd_tests::cluster::Cluster;
use seqd_tests::{http, skips};

/// The expected status is below 500 or permits a retry: a node may be busy, and an outcome unknown.
/// Any other status is an error of the server.
const CONFIG: &str = "[checks]
not_a_server_error.expected-statuses = [\"1xx\", \"2xx\", \"3xx\", \"4xx\", \"503\", \"504\"]
";

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,ignored_auth";

/// The phases of a complete comparison.
const EVERYTHING: &str = "examples,coverage,fuzzing";

fn schemathesis() -> Command {
    let program = std::env::var_os("SCHEMATHESIS");
    Command::new(program.unwrap_or_else(|| "schemathesis".into()))
}

fn is_missing() -> Option<String> {
    let runs = schemathesis().arg("--version").output();
    let runs = runs.is_ok_and(|output| output.status.success());
    (!runs).then(|| "schemathesis is missing (pip install schemathesis)".to_owned())
}

/// Sends the requests that these phases derive. Panics with the report if a response does not match
/// the description.
fn compare(cluster: &Cluster, folder: &Path, token: Option<&str>, phases: &str) {
    let config = folder.join("schemathesis.toml");
    std::fs::write(&config, CONFIG).expect("the configuration");
    let examples = std::env::var("SCHEMATHESIS_EXAMPLES").unwrap_or_else(|_| "2".to_owned());
    let mut command = schemathesis();
    command
        .current_dir(folder)
        .arg("--config-file")
        .arg(&config)
        .args(["run", &cluster.url(0, "/openapi.json")])
        .args(["--checks", CHECKS, "--phases", phases])
        .args(["--max-examples", &examples, "--request-timeout", "90"])
        .args(["--continue-on-failure", "--no-color"]);
    if let Some(token) = token {
        command.args(["--header", &format!("Authorization: Bearer {token}")]);
    }
    let output = command.output().expect("schemathesis runs");
    let report = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = report.lines().collect();
    let last = &lines[lines.len().saturating_sub(12)..];
    let _ = writeln!(std::io::stderr(), "{}", last.join("\n"));
    assert!(output.status.success(), "{report}");
}

#[test]
fn every_answer_is_one_that_the_description_of_the_api_has() {
    if skips::ends("API description", is_missing()) {
        return;
    }
    // One node: the removal of the only voter is refused, so every operation can be sent.
    let open = Cluster::planned(1).ready();
    compare(&open, open.folder(), None, EVERYTHING);
    drop(open);

    let (guarded, _file) = guarded(Cluster::planned(1));
    compare(&guarded, guarded.folder(), Some(OPERATOR), EVERYTHING);
    // A node holds each refusal back for a while.
    compare(&guarded, guarded.folder(), None, "fuzzing");
}

/// The description is the same with and without a token, and has an ETag for caches.
#[test]
fn the_description_of_the_api_is_cached_by_its_tag() {
    let cluster = Cluster::planned(1).ready();
    let url = cluster.url(0, "/openapi.json");
    let reply = http::get(&url).reply().ok();
    let tag = reply.header("etag").expect("a tag").to_owned();
    assert_eq!(reply.json()["openapi"], "3.1.0");
    let again = http::get(&url).header("if-none-match", &tag).reply();
    assert_eq!((again.status, again.body.as_str()), (304, ""));
}
