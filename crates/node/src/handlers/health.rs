//! Health, version, configuration, error pages.

use std::sync::Arc;

use axum::http::StatusCode;
use seqd_api::{ErrorCode, NoFields, Problem, Ready, Request, Version, nearest, number_text::flag};
use serde::{Deserialize, Serialize};

use super::invalid;
use crate::app::App;
use crate::config;
use crate::http::accept::Media;
use crate::http::answer::Answer;
use crate::http::ask::Ask;
use crate::readiness::Readiness;
use crate::scrape;

/// `/livez`: the process answers.
pub(crate) async fn livez(_: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let NoFields {} = ask.decode()?;
    match ask.media {
        Media::Json => Answer::json(&serde_json::json!({ "live": true })),
        _ => Ok(Answer::text("ok\n")),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadyQuery {
    #[serde(default, rename = "for")]
    for_what: Option<String>,
    #[serde(default, with = "flag")]
    verbose: Option<bool>,
}

impl Request for ReadyQuery {
    const FIELDS: &'static [&'static str] = &["for", "verbose"];
}

/// `/readyz`
pub(crate) async fn readyz(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let query: ReadyQuery = ask.decode()?;
    let only_ids = match query.for_what.as_deref() {
        None => false,
        Some("ids") => true,
        Some(_) => return Err(invalid("for is ids, or left out for everything")),
    };
    let verbose = query.verbose.unwrap_or(false);
    let readiness = Readiness::of(&app, only_ids);
    if let Some(failed) = readiness.failed() {
        return Err(not_ready(&readiness, failed));
    }
    if ask.media == Media::Json {
        let checks = if verbose {
            readiness.checks
        } else {
            Vec::new()
        };
        return Answer::json(&Ready {
            ready: true,
            node: app.name().to_owned(),
            checks,
        });
    }
    if !verbose {
        return Ok(Answer::text("ok\n"));
    }
    let lines = readiness
        .checks
        .iter()
        .map(|check| format!("[+] {}: {}\n", check.name, check.detail));
    Ok(Answer::text(lines.collect::<String>()))
}

fn not_ready(readiness: &Readiness, failed: &seqd_api::Check) -> Problem {
    let code = failed.code.as_deref().and_then(|code| code.parse().ok());
    let code = code.unwrap_or(ErrorCode::Internal);
    // The trouble with IDs knows more than a sentence: by how much, until when.
    let trouble = readiness
        .ids_trouble
        .as_ref()
        .filter(|_| failed.name == "ids");
    let mut problem = match trouble {
        Some(trouble) => trouble.problem(),
        None => Problem::new(code, failed.detail.clone()).with_retry_after_ms(1000),
    };
    if let Some(until) = &readiness.ids_until {
        problem.detail = format!("{}; IDs until {until} at least", problem.detail).into();
        problem = problem.with_extra("ids_until", until.clone());
    }
    let checks = serde_json::to_value(&readiness.checks).unwrap_or_default();
    problem.with_extra("checks", checks)
}

/// `/metrics`
pub(crate) async fn metrics(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let NoFields {} = ask.decode()?;
    let text = app.metrics.text(scrape::read(&app));
    text.map(Answer::metrics)
        .map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))
}

/// `/version`
pub(crate) async fn version(_: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let NoFields {} = ask.decode()?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let revision = option_env!("SEQD_REVISION").map(ToOwned::to_owned);
    match ask.media {
        Media::Text => Ok(Answer::text(format!("seqd {version}\n"))),
        _ => Answer::json(&Version { version, revision }),
    }
}

#[derive(Serialize)]
struct ConfigEntry<'a> {
    key: &'a str,
    value: Option<&'a str>,
    origin: String,
}

/// `/v1/config`: what is in force, each value with its origin.
pub(crate) async fn config(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let NoFields {} = ask.decode()?;
    let entries = &app.config.entries;
    if ask.media == Media::Text {
        return Ok(Answer::text(config::show(entries, true)));
    }
    let items = entries.iter().map(|entry| ConfigEntry {
        key: entry.key.name,
        value: entry.value.as_deref(),
        origin: entry.origin.to_string(),
    });
    Answer::json(&serde_json::json!({ "items": items.collect::<Vec<_>>() }))
}

#[derive(Serialize)]
struct CodePage {
    #[serde(rename = "type")]
    kind: String,
    code: &'static str,
    title: &'static str,
    status: u16,
    exit: u8,
    retryable: bool,
}

/// `/problems/{code}`: what an error code means.
pub(crate) async fn problem(_: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let NoFields {} = ask.decode()?;
    let Ok(code) = ask.name().parse::<ErrorCode>() else {
        let known: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        let problem = Problem::new(ErrorCode::NotFound, "there is no such error code");
        return Err(match nearest(ask.name(), &known) {
            Some(near) => problem.with_hint(format!("did you mean {near}?")),
            None => problem.with_hint(format!("known: {}", known.join(", "))),
        });
    };
    let row = code.row();
    let page = CodePage {
        kind: seqd_api::paths::fill(seqd_api::paths::PROBLEM, row.code),
        code: row.code,
        title: row.title,
        status: row.status,
        exit: row.exit,
        retryable: row.retryable,
    };
    if ask.media == Media::Json {
        return Ok(Answer::json(&page)?.with_status(StatusCode::OK));
    }
    let again = if row.retryable {
        "It certainly had no effect: repeat it here or at another node."
    } else {
        "Repeating it unchanged does not help, or is not safe."
    };
    Ok(Answer::text(format!(
        "{}: {}\nHTTP status {}, exit code {}\n{again}\n",
        row.code, row.title, row.status, row.exit
    )))
}
