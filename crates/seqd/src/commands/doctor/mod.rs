//! `seqd doctor`: every check that an expert would make, each with the reason and the remedy.
//!
//! The command sends its requests to the given endpoints only. The node that answers gathers the
//! facts of the other members over the connections between nodes, so the access token goes to no
//! host that only a response names. The checks are pure functions over these facts.

mod agreement;
mod capacity;
mod check;
mod endpoints;
mod group;
mod nodes;
mod settings;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use seqd_client::api::{Facts, exit};
use serde::Serialize;

use self::check::{Check, Outcome};
use crate::failure::Failure;
use crate::output::{Report, table};
use crate::session::Session;

/// The result of the command, as `-o json` prints it.
#[derive(Debug, Serialize)]
struct Diagnosis {
    /// True if no check failed.
    healthy: bool,
    /// The node that gathered the facts.
    node: String,
    checks: Vec<Check>,
}

/// The exit code is 7 if a check fails.
pub(crate) async fn run(session: &Session) -> Result<u8, Failure> {
    let facts = session.client.facts().await?;
    let mut checks = vec![endpoints::check(&endpoints::look(&session.options).await)];
    checks.extend(check_all(&facts, Timestamp::now()));
    let diagnosis = Diagnosis {
        healthy: checks.iter().all(|it| it.result != Outcome::Fail),
        node: facts.node,
        checks,
    };
    report(&diagnosis, session.is_verbose)?.print(session.format)?;
    Ok(if diagnosis.healthy {
        exit::OK
    } else {
        exit::UNHEALTHY
    })
}

/// The reason why nothing can be compared, if only the gathering node answers.
fn alone(facts: &Facts) -> Option<String> {
    let has_others = facts.cluster.members.len() != 1;
    (has_others && facts.nodes.len() < 2).then(|| format!("only {} answers", facts.node))
}

/// The nodes that sent their facts.
fn answering(facts: &Facts) -> String {
    let names: Vec<&str> = facts.nodes.iter().map(|node| &*node.name).collect();
    names.join(", ")
}

/// Every check over the facts, in the order in which a person would look.
fn check_all(facts: &Facts, now: Timestamp) -> Vec<Check> {
    vec![
        group::members(facts),
        group::quorum(facts),
        group::leader(facts),
        group::readiness(facts),
        group::links(facts),
        group::replication(facts),
        nodes::clocks(facts),
        nodes::windows(facts),
        nodes::fsync(facts),
        nodes::commit(facts),
        nodes::disk(facts, now),
        nodes::files(facts),
        nodes::descriptors(facts),
        agreement::versions(facts),
        agreement::configuration(facts),
        nodes::certificates(facts, now),
        nodes::exposure(facts),
        capacity::layouts(facts, now),
        capacity::workers(facts, now),
        capacity::sequences(facts),
        capacity::limits(facts),
    ]
}

fn report(diagnosis: &Diagnosis, is_verbose: bool) -> Result<Report, Failure> {
    let checks = &diagnosis.checks;
    let columns = "result check detail why what_to_do";
    let mut report = Report::new(diagnosis)?
        .with_columns(columns)
        .with_items(checks)?;
    let mut rows = Vec::new();
    for check in checks {
        let result = check.result.as_str().to_owned();
        let name = check.check.to_owned();
        report.row(vec![
            result.clone(),
            name.clone(),
            check.detail.clone(),
            check.why.to_owned(),
            check.what_to_do.clone(),
        ]);
        rows.push(vec![result, name, check.detail.clone()]);
        if is_verbose || check.result > Outcome::Skip {
            let more = |what: &str, text: &str| {
                vec![String::new(), String::new(), format!("{what}: {text}")]
            };
            rows.push(more("why", check.why));
            rows.push(more("do", &check.what_to_do));
        }
    }
    let count = |wanted| checks.iter().filter(|it| it.result == wanted).count();
    let (fails, warns) = (count(Outcome::Fail), count(Outcome::Warn));
    let skipped = match count(Outcome::Skip) {
        0 => String::new(),
        skipped => format!(", {skipped} not checked"),
    };
    let people = format!(
        "{}{} checks by {}: {} ok, {warns} warn, {fails} fail{skipped}.\n",
        table(rows.into_iter()),
        checks.len(),
        diagnosis.node,
        count(Outcome::Ok),
    );
    Ok(report.with_people(people))
}
