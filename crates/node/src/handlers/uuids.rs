//! UUIDs: one and many.

use std::sync::Arc;

use seqd_api::{ErrorCode, Problem, Request, Uuid, UuidQuery, Uuids};

use super::{count_within, invalid, no_count};
use crate::app::App;
use crate::http::accept::Media;
use crate::http::answer::Answer;
use crate::http::ask::Ask;

fn draw(app: &App, version: Option<u8>, count: usize) -> Result<Vec<String>, Problem> {
    let uuids = match version.unwrap_or(7) {
        7 => app.uuids.version_7(app.clock.wall(), count),
        4 => app.uuids.version_4(count),
        other => return Err(invalid(format!("version is 7 or 4, not {other}"))),
    };
    let uuids = uuids.map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))?;
    Ok(uuids.into_iter().map(|uuid| uuid.to_string()).collect())
}

/// `/v1/uuid`
pub(crate) async fn one(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let query: UuidQuery = ask.decode()?;
    no_count(query.count, "/v1/uuids", UuidQuery::FIELDS)?;
    let mut uuid = draw(&app, query.version, 1)?.pop().unwrap_or_default();
    if ask.media == Media::Text {
        uuid.push('\n');
        return Ok(Answer::text(uuid));
    }
    Answer::json(&Uuid { uuid })
}

/// `/v1/uuids`
pub(crate) async fn many(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let query: UuidQuery = ask.decode()?;
    let limit = u64::from(app.config.http.max_count);
    let count = count_within(query.count, limit)?;
    let uuids = draw(
        &app,
        query.version,
        usize::try_from(count).unwrap_or_default(),
    )?;
    if ask.media == Media::Text {
        let mut text = uuids.join("\n");
        text.push('\n');
        return Ok(Answer::text(text));
    }
    Answer::json(&Uuids { uuids })
}
