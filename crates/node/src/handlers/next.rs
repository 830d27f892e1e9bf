//! The next values of a sequence, in either mode.

use std::sync::Arc;

use seqd_api::{ErrorCode, Next, NextRequest, Problem, Range};
use seqd_state::{Command, Outcome, SequenceCommand, SequenceMode, SequenceName, SequenceOutcome};

use super::count_within;
use super::sequences::{current, local, mode_of, name_of, propose, unexpected};
use crate::app::App;
use crate::http::accept::Media;
use crate::http::answer::Answer;
use crate::http::ask::Ask;
use crate::http::refusals;
use crate::sequences::NextError;

/// `POST /v1/sequences/{name}/next`
pub(crate) async fn next(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let request: NextRequest = ask.decode()?;
    let name = name_of(&ask)?;
    let expand = request.expand.unwrap_or(false);
    let each = expand || ask.media == Media::Text;
    let limit = if each {
        u64::from(app.config.http.max_count)
    } else {
        NextRequest::MAX_COUNT
    };
    let count = count_within(request.count, limit)?;
    let contiguous = request.contiguous.unwrap_or(false);
    let record = match local(&app, &name) {
        Some(record) => record,
        // Perhaps made a moment ago through another node.
        None => current(&app, &name, ask.deadline).await?,
    };
    let mode = record.definition.mode;
    if contiguous && mode == SequenceMode::Segment {
        // One range lies within one segment at worst.
        count_within(Some(count), record.definition.segment.max)?;
    }
    let (ranges, increment) = match mode {
        SequenceMode::Strict => strict_next(&app, &ask, &name, count, contiguous).await?,
        SequenceMode::Segment => segment_next(&app, &ask, &name, count, contiguous).await?,
    };
    let next = Next::new(ranges, increment, mode_of(mode), expand);
    if ask.media == Media::Text {
        let mut text = String::new();
        for value in next.each() {
            text.push_str(&value.to_string());
            text.push('\n');
        }
        return Ok(Answer::text(text));
    }
    Answer::json(&next)
}

type Values = (Vec<Range>, i64);

async fn strict_next(
    app: &App,
    ask: &Ask,
    name: &SequenceName,
    count: u64,
    contiguous: bool,
) -> Result<Values, Problem> {
    let request = seqd_state::NextRequest {
        name: name.clone(),
        count,
    };
    let command = Command::Sequences(SequenceCommand::Next(request));
    let grant = match propose(app, ask, command).await? {
        Outcome::Sequences(SequenceOutcome::Next(grant)) => grant,
        other => return Err(unexpected(&other)),
    };
    if contiguous && grant.ranges.len() > 1 {
        let detail = "the sequence began again at its end: the values do not lie together and stay \
                      a gap";
        return Err(Problem::new(ErrorCode::SequenceExhausted, detail)
            .with_hint("repeat the request: it is served from the new pass"));
    }
    app.metrics.allocated(name.as_str(), grant.count);
    let ranges = grant.ranges.iter();
    let ranges = ranges.map(|range| Range {
        first: range.first,
        last: range.last,
        count: range.count,
    });
    Ok((ranges.collect(), grant.increment))
}

async fn segment_next(
    app: &App,
    ask: &Ask,
    name: &SequenceName,
    count: u64,
    contiguous: bool,
) -> Result<Values, Problem> {
    let served = app
        .segments
        .next(name, count, contiguous, ask.deadline)
        .await;
    let served = served.map_err(|error| next_problem(name, error))?;
    let ranges = served.ranges.into_iter();
    let ranges = ranges
        .map(|(first, last, count)| Range { first, last, count })
        .collect();
    Ok((ranges, served.increment))
}

fn next_problem(name: &SequenceName, error: NextError) -> Problem {
    match error {
        NextError::NotFound => refusals::no_sequence(name.as_str()),
        NextError::NoRefill(detail) => Problem::new(
            ErrorCode::NoQuorum,
            format!("this node's range of {name} is used up, and no other came: {detail}"),
        )
        .with_retry_after_ms(1000),
        NextError::Overloaded => Problem::new(
            ErrorCode::Overloaded,
            format!("too many requests wait for {name}"),
        )
        .with_retry_after_ms(100),
        NextError::Refused(refusal) => refusals::state(&refusal),
        NextError::Stopping => Problem::new(ErrorCode::Draining, "this node is stopping")
            .with_retry_after_ms(1000)
            .with_hint("ask another node"),
    }
}
