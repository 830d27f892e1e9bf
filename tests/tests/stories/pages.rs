//! The web pages: their headers, the requests that they refuse, and the option that disables them.
//! `tests/pages/run` tests them in a browser.

use std::collections::BTreeSet;

use seqd_tests::callers::guarded;
use seqd_tests::cluster::Cluster;
use seqd_tests::http::{Reply, get, post, request};

const PAGES: [&str; 4] = ["/ui/", "/ui", "/docs", "/docs/"];

/// The most bytes of all files together: a slow link loads them within a second.
const MOST_BYTES: usize = 100_000;

/// The absolute paths of files that a page or a script names, such as `"/ui/main.js"`.
fn files_in(folder: &str, text: &str) -> BTreeSet<String> {
    let words = text
        .split('"')
        .filter(|word| word.ends_with(".js") || word.contains("/ui/"));
    let paths = words.filter_map(|word| match word.strip_prefix("./") {
        Some(name) => Some(format!("{folder}{name}")),
        None => word.starts_with("/ui/").then(|| word.to_owned()),
    });
    paths.filter(|path| path.contains('.')).collect()
}

/// Every file that the pages load, with its content.
fn loaded(cluster: &Cluster) -> Vec<(String, Reply)> {
    let mut known = BTreeSet::new();
    let mut waiting: Vec<String> = vec!["/ui/".to_owned(), "/docs".to_owned()];
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        if !known.insert(path.clone()) {
            continue;
        }
        let reply = get(&cluster.url(0, &path)).reply().ok();
        waiting.extend(files_in("/ui/", &reply.body));
        found.push((path, reply));
    }
    found
}

fn policy_of(reply: &Reply) -> String {
    let policy = reply.header("content-security-policy");
    policy.expect("a policy").to_owned()
}

#[track_caller]
fn is_guarded(path: &str, reply: &Reply) {
    let policy = policy_of(reply);
    let is_open = ["unsafe", "http", "*", "data:", "blob:"]
        .iter()
        .any(|word| policy.contains(word));
    assert!(!is_open, "{path}: {policy}");
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ] {
        assert!(policy.contains(rule), "{path}: {policy}");
    }
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(reply.header(name), Some(value), "{path}: {name}");
    }
}

#[test]
fn the_pages_are_small_and_load_only_files_of_the_node_with_a_strict_policy() {
    let cluster = Cluster::planned(1).ready();
    let files = loaded(&cluster);
    let bytes: usize = files.iter().map(|(_, reply)| reply.body.len()).sum();
    assert!(
        files.len() > 10 && bytes < MOST_BYTES,
        "{} files, {bytes} bytes",
        files.len()
    );
    for (path, reply) in &files {
        is_guarded(path, reply);
        let kind = reply.header("content-type").unwrap_or_default();
        let expected = match path.rsplit('.').next() {
            Some("js") => "text/javascript",
            Some("css") => "text/css",
            Some("svg") => "image/svg+xml",
            _ => "text/html",
        };
        assert!(kind.starts_with(expected), "{path}: {kind}");
    }
}

#[test]
fn a_page_is_revalidated_by_its_tag_and_takes_no_other_method() {
    let cluster = Cluster::planned(1).ready();
    for path in PAGES.into_iter().chain(["/ui/main.js", "/openapi.json"]) {
        let url = cluster.url(0, path);
        let reply = get(&url).reply().ok();
        is_guarded(path, &reply);
        let tag = reply.header("etag").expect("a tag");
        let again = get(&url).header("if-none-match", tag).reply();
        assert_eq!((again.status, again.body.as_str()), (304, ""), "{path}");
        assert_eq!(again.header("etag"), Some(tag));
        let head = request("HEAD", &url).reply().ok();
        assert_eq!((head.body.as_str(), head.header("etag")), ("", Some(tag)));
        post(&url).reply().refused(405, "method-not-allowed");
        let foreign = get(&url).header("host", "evil.example").reply();
        foreign.refused(421, "unknown-host");
        get(&format!("{url}?nosuch=1"))
            .reply()
            .refused(400, "unknown-field");
    }
    for path in ["/ui/nosuch.js", "/ui/a/b", "/docs/nosuch", "/uimain.js"] {
        cluster.get(0, path).refused(404, "not-found");
    }
}

#[test]
fn pages_need_no_token_and_the_data_does() {
    let (cluster, _file) = guarded(Cluster::planned(1));
    for path in PAGES.into_iter().chain(["/ui/main.js", "/openapi.json"]) {
        cluster.get(0, path).ok();
    }
    for path in ["/v1/cluster", "/metrics", "/uimain.js"] {
        cluster.get(0, path).refused(401, "unauthorized");
    }
}

#[test]
fn pages_that_are_turned_off_are_not_found() {
    let cluster = Cluster::planned(1).with("http", "pages", "false").ready();
    for path in PAGES.into_iter().chain(["/ui/main.js", "/openapi.json"]) {
        let problem = cluster.get(0, path).refused(404, "not-found").json();
        let hint = problem["hint"].as_str().unwrap_or_default();
        assert!(!hint.contains("/docs"), "{hint}");
    }
    cluster.get(0, "/v1/cluster").ok();
}
