//! Segments for client-side allocators: a range to a client, and its unused end back.

use std::sync::Arc;

use seqd_api::number_text;
use seqd_api::{ErrorCode, Problem, Request};
use seqd_state::{Command, GrantToken, Outcome, SequenceCommand, SequenceOutcome};
use serde::{Deserialize, Serialize};

use super::sequences::{current, name_of, propose, unexpected};
use super::{count_within, invalid};
use crate::app::App;
use crate::http::answer::Answer;
use crate::http::ask::Ask;

pub(crate) const GRANTS: &str = "/v1/sequences/{name}/segments";
pub(crate) const GRANT: &str = "/v1/sequences/{name}/segments/{grant}";

/// The largest segment of a client: more would be out of proportion to any prefetch, and a client
/// that vanishes takes it with it.
const MAX_SIZE: u64 = 100_000_000;

/// Where nothing is said.
const DEFAULT_SIZE: u64 = 10_000;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantRequest {
    #[serde(default, with = "number_text::option")]
    size: Option<u64>,
    #[serde(default, with = "number_text::option")]
    after: Option<u64>,
}

impl Request for GrantRequest {
    const FIELDS: &'static [&'static str] = &["size", "after"];
}

#[derive(Debug, Serialize)]
struct GrantBody {
    #[serde(with = "number_text")]
    grant: u64,
    #[serde(with = "number_text")]
    first: i64,
    #[serde(with = "number_text")]
    last: i64,
    count: u64,
    #[serde(with = "number_text")]
    increment: i64,
}

/// `POST /v1/sequences/{name}/segments`
pub(crate) async fn grant(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let GrantRequest { size, after } = ask.decode()?;
    let name = name_of(&ask)?;
    let size = count_within(Some(size.unwrap_or(DEFAULT_SIZE)), MAX_SIZE)?;
    let command = Command::Sequences(SequenceCommand::GrantSegment {
        name,
        size,
        after: after.map(GrantToken),
    });
    match propose(&app, &ask, command).await? {
        Outcome::Sequences(SequenceOutcome::SegmentGranted(grant)) => Answer::json(&GrantBody {
            grant: grant.token.0,
            first: grant.first,
            last: grant.last,
            count: grant.count,
            increment: grant.increment,
        }),
        other => Err(unexpected(&other)),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReturnRequest {
    #[serde(default, with = "number_text::option")]
    unused: Option<u64>,
}

impl Request for ReturnRequest {
    const FIELDS: &'static [&'static str] = &["unused"];
}

#[derive(Debug, Serialize)]
struct ReturnedBody {
    returned: u64,
}

/// `DELETE /v1/sequences/{name}/segments/{grant}`
pub(crate) async fn give_back(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let ReturnRequest { unused } = ask.decode()?;
    let name = name_of(&ask)?;
    let token = ask.path.get(1).and_then(|text| text.parse::<u64>().ok());
    let token = token.ok_or_else(|| invalid("the path ends in the grant, a number"))?;
    let unused = unused.filter(|unused| *unused > 0);
    let unused =
        unused.ok_or_else(|| invalid("unused says how many of the last values come back"))?;
    let record = current(&app, &name, ask.deadline).await?;
    // The run ends at the mark; if it moves meanwhile, the token is no longer the latest.
    let first_unused = record.next_index.checked_sub(unused).ok_or_else(|| {
        let detail = format!("{unused} is more than was ever granted of {name}");
        Problem::new(ErrorCode::GrantSuperseded, detail)
    })?;
    let command = Command::Sequences(SequenceCommand::ReturnTail {
        name,
        token: GrantToken(token),
        first_unused,
    });
    match propose(&app, &ask, command).await? {
        Outcome::Sequences(SequenceOutcome::TailReturned { returned, .. }) => {
            Answer::json(&ReturnedBody { returned })
        }
        other => Err(unexpected(&other)),
    }
}
