//! `seqd import`: creates the sequences of another system, or advances them, so that they begin
//! above every value that the other system can have issued.
//!
//! The whole file is read and checked before the first request. Every step moves forward only, so
//! an import can be interrupted and repeated.

mod delimited;
mod input;
mod inserts;
mod plan;
mod sql_tokens;
mod table;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use futures_util::StreamExt as _;
use futures_util::stream;
use seqd_client::api::{AdvanceRequest, ErrorCode, Mode, SequenceSpec, exit};
use serde::Serialize;
use tokio::time::sleep;

use crate::arguments;
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;
use crate::session::Session;
use input::MAX_FILE_BYTES;
use plan::{Rules, Step, System, Target};
use table::Refusal;

/// The number of requests in flight. The leader commits them in groups. An advance of a segment
/// sequence waits for the members' reports, which come once per second.
const IN_FLIGHT: usize = 64;

/// The number of times that a read is repeated, and that a step is planned again, because the
/// outcome is unknown or the cluster was unavailable. No step moves a sequence back, so every step
/// can be repeated.
const MAX_REPEATS: u32 = 8;

/// The pause before a repeat. Eight pauses outlast an election and the restart of a node.
const BEFORE_REPEAT: Duration = Duration::from_secs(1);

/// The number of times that a step is planned again because values were allocated after its plan.
/// Each time skips twice as many values, so that a busy sequence is overtaken.
const MAX_REPLANS: u32 = 12;

/// The number of values that the first new plan skips: the smallest segment of a node.
const FIRST_SKIP: i64 = 1000;

/// The systems from which sequences are imported.
#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    /// Import the table leaf_alloc of Leaf: a sequence begins at max_id plus the margin
    Leaf(ImportArgs),
    /// Import the table tiny_id_info of TinyID: a sequence begins at the first value above max_id
    /// plus the margin that leaves the remainder, and steps by delta
    Tinyid(ImportArgs),
    /// Import last used values (columns name, value and optionally increment), such as those of
    /// Redis's INCR
    Counters(ImportArgs),
}

/// The options of an import.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// CSV or TSV with a header, or INSERT statements of mysqldump; stdin by default or with -. At
    /// most 64 MiB and 100000 rows, because all rows are checked before the first change
    file: Option<PathBuf>,
    /// Mode of new sequences: strict by default for counters, otherwise segment. If it is given, an
    /// existing sequence must have it. To import into an ordered sequence, create it with `seqd seq
    /// create --mode ordered` first, and omit this option
    #[arg(long, value_enum)]
    mode: Option<ImportMode>,
    /// Number of values to leave free above those of the file (of counters: steps), because the
    /// old system issues more until it stops
    #[arg(long, value_name = "N", default_value = "0", value_parser = arguments::number)]
    margin: u64,
    /// Text to put before each name
    #[arg(long, value_name = "P", default_value = "")]
    prefix: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ImportMode {
    /// Each node issues values from its own range
    Segment,
    /// Values increase across all nodes; a lost response leaves a gap
    Strict,
}

#[derive(Debug, Clone, Copy)]
struct Modes {
    /// The mode of new sequences.
    new: Mode,
    /// The mode that existing sequences must have, if any.
    wanted: Option<Mode>,
}

/// A line of the result.
#[derive(Debug, Clone, Serialize)]
struct Imported {
    name: String,
    start: String,
    increment: String,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip)]
    line: u64,
    /// The members that may still return values from before the advance.
    #[serde(skip)]
    unconfirmed: Vec<String>,
}

impl Imported {
    fn new(target: &Target, result: &'static str) -> Self {
        Self {
            name: target.name.clone(),
            start: target.start.to_string(),
            increment: target.increment.to_string(),
            result,
            reason: None,
            line: target.line,
            unconfirmed: Vec::new(),
        }
    }

    fn refused(target: &Target, reason: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.into()),
            ..Self::new(target, REFUSED)
        }
    }
}

const EQUAL: &str = "equal";

const REFUSED: &str = "refused";

pub(crate) async fn run(command: ImportCommand, session: &Session) -> Result<u8, Failure> {
    let (system, args) = match command {
        ImportCommand::Leaf(args) => (System::Leaf, args),
        ImportCommand::Tinyid(args) => (System::TinyId, args),
        ImportCommand::Counters(args) => (System::Counters, args),
    };
    let mode = args.mode.map(|mode| match mode {
        ImportMode::Segment => Mode::Segment,
        ImportMode::Strict => Mode::Strict,
    });
    let targets = targets(&args, system)?;
    let find = async |target: &Target| {
        repeated(is_answered, async || step(target, mode, session).await).await
    };
    let steps = each(&targets, find, "read", session).await?;
    let steps: Vec<(&Target, Step)> = targets.iter().zip(steps).collect();
    if !session.is_dry_run && !agreed(&steps, session)? {
        return Ok(exit::OK);
    }
    let modes = Modes {
        new: mode.unwrap_or(system.mode()),
        wanted: mode,
    };
    let act = async |(target, step): &(&Target, Step)| import(target, step, modes, session).await;
    let results = each(&steps, act, "imported", session).await?;
    print(&results, session)
}

fn targets(args: &ImportArgs, system: System) -> Result<Vec<Target>, Failure> {
    let path = args.file.as_deref().filter(|path| *path != Path::new("-"));
    let label = path.map_or_else(|| "stdin".to_owned(), |path| path.display().to_string());
    let fail = |error: io::Error| Failure::failed(format!("cannot read {label}: {error}"));
    let input: Box<dyn io::Read> = match path {
        Some(path) => Box::new(File::open(path).map_err(fail)?),
        None => Box::new(io::stdin().lock()),
    };
    let mut bytes = Vec::new();
    let size = input.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    if size.map_err(fail)? as u64 > MAX_FILE_BYTES {
        let reason = format!("{label} has more than 64 MiB; split it, or export fewer columns");
        return Err(Failure::usage(reason));
    }
    let rules = Rules {
        prefix: &args.prefix,
        margin: args.margin,
    };
    let read = input::tables(&bytes, &system.schema()).map_err(|refusal| vec![refusal]);
    let targets = read.and_then(|tables| plan::targets(&tables, system, rules));
    targets.map_err(|refusals| Failure::usage(format!("{label}, {}", summary(&refusals))))
}

/// The most refused lines that a message names.
const MOST_NAMED: usize = 10;

fn summary(refusals: &[Refusal]) -> String {
    let named = refusals.iter().take(MOST_NAMED);
    let named = named.map(|refusal| format!("line {}: {}", refusal.line, refusal.reason));
    let mut parts: Vec<String> = named.collect();
    let more = refusals.len().saturating_sub(MOST_NAMED);
    if more > 0 {
        parts.push(format!("{more} more lines cannot be imported"));
    }
    parts.push("nothing was changed".to_owned());
    parts.join("; ")
}

/// Runs a request per item, several at a time, and returns the results in order.
async fn each<T, R>(
    items: &[T],
    work: impl AsyncFn(&T) -> Result<R, Failure>,
    done: &str,
    session: &Session,
) -> Result<Vec<R>, Failure> {
    let progress = Progress::of_items(items.len() as u64, session.is_quiet);
    let mut requests = stream::iter(items.iter())
        .map(|item| work(item))
        .buffered(IN_FLIGHT);
    let mut results = Vec::with_capacity(items.len());
    while let Some(result) = requests.next().await {
        match result {
            Ok(result) => results.push(result),
            Err(failure) => {
                let (count, all) = (results.len(), items.len());
                session.note(&format!(
                    "{count} of {all} sequences were {done}; the command can be repeated"
                ));
                return Err(failure);
            }
        }
        progress.at(results.len() as u64);
    }
    Ok(results)
}

/// Repeats a read, with pauses, while its failure is temporary.
async fn repeated<R>(
    is_temporary: fn(&Failure) -> bool,
    read: impl AsyncFn() -> Result<R, Failure>,
) -> Result<R, Failure> {
    for _ in 0..MAX_REPEATS {
        match read().await {
            Err(failure) if is_temporary(&failure) => sleep(BEFORE_REPEAT).await,
            result => return result,
        }
    }
    read().await
}

async fn step(target: &Target, mode: Option<Mode>, session: &Session) -> Result<Step, Failure> {
    match session.client.sequence(&target.name).await {
        Ok(found) => Ok(plan::step(target, Some(&found), mode)),
        Err(error) if error.exit() == exit::NOT_FOUND => Ok(plan::step(target, None, mode)),
        Err(error) => Err(error.into()),
    }
}

/// Prints the effect and asks for confirmation, unless nothing changes.
fn agreed(steps: &[(&Target, Step)], session: &Session) -> Result<bool, Failure> {
    let count = |is: fn(&Step) -> bool| steps.iter().filter(|(_, step)| is(step)).count();
    let changes = [
        ("creates", count(|step| matches!(step, Step::Create))),
        ("advances", count(|step| matches!(step, Step::Advance))),
        (
            "voids held ranges below START of",
            count(|step| matches!(step, Step::Discard(_))),
        ),
    ];
    if changes.iter().all(|(_, count)| *count == 0) {
        return Ok(true);
    }
    let refused = ("refuses", count(|step| matches!(step, Step::Refuse(_))));
    let effect: Vec<String> = changes
        .into_iter()
        .chain([refused])
        .filter(|(_, count)| *count > 0)
        .map(|(verb, count)| {
            let s = if count == 1 { "" } else { "s" };
            format!("{verb} {count} sequence{s}")
        })
        .collect();
    session.may_go_on(&format!(
        "{}; a sequence never goes back",
        effect.join(", ")
    ))
}

/// Applies a step. If other callers have moved the sequence beyond the planned value, the step is
/// planned again: such a sequence is not refused, and ranges below the start still become void.
async fn import(
    target: &Target,
    planned: &Step,
    modes: Modes,
    session: &Session,
) -> Result<Imported, Failure> {
    let plan_again =
        async || repeated(is_open, async || step(target, modes.wanted, session).await).await;
    let mut planned = planned.clone();
    let (mut replans, mut repeats) = (0, 0);
    loop {
        let failure = match apply(target, &planned, modes.new, session).await {
            Ok(imported) => return Ok(imported),
            Err(failure) => failure,
        };
        let is_passed = failure.code() == ErrorCode::WouldGoBackwards.as_str();
        if is_passed && replans < MAX_REPLANS {
            planned = plan_again().await?;
            if let Step::Discard(next) = &mut planned {
                let skipped = target.increment.saturating_mul(FIRST_SKIP << replans);
                *next = next.saturating_add(skipped);
            }
            replans += 1;
        } else if failure.exit == exit::CONFLICT || failure.exit == exit::USAGE {
            return Ok(Imported::refused(target, failure.detail()));
        } else if is_open(&failure) && repeats < MAX_REPEATS {
            repeats += 1;
            sleep(BEFORE_REPEAT).await;
            planned = plan_again().await?;
        } else {
            return Err(failure);
        }
    }
}

/// Returns whether a step may have failed temporarily, or may have taken effect.
fn is_open(failure: &Failure) -> bool {
    matches!(failure.exit, exit::UNAVAILABLE | exit::OUTCOME_UNKNOWN)
}

/// Returns whether a node answered that a read failed temporarily. The first reads are not repeated
/// without an answer, because the endpoints may be wrong.
fn is_answered(failure: &Failure) -> bool {
    is_open(failure) && !matches!(failure.code(), "unreachable" | "no-answer")
}

async fn apply(
    target: &Target,
    step: &Step,
    mode: Mode,
    session: &Session,
) -> Result<Imported, Failure> {
    match step {
        Step::Equal => Ok(Imported::new(target, EQUAL)),
        Step::Refuse(reason) => Ok(Imported::refused(target, reason)),
        Step::Create => Ok(Imported::new(target, create(target, mode, session).await?)),
        Step::Advance => Ok(Imported {
            unconfirmed: advance(target, target.start, session).await?,
            ..Imported::new(target, "advanced")
        }),
        Step::Discard(next) => Ok(Imported {
            unconfirmed: advance(target, *next, session).await?,
            ..Imported::new(target, EQUAL)
        }),
    }
}

async fn create(target: &Target, mode: Mode, session: &Session) -> Result<&'static str, Failure> {
    let spec = SequenceSpec {
        mode: Some(mode),
        start: Some(target.start),
        increment: Some(target.increment),
        min: (target.start < 1).then_some(target.start),
        ..SequenceSpec::default()
    };
    if let Some(trial) = session.trial() {
        trial.create_sequence(&target.name, &spec).await?;
        return Ok("created");
    }
    let created = session.client.create_sequence(&target.name, &spec).await?;
    Ok(if created.new { "created" } else { EQUAL })
}

/// Returns the members that have not confirmed the advance.
async fn advance(target: &Target, to: i64, session: &Session) -> Result<Vec<String>, Failure> {
    let request = AdvanceRequest { to };
    if let Some(trial) = session.trial() {
        trial.advance(&target.name, &request).await?;
        return Ok(Vec::new());
    }
    let answer = session.client.advance(&target.name, &request).await?;
    Ok(answer.unconfirmed)
}

fn print(results: &[Imported], session: &Session) -> Result<u8, Failure> {
    let columns = "name start increment result";
    let mut report = Report::list(results)?.with_columns(columns);
    for result in results {
        report.row(vec![
            result.name.clone(),
            result.start.clone(),
            result.increment.clone(),
            result.result.to_owned(),
        ]);
    }
    report.print(session.format)?;
    for result in results {
        if let Some(reason) = &result.reason {
            session.note(&format!("{}, line {}: {reason}", result.name, result.line));
        }
    }
    let open = results.iter().map(|result| &result.unconfirmed);
    let open = open.filter(|members| !members.is_empty());
    let members: BTreeSet<&str> = open.clone().flatten().map(String::as_str).collect();
    if !members.is_empty() {
        let (count, all) = (open.count(), results.len());
        let members: Vec<&str> = members.into_iter().collect();
        session.note(&format!(
            "{count} of {all} sequences are not confirmed yet by {}, which may still return older \
             values",
            members.join(", ")
        ));
    }
    if session.is_dry_run {
        session.note("dry run: nothing was changed");
    }
    let is_refused = results.iter().any(|result| result.result == REFUSED);
    Ok(if is_refused { exit::CONFLICT } else { exit::OK })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_read_during_an_election_is_repeated_after_pauses() {
        let election = || Failure::of(exit::UNAVAILABLE, "no-quorum", "no leader");
        let reads = Cell::new(0);
        let begun = tokio::time::Instant::now();
        let read = async || {
            reads.set(reads.get() + 1);
            if reads.get() < 4 {
                Err(election())
            } else {
                Ok(())
            }
        };
        assert!(repeated(is_answered, read).await.is_ok());
        assert_eq!(reads.get(), 4);
        assert!(begun.elapsed() >= 3 * BEFORE_REPEAT);

        let reads = Cell::new(0);
        let read = async || {
            reads.set(reads.get() + 1);
            Err::<(), _>(election())
        };
        assert!(repeated(is_open, read).await.is_err());
        assert_eq!(reads.get(), 1 + MAX_REPEATS);
        let refused = Failure::of(exit::UNAVAILABLE, "unreachable", "connection refused");
        assert!(is_open(&refused) && !is_answered(&refused));
    }
}
