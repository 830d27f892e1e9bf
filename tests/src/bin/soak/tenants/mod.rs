//! Two tenants on one cluster: an honest one that sends an even mix at a fixed rate, and a hostile
//! one that uses every method of attack at the same time, with full scopes for its own names.
//!
//! The attackers run in separate processes. The process that sends requests has idle priority: on
//! other machines it would not take processor time from the nodes either. The process that only
//! occupies places needs little processor time, but in time, because a node closes a connection
//! that sends nothing.

mod attacks;
mod guesses;
mod honest;
mod verdict;
mod victims;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::history::Timeline;
use seqd_tests::http::{self, Request};
use seqd_tests::{node_peaks, wait};
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::filling::FLOODED;
pub(crate) use attacks::attack;
use honest::{Book, Endpoints, KINDS};
use verdict::{Compared, Seen};

/// The time for which the honest tenant is alone, which gives its undisturbed latencies.
const QUIET: Duration = Duration::from_secs(30);

/// The time limit from the end of the attacks to the end of the process, which has thousands of
/// connections.
const ATTACKERS_END: Duration = Duration::from_secs(60);

/// The launchers of the attackers that occupy places, and of those that send requests.
const HOLDERS: &[&str] = &["nice", "-n", "10"];
const ASKERS: &[&str] = &["chrt", "--idle", "0"];

/// The interval of the operator's requests, and the time limit of each.
const OPERATOR_EVERY: Duration = Duration::from_secs(1);
const OPERATOR_PATIENCE: Duration = Duration::from_secs(4);

const OPERATORS_TOKEN: &str = "operator-0123456789abcdef0123456789abcdef";

/// The access tokens of the tenants. All are empty without access tokens.
#[derive(Debug, Default)]
struct Tokens {
    operator: String,
    honest: String,
    hostile: String,
    revoked: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow(&[
        "--seconds",
        "--addresses",
        "--without-tokens",
        "--with",
        "--seed",
    ]);
    let length = Duration::from_secs(arguments.value("--seconds", 600));
    let sources: usize = arguments.value("--addresses", 1);
    let seed = arguments.random("tenants").next_u64();
    let has_tokens = !arguments.flag("--without-tokens");
    println!("attackers at {sources} addresses; access tokens: {has_tokens}");
    let cluster = cluster(arguments.text("--with").map(Path::new), has_tokens);
    let tokens = prepared(&cluster, has_tokens);
    let endpoints = Endpoints {
        addresses: cluster.addresses(),
        token: tokens.honest.clone(),
    };
    let timeline = Timeline::begin();
    let mut quiet = honest::run(&endpoints, "quiet", timeline, QUIET);
    let (attacked, peaks) = node_peaks::during(&cluster, || {
        let children = [HOLDERS, ASKERS].map(|launcher| {
            let mut command = attackers(launcher, &cluster, &tokens, sources, length, seed);
            if launcher == HOLDERS {
                command.arg("--holds");
            }
            command.spawn().expect("the attackers")
        });
        let probe = || operator(&cluster, &tokens.operator);
        let work = || honest::run(&endpoints, "attacked", timeline, length);
        let (book, unserved) = wait::beside(probe, work);
        (book, unserved, children.map(ended))
    });
    let (mut book, unserved, attackers) = attacked;
    let latencies = KINDS.iter().enumerate().map(|(kind, name)| Compared {
        kind: name,
        quiet: quiet.latency(kind),
        attacked: book.latency(kind),
    });
    let latencies: Vec<Compared> = latencies.collect();
    let undisturbed = quiet.failures.len();
    println!("{undisturbed} failed operations undisturbed, the others under attack");
    quiet.join(book);
    let seen = Seen {
        latencies,
        violations: quiet.check(),
        failures: std::mem::take(&mut quiet.failures),
        operator: unserved.into_iter().flatten().collect(),
        peaks,
        attackers: attackers.into_iter().flatten().collect(),
    };
    report(&seen, &quiet);
    let reasons = verdict::reasons(&seen);
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Violation::new("tenants apart", reasons.join("; ")))
}

fn cluster(binary: Option<&Path>, has_tokens: bool) -> Cluster {
    let mut cluster = Cluster::planned(3);
    let file = cluster.folder().join("token");
    std::fs::write(&file, OPERATORS_TOKEN).expect("the operator's token");
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its mode");
    for index in 0..3 {
        let node = cluster.node_mut(index);
        node.set_binary(binary);
        if has_tokens {
            node.set("auth", "enabled", "true");
            let file = format!("{:?}", file.display().to_string());
            node.set("auth", "bootstrap_token_file", &file);
        }
    }
    cluster.ready()
}

fn shown(request: Request, token: &str) -> Request {
    match token {
        "" => request,
        token => request.header("authorization", &format!("Bearer {token}")),
    }
}

/// Creates the objects that the tenants use, as the operator.
fn prepared(cluster: &Cluster, has_tokens: bool) -> Tokens {
    let operator = if has_tokens { OPERATORS_TOKEN } else { "" };
    for name in [honest::ORDER, honest::TICKETS, FLOODED] {
        let url = cluster.url(0, &format!("/v1/sequences/{name}"));
        let put = shown(http::request("PUT", &url), operator);
        put.json(&json!({"mode": "strict"})).reply().ok();
    }
    if !has_tokens {
        return Tokens::default();
    }
    let url = cluster.url(0, "/v1/access");
    let create = |scopes: &[&str]| -> Value {
        let asked = shown(http::post(&url), operator).json(&json!({"scopes": scopes}));
        asked.reply().ok().json()
    };
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    // One-time tokens and guesses need scopes without a prefix: the hostile tenant has them, and
    // may administer its own names.
    let hostile = ["read", "allocate", "admin:hostile."];
    let revoked = create(&hostile);
    let revoke = format!("{url}/{}", text(&revoked["id"]));
    shown(http::request("DELETE", &revoke), operator)
        .reply()
        .ok();
    Tokens {
        operator: operator.to_owned(),
        honest: text(&create(&["read:honest.", "allocate:honest.", "admin:honest."])["token"]),
        hostile: text(&create(&hostile)["token"]),
        revoked: text(&revoked["token"]),
    }
}

/// Sends one request of the operator on a new connection. Returns the reason why no endpoint served
/// it. Without access tokens there is no operator.
fn operator(cluster: &Cluster, token: &str) -> Option<String> {
    std::thread::sleep(OPERATOR_EVERY);
    if token.is_empty() {
        return None;
    }
    let mut why = String::new();
    for index in 0..cluster.size() {
        let asked = http::get(&cluster.url(index, "/v1/locks?limit=1"));
        let asked = shown(asked, token).header("connection", "close");
        match asked.patience(OPERATOR_PATIENCE).send() {
            Ok(reply) if reply.status == 200 => return None,
            Ok(reply) => why = format!("{} {}", reply.status, reply.code()),
            Err(failure) => why = format!("{failure:?}"),
        }
    }
    Some(format!("GET /v1/locks: {why}"))
}

fn attackers(
    launcher: &[&str],
    cluster: &Cluster,
    tokens: &Tokens,
    sources: usize,
    length: Duration,
    seed: u64,
) -> Command {
    let own = std::env::current_exe().expect("this program");
    let mut command = Command::new(launcher[0]);
    command.args(&launcher[1..]).arg(own).arg("tenants-attack");
    for (name, value) in [
        ("--addresses", cluster.addresses().join(",")),
        ("--token", tokens.hostile.clone()),
        ("--revoked", tokens.revoked.clone()),
        ("--sources", sources.to_string()),
        ("--seconds", length.as_secs().to_string()),
        ("--seed", seed.to_string()),
    ] {
        command.args([name, &value]);
    }
    command.stdin(Stdio::null());
    command
}

/// Waits for the end of the attackers' process. Returns its complaint, if it has one.
fn ended(mut child: Child) -> Option<String> {
    let status = wait::within(ATTACKERS_END, || child.try_wait().expect("an own child"));
    match status {
        Some(status) if status.success() => None,
        Some(status) => Some(format!("the attackers complain, see above ({status})")),
        None => {
            let _ = child.kill();
            let _ = child.wait();
            Some("the attackers did not end".to_owned())
        }
    }
}

fn report(seen: &Seen, book: &Book) {
    println!("the honest tenant:");
    for Compared {
        kind,
        quiet,
        attacked,
    } in &seen.latencies
    {
        println!("  {kind:<16} undisturbed  {quiet}");
        println!("  {kind:<16} under attack {attacked}");
    }
    println!("  tries that led to the next endpoint: {:?}", book.retries);
    println!(
        "  {} failed operations, {} violations",
        seen.failures.len(),
        seen.violations.len()
    );
    println!("the operator: {} unserved requests", seen.operator.len());
    for peak in &seen.peaks {
        println!("  {peak}");
    }
}
