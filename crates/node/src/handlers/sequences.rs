//! Sequences: definitions, where they stand, and forward.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::IF_MATCH;
use seqd_api::{
    AdvanceRequest, Advanced, DeleteSequenceQuery, Deleted, ErrorCode, GetSequenceQuery, ListQuery,
    Mode, Problem, Segment, Sequence, SequenceSpec,
};
use seqd_idgen::Progression;
use seqd_state::{
    Command, Outcome, Revision, SegmentSizes, SequenceCommand, SequenceDefinition, SequenceMode,
    SequenceName, SequenceOutcome, SequenceRecord, State,
};
use tokio::time::{Instant, sleep};

use super::{cursor, invalid};
use crate::app::App;
use crate::http::answer::Answer;
use crate::http::ask::Ask;
use crate::http::refusals;
use crate::replica::propose_one;

/// How long an answer waits for the other members to confirm that they know, before it names them:
/// longer than the second in which each tells how far it is.
const CONFIRM_WAIT: Duration = Duration::from_millis(1200);

/// Between two looks at what the members have told.
const CONFIRM_LOOK: Duration = Duration::from_millis(20);

/// The sizes of a strict sequence: without meaning there, so the same for all.
const NO_SEGMENTS: SegmentSizes = SegmentSizes {
    target_ms: 60_000,
    min: 1000,
    max: 1_000_000,
};

/// The name in the path.
pub(super) fn name_of(ask: &Ask) -> Result<SequenceName, Problem> {
    SequenceName::new(ask.name()).map_err(|error| invalid(error.to_string()))
}

/// Proposes one command by the request's deadline.
pub(super) async fn propose(app: &App, ask: &Ask, command: Command) -> Result<Outcome, Problem> {
    let outcome = propose_one(&app.raft, command, ask.deadline).await;
    match outcome.map_err(|error| refusals::propose(&error))? {
        Outcome::Refused(refusal) => Err(refusals::state(&refusal)),
        outcome => Ok(outcome),
    }
}

/// An outcome that belongs to another command.
pub(super) fn unexpected(outcome: &Outcome) -> Problem {
    Problem::new(
        ErrorCode::Internal,
        format!("an outcome of another command: {outcome:?}"),
    )
}

pub(super) fn local(app: &App, name: &SequenceName) -> Option<SequenceRecord> {
    app.raft.state(|state| state.sequence(name).cloned())
}

/// The record after all that was acknowledged before this call.
pub(super) async fn current(
    app: &App,
    name: &SequenceName,
    deadline: Instant,
) -> Result<SequenceRecord, Problem> {
    app.raft
        .read(deadline)
        .await
        .map_err(|error| match refusals::propose(&error) {
            // A read has no outcome that could be unknown.
            problem if problem.error_code() == Some(ErrorCode::OutcomeUnknown) => {
                Problem::new(ErrorCode::NoQuorum, problem.detail).with_retry_after_ms(1000)
            }
            problem => problem,
        })?;
    local(app, name).ok_or_else(|| refusals::no_sequence(name.as_str()))
}

pub(super) fn mode_of(mode: SequenceMode) -> Mode {
    match mode {
        SequenceMode::Segment => Mode::Segment,
        SequenceMode::Strict => Mode::Strict,
    }
}

fn shown(name: &SequenceName, record: &SequenceRecord) -> Sequence {
    let SequenceDefinition {
        mode,
        progression,
        segment,
        description,
    } = &record.definition;
    let is_segment = *mode == SequenceMode::Segment;
    Sequence {
        name: name.as_str().to_owned(),
        mode: mode_of(*mode),
        start: progression.start(),
        increment: progression.increment(),
        min: progression.min(),
        max: progression.max(),
        cycle: progression.cycle(),
        segment: is_segment.then(|| Segment {
            target: humantime::format_duration(Duration::from_millis(segment.target_ms))
                .to_string(),
            min: segment.min,
            max: segment.max,
        }),
        description: description.clone(),
        next: record.next_value(),
        allocated: Some(record.next_index),
        remaining: record.remaining(),
        revision: record.revision.0,
    }
}

/// `GET /v1/sequences`
pub(crate) async fn list(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let query: ListQuery = ask.decode()?;
    let limit = cursor::limit(query.limit)?;
    let after = cursor::name(query.cursor.as_deref())?;
    let after = after
        .map(SequenceName::new)
        .transpose()
        .map_err(|error| invalid(error.to_string()))?;
    let prefix = query.prefix.unwrap_or_default();
    let page = app.raft.state(|state| {
        let mut found = state.sequences(&prefix, after.as_ref(), limit + 1);
        let more = found.len() > limit;
        found.truncate(limit);
        let last = found
            .last()
            .filter(|_| more)
            .map(|(name, _)| cursor::behind(name.as_str()));
        let items = found
            .into_iter()
            .map(|(name, record)| shown(name, record))
            .collect();
        seqd_api::Page {
            items,
            next_cursor: last,
        }
    });
    Answer::json(&page)
}

/// `GET /v1/sequences/{name}`
pub(crate) async fn get(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let query: GetSequenceQuery = ask.decode()?;
    let name = name_of(&ask)?;
    let record = if query.stale.unwrap_or(false) {
        local(&app, &name).ok_or_else(|| refusals::no_sequence(name.as_str()))?
    } else {
        current(&app, &name, ask.deadline).await?
    };
    Ok(Answer::json(&shown(&name, &record))?.with_etag(record.revision.0))
}

/// `PUT /v1/sequences/{name}`
pub(crate) async fn put(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let spec: SequenceSpec = ask.decode()?;
    let name = name_of(&ask)?;
    if spec.start.is_none() {
        demand_start(&app, &ask, &name).await?;
    }
    let definition = definition_of(&app, spec)?;
    let command = Command::Sequences(SequenceCommand::Create {
        name: name.clone(),
        definition,
    });
    let (created, revision) = match propose(&app, &ask, command).await? {
        Outcome::Sequences(SequenceOutcome::Created {
            created, revision, ..
        }) => (created, revision),
        other => return Err(unexpected(&other)),
    };
    // It is done; a barrier that fails may not turn that into an error, so look here first.
    let record = match local(&app, &name).filter(|record| record.revision >= revision) {
        Some(record) => record,
        None => current(&app, &name, ask.deadline)
            .await
            .map_err(|problem| {
                let detail = format!(
                    "the sequence exists, but could not be read: {}",
                    problem.detail
                );
                Problem::new(ErrorCode::OutcomeUnknown, detail)
            })?,
    };
    let status = if created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(Answer::json(&shown(&name, &record))?
        .with_status(status)
        .with_etag(revision.0))
}

/// In a restored cluster a name that the backup lacks may have been used since: nobody but the
/// caller can say from where on its values are new.
async fn demand_start(app: &App, ask: &Ask, name: &SequenceName) -> Result<(), Problem> {
    // A founded state says whether it was restored. A node that joins may have none yet.
    if !app.raft.state(State::is_founded) {
        let read = app.raft.read(ask.deadline).await;
        read.map_err(|error| refusals::propose(&error))?;
    }
    let is_needed = app
        .raft
        .state(|state| state.restoration().is_some() && state.sequence_or_deleted(name).is_none());
    if !is_needed {
        return Ok(());
    }
    let detail = format!(
        "start: this cluster was restored and its backup has no sequence {name}: one that was made \
         after the backup would begin again at its first value"
    );
    Err(invalid(detail).with_hint(
        "give the first value that was never handed out, or min (descending: max) if the name was \
         never used: seqd seq create NAME --start VALUE",
    ))
}

fn definition_of(app: &App, spec: SequenceSpec) -> Result<SequenceDefinition, Problem> {
    let SequenceSpec {
        mode,
        start,
        increment,
        min,
        max,
        cycle,
        segment,
        description,
    } = spec;
    let cycle = cycle.unwrap_or(false);
    let progression = Progression::with_defaults(start, increment, min, max, cycle)
        .map_err(|error| invalid(error.to_string()))?;
    let mode = match mode.unwrap_or_default() {
        Mode::Segment => SequenceMode::Segment,
        Mode::Strict => SequenceMode::Strict,
    };
    let segment = match (mode, segment) {
        (SequenceMode::Strict, Some(_)) => {
            return Err(invalid("segment: a strict sequence has no segments"));
        }
        (SequenceMode::Strict, None) => NO_SEGMENTS,
        (SequenceMode::Segment, given) => sizes_of(app, given.unwrap_or_default())?,
    };
    Ok(SequenceDefinition {
        mode,
        progression,
        segment,
        description: description.unwrap_or_default(),
    })
}

fn sizes_of(app: &App, spec: seqd_api::SegmentSpec) -> Result<SegmentSizes, Problem> {
    let defaults = &app.config.segment;
    let target = match spec.target.as_deref() {
        None => defaults.target,
        Some(text) => humantime::parse_duration(text).map_err(|error| {
            invalid(format!(
                "segment.target: {error}; a duration such as \"1m\""
            ))
        })?,
    };
    let target_ms = u64::try_from(target.as_millis()).unwrap_or(u64::MAX);
    // One bound given moves the other's default out of its way.
    let (min, max) = match (spec.min, spec.max) {
        (Some(min), Some(max)) => (min, max),
        (Some(min), None) => (min, defaults.max.max(min)),
        (None, Some(max)) => (defaults.min.min(max), max),
        (None, None) => (defaults.min, defaults.max),
    };
    Ok(SegmentSizes {
        target_ms,
        min,
        max,
    })
}

/// `DELETE /v1/sequences/{name}`
pub(crate) async fn delete(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let DeleteSequenceQuery {} = ask.decode()?;
    let name = name_of(&ask)?;
    let if_revision = if_match(&ask)?;
    let command = Command::Sequences(SequenceCommand::Delete {
        name: name.clone(),
        if_revision,
    });
    let epoch = match propose(&app, &ask, command).await? {
        Outcome::Sequences(SequenceOutcome::Deleted { epoch }) => epoch,
        other => return Err(unexpected(&other)),
    };
    app.segments.discard(&name, epoch);
    let unconfirmed = unconfirmed(&app, ask.deadline).await;
    Answer::json(&Deleted {
        name: name.as_str().to_owned(),
        unconfirmed,
    })
}

fn if_match(ask: &Ask) -> Result<Option<Revision>, Problem> {
    let Some(value) = ask.headers.get(IF_MATCH) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let bare = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .unwrap_or(text);
    let number = bare.parse::<u64>().map_err(|_| {
        Problem::new(
            ErrorCode::PreconditionFailed,
            format!("{text} is no revision of this sequence"),
        )
        .with_hint("If-Match takes the ETag of a GET")
    })?;
    Ok(Some(Revision(number)))
}

/// `POST /v1/sequences/{name}/advance`
pub(crate) async fn advance(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let AdvanceRequest { to } = ask.decode()?;
    let name = name_of(&ask)?;
    let command = Command::Sequences(SequenceCommand::Advance {
        name: name.clone(),
        to,
    });
    let (next, next_index, epoch) = match propose(&app, &ask, command).await? {
        Outcome::Sequences(SequenceOutcome::Advanced {
            next,
            next_index,
            epoch,
        }) => (next, next_index, epoch),
        other => return Err(unexpected(&other)),
    };
    app.segments.discard(&name, epoch);
    let unconfirmed = unconfirmed(&app, ask.deadline).await;
    let remaining =
        local(&app, &name).and_then(|record| record.definition.progression.remaining(next_index));
    Answer::json(&Advanced {
        name: name.as_str().to_owned(),
        next: Some(next),
        allocated: Some(next_index),
        remaining,
        unconfirmed,
    })
}

/// The members that have not shown to have applied what this node has: their buffers may still
/// hold values from before. Waits a moment for them first.
async fn unconfirmed(app: &App, deadline: Instant) -> Vec<String> {
    let until = deadline.min(Instant::now() + CONFIRM_WAIT);
    let is_here = app.raft.read(until).await.is_ok();
    let own = app.raft.status().applied;
    loop {
        let status = app.raft.status();
        let others = status
            .members
            .iter()
            .filter(|member| member.name != status.name);
        let mut missing: Vec<String> = others
            .filter(|member| !is_here || member.applied.is_none_or(|applied| applied < own))
            .map(|member| member.name.clone())
            .collect();
        let may_come = |name: &String| {
            status
                .members
                .iter()
                .any(|member| member.name == *name && member.reachable)
        };
        if !missing.iter().any(may_come) || Instant::now() >= until {
            missing.sort();
            return missing;
        }
        sleep(CONFIRM_LOOK).await;
    }
}
