//! Two tenants on one cluster: an honest one that sends an even mix at a fixed rate, and a hostile
//! one that uses every means of attack at the same time, with full scopes for its own names.
//!
//! The attackers run in separate processes. The process that sends requests has the scheduling
//! class `idle`, so that it takes no processor time from the nodes: real attackers would run on
//! other machines. The process that only occupies places needs little processor time, but needs it
//! promptly, since a node closes a connection that sends nothing.

mod attacks;
mod guesses;
mod honest;
mod victims;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use seqd_tests::callers::{Caller, OPERATOR, require_tokens};
use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::history::Timeline;
use seqd_tests::http::{self, Request};
use seqd_tests::report::{Report, Times};
use seqd_tests::{node_peaks, wait};
use serde_json::json;

use crate::arguments::Arguments;
use crate::attackers::Process;
use crate::filling::FLOODED;
pub(crate) use attacks::attack;
use honest::{Endpoints, KINDS};

/// The time for which the honest tenant runs alone, to measure its undisturbed times.
const QUIET: Duration = Duration::from_secs(30);

/// The permitted ratio of the 99th percentile under attack to the undisturbed one. The latter
/// counts as at least `FLOOR`, because a single sync of a shared disk or a single turn of the
/// scheduler may take as long.
const TIMES: u32 = 5;
const FLOOR: Duration = Duration::from_millis(5);

/// The memory limit of a node, in bytes.
const MOST_MEMORY: u64 = 400_000_000;

/// The commands that start the attackers that occupy places, and the attackers that send requests.
const HOLDERS: &[&str] = &["nice", "-n", "10"];
const ASKERS: &[&str] = &["chrt", "--idle", "0"];

/// The interval of the operator's requests, and their timeout.
const OPERATOR_EVERY: Duration = Duration::from_secs(1);
const OPERATOR_PATIENCE: Duration = Duration::from_secs(4);

/// The access tokens of the tenants; all empty without access tokens.
#[derive(Debug, Default)]
struct Tokens {
    operator: String,
    honest: String,
    hostile: String,
    revoked: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--seconds --addresses --without-tokens --means --with --seed");
    attacks::allow_means(arguments);
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
        let processes = [HOLDERS, ASKERS].map(|launcher| {
            let mut command = attackers(launcher, &cluster, &tokens, sources, length, seed);
            command.args(
                arguments
                    .text("--means")
                    .map(|means| ["--means", means])
                    .into_iter()
                    .flatten(),
            );
            if launcher == HOLDERS {
                command.arg("--holds");
            }
            Process::start(&mut command)
        });
        let probe = || operator(&cluster, &tokens.operator);
        let work = || honest::run(&endpoints, "attacked", timeline, length);
        let (book, unserved) = wait::beside(probe, work);
        (book, unserved, processes.map(Process::ended))
    });
    let (mut book, unserved, attackers) = attacked;
    let mut report = Report::default();
    for (kind, name) in KINDS.iter().enumerate() {
        apart(name, &quiet.latency(kind), &book.latency(kind), &mut report);
    }
    let undisturbed = quiet.failures.len();
    println!("  {undisturbed} failed operations undisturbed, the others under attack");
    quiet.join(book);
    println!("  tries that led to the next endpoint: {:?}", quiet.retries);
    quiet.check(&mut report);
    report.none("operations of the honest tenant", &quiet.failures);
    let unserved: Vec<String> = unserved.into_iter().flatten().collect();
    report.none("requests of the operator", &unserved);
    node_peaks::judge(&peaks, MOST_MEMORY, &mut report);
    for peak in &peaks {
        report.at_most("disk space", peak.disk.all, most_disk(peak.disk.snap));
    }
    let complaints: Vec<String> = attackers.into_iter().flatten().collect();
    report.none("what the attackers found", &complaints);
    report.verdict()
}

/// Checks that the 99th percentile of a kind of operation is near the undisturbed one.
fn apart(kind: &str, quiet: &Times, attacked: &Times, report: &mut Report) {
    println!("  {kind:<16} undisturbed  {quiet}");
    println!("  {kind:<16} under attack {attacked}");
    let is_measured = quiet.count() > 0 && attacked.count() > 0;
    report.require(is_measured, "operations in both phases", kind);
    let most = quiet.quantile(0.99).max(FLOOR) * TIMES;
    report.at_most(
        "the p99 of the honest tenant",
        attacked.quantile(0.99),
        most,
    );
}

/// The disk limit of a node (`docs/DISK.md`) if its snapshots had this many bytes at
/// most: up to three of the live state, one of them unfinished.
fn most_disk(snapshots: u64) -> u64 {
    22 * (snapshots / 3) + (1 << 30)
}

fn cluster(binary: Option<&Path>, has_tokens: bool) -> Cluster {
    let mut cluster = Cluster::planned(3);
    for index in 0..3 {
        cluster.node_mut(index).set_binary(binary);
    }
    if has_tokens {
        require_tokens(&mut cluster);
    }
    cluster.ready()
}

fn shown(request: Request, token: &str) -> Request {
    match token {
        "" => request,
        token => request.header("authorization", &format!("Bearer {token}")),
    }
}

/// Creates the sequences and the tokens of the tenants, as the operator.
fn prepared(cluster: &Cluster, has_tokens: bool) -> Tokens {
    let operator = if has_tokens { OPERATOR } else { "" };
    for name in [honest::ORDER, honest::TICKETS, FLOODED] {
        let url = cluster.url(0, &format!("/v1/sequences/{name}"));
        let put = shown(http::request("PUT", &url), operator);
        put.json(&json!({"mode": "strict"})).reply().ok();
    }
    if !has_tokens {
        return Tokens::default();
    }
    // One-time tokens and guesses need scopes without a prefix: the hostile tenant has them, and
    // may administer its own names.
    let hostile = json!({"scopes": ["read", "allocate", "admin:hostile."]});
    let honest = json!({"scopes": ["read:honest.", "allocate:honest.", "admin:honest."]});
    let token = |scopes| Caller::with(cluster, scopes);
    let (revoked, id) = token(&hostile);
    Caller::operator(cluster)
        .delete(&format!("/v1/access/{id}"))
        .ok();
    Tokens {
        operator: operator.to_owned(),
        honest: token(&honest).0.token,
        hostile: token(&hostile).0.token,
        revoked: revoked.token,
    }
}

/// Sends one request of the operator on a new connection. Returns the reason if no endpoint served
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
    let (addresses, seconds) = (cluster.addresses().join(","), length.as_secs());
    command.args(["--token", &tokens.hostile, "--revoked", &tokens.revoked]);
    let words = format!("--sources {sources} --seconds {seconds} --seed {seed}");
    command
        .args(words.split(' '))
        .args(["--addresses", &addresses]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_p99_beyond_five_times_the_undisturbed_one_or_the_floor_is_found() {
        let of = |ms| Times::of([Duration::from_millis(ms)]);
        let passes = |quiet: Times, attacked: Times| {
            let mut report = Report::default();
            apart("IDs", &quiet, &attacked, &mut report);
            report.verdict().is_ok()
        };
        assert!(passes(of(10), of(50)) && passes(of(1), of(25)));
        assert!(!passes(of(10), of(51)) && !passes(of(1), of(26)));
        assert!(!passes(of(10), Times::default()) && !passes(Times::default(), of(1)));
    }
}
