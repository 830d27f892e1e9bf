//! The answering node: health, version, configuration, and the meaning of error codes.

use std::sync::Arc;

use seqd_api::{
    Check, CodePage, ConfigEntries, ConfigEntry, ErrorCode, Live, Media, NoFields, Problem, Ready,
    ReadyQuery, Version, nearest,
};

use crate::REVISION;
use crate::config;
use crate::http::{Request, Response};
use crate::metrics::plain;
use crate::problems::{internal, invalid, not_ready};
use crate::services::{self, Services};

/// `/livez`: the process answers.
pub(super) async fn livez(_: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let NoFields {} = request.decode()?;
    match request.media {
        Media::Json => Response::json(&Live { live: true }),
        _ => Ok(Response::text("ok\n")),
    }
}

pub(super) async fn readyz(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let query: ReadyQuery = request.decode()?;
    let readiness = match query.for_what.as_deref() {
        None => node.health.readiness(),
        Some("ids") => node.health.readiness_for_ids(),
        Some(_) => return Err(invalid("for must be ids, or omitted to check everything")),
    };
    let checks: Vec<Check> = readiness.checks.iter().map(to_api).collect();
    if let Some(problem) = not_ready(&readiness) {
        let checks = serde_json::to_value(&checks).unwrap_or_default();
        return Err(problem.with_extra("checks", checks));
    }
    let verbose = query.verbose.unwrap_or(false);
    if request.media == Media::Json {
        return Response::json(&Ready {
            ready: true,
            node: node.node().to_owned(),
            checks: if verbose { checks } else { Vec::new() },
        });
    }
    if !verbose {
        return Ok(Response::text("ok\n"));
    }
    let lines = checks.iter();
    let lines = lines.map(|check| format!("[+] {}: {}\n", check.name, check.detail));
    Ok(Response::text(lines.collect::<String>()))
}

fn to_api(check: &services::Check) -> Check {
    let code = check.failed.as_ref().map(services::Unready::code);
    Check {
        name: check.name.to_owned(),
        ok: code.is_none(),
        code: code.map(|code| code.as_str().to_owned()),
        detail: check.detail.clone(),
        until: check.until.clone(),
    }
}

pub(super) async fn metrics(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let NoFields {} = request.decode()?;
    let text = node.metrics().map_err(|error| internal(&error))?;
    Ok(match request.media {
        Media::OpenMetrics => Response::open_metrics(text),
        _ => Response::metrics(plain(&text)),
    })
}

pub(super) async fn version(_: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let NoFields {} = request.decode()?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let revision = REVISION.map(ToOwned::to_owned);
    match request.media {
        Media::Text => Ok(Response::text(format!("seqd {version}\n"))),
        _ => Response::json(&Version { version, revision }),
    }
}

/// `/v1/config`: the values in force, each with its origin.
pub(super) async fn config(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let NoFields {} = request.decode()?;
    let entries = &node.config.entries;
    if request.media == Media::Text {
        return Ok(Response::text(config::show(entries, true)));
    }
    let items = entries.iter().map(|entry| ConfigEntry {
        key: entry.key.name.to_owned(),
        value: entry.value.clone(),
        origin: entry.origin.to_string(),
    });
    Response::json(&ConfigEntries {
        items: items.collect(),
    })
}

/// `/problems/{code}`: the meaning of an error code.
pub(super) async fn problem(_: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let NoFields {} = request.decode()?;
    let Some(code) = ErrorCode::of(request.name()) else {
        let known: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        let problem = Problem::new(ErrorCode::NotFound, "there is no such error code");
        return Err(match nearest(request.name(), &known) {
            Some(near) => problem.with_hint(format!("did you mean {near}?")),
            None => problem.with_hint(format!("known: {}", known.join(", "))),
        });
    };
    let page = CodePage::of(code);
    if request.media == Media::Json {
        return Response::json(&page);
    }
    let again = if page.retryable {
        "The request certainly had no effect: retry it on this node or on another."
    } else {
        "A retry of the unchanged request does not help, or is not safe."
    };
    Ok(Response::text(format!(
        "{}: {}\nHTTP status {}, exit code {}\nwhen: {}\nwhat to do: {}\n{again}\n",
        page.code, page.title, page.status, page.exit, page.when, page.what_to_do
    )))
}
