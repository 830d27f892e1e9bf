//! `seqd seq`: sequences.

use clap::{Args, Subcommand, ValueEnum};
use seqd_client::api::{
    AdvanceRequest, ListQuery, Mode, NextRequest, SegmentSpec, Sequence, SequenceSpec,
    SequencesQuery,
};
use serde_json::json;

use super::pages;
use crate::arguments;
use crate::display::or_dash;
use crate::failure::Failure;
use crate::format::Format;
use crate::output::{Report, table};
use crate::session::Session;

/// The operations on sequences.
#[derive(Debug, Subcommand)]
pub(crate) enum SeqCommand {
    /// List all sequences
    List {
        /// Only sequences whose names begin with this prefix
        #[arg(long)]
        prefix: Option<String>,
        /// Read the answering node's own state, which may lag behind
        #[arg(long)]
        stale: bool,
    },
    /// Show a sequence and its current state
    Get {
        /// Name of the sequence
        #[arg(value_parser = arguments::sequence_name)]
        name: String,
    },
    /// Create a sequence; succeeds without effect if an equal one exists
    Create(CreateArgs),
    /// Change the properties of a sequence that may change while it is in use; omitted ones keep
    /// their values
    Update(UpdateArgs),
    /// Allocate the next values, one per line
    Next {
        /// Name of the sequence
        #[arg(value_parser = arguments::sequence_name)]
        name: String,
        /// Number of values, 1 to 1000000; 1 by default
        #[arg(short = 'n', long, allow_negative_numbers = true, value_parser = arguments::number)]
        count: Option<u64>,
        /// All values in one contiguous range, or none
        #[arg(long)]
        contiguous: bool,
        /// Idempotency key: a retry with the same key gets the same values; at most 1000 values
        #[arg(long, value_name = "KEY", value_parser = arguments::idempotency_key)]
        idempotency_key: Option<String>,
    },
    /// Advance a sequence: its next value is the first one at or beyond TO
    Advance {
        /// Name of the sequence
        #[arg(value_parser = arguments::sequence_name)]
        name: String,
        /// Value to advance to
        #[arg(allow_negative_numbers = true, value_parser = arguments::value)]
        to: i64,
    },
    /// Delete a sequence; its definition and high-water mark are kept
    Delete {
        /// Name of the sequence
        #[arg(value_parser = arguments::sequence_name)]
        name: String,
    },
}

/// The definition of a sequence. Omitted fields are as in PostgreSQL's CREATE SEQUENCE.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Name of the sequence
    #[arg(value_parser = arguments::sequence_name)]
    name: String,
    /// Allocation mode; segment by default
    #[arg(long, value_enum)]
    mode: Option<ModeArg>,
    /// First value; --min by default, --max for a descending sequence
    #[arg(long, allow_negative_numbers = true, value_parser = arguments::value)]
    start: Option<i64>,
    /// Step, negative for a descending sequence; 1 by default
    #[arg(long, allow_negative_numbers = true, value_parser = arguments::value)]
    increment: Option<i64>,
    /// Smallest value; 1 by default, -2^63 for a descending sequence
    #[arg(long, allow_negative_numbers = true, value_parser = arguments::value)]
    min: Option<i64>,
    /// Largest value; 2^63-1 by default, -1 for a descending sequence
    #[arg(long, allow_negative_numbers = true, value_parser = arguments::value)]
    max: Option<i64>,
    /// Begin again at the end of the sequence
    #[arg(long)]
    cycle: bool,
    #[command(flatten)]
    segment: SegmentArgs,
    /// Note for people
    #[arg(long)]
    description: Option<String>,
}

/// The segments of a sequence.
#[derive(Debug, Args)]
struct SegmentArgs {
    /// Time for which a segment of a node should last, such as 1m
    #[arg(long)]
    segment_target: Option<String>,
    /// Smallest segment of a node, in values
    #[arg(long, value_parser = arguments::number)]
    segment_min: Option<u64>,
    /// Largest segment of a node, in values
    #[arg(long, value_parser = arguments::number)]
    segment_max: Option<u64>,
}

impl SegmentArgs {
    /// The sizes, if any is given.
    fn spec(self) -> Option<SegmentSpec> {
        let segment = SegmentSpec {
            target: self.segment_target,
            min: self.segment_min,
            max: self.segment_max,
        };
        (segment != SegmentSpec::default()).then_some(segment)
    }
}

/// The properties to change. Omitted ones keep their values.
#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// Name of the sequence
    #[arg(value_parser = arguments::sequence_name)]
    name: String,
    /// Largest value, which can only increase; for an ascending sequence that does not cycle
    #[arg(long, allow_negative_numbers = true, value_parser = arguments::value)]
    max: Option<i64>,
    /// Smallest value, which can only decrease; for a descending sequence that does not cycle
    #[arg(long, allow_negative_numbers = true, value_parser = arguments::value)]
    min: Option<i64>,
    #[command(flatten)]
    segment: SegmentArgs,
    /// Note for people
    #[arg(long)]
    description: Option<String>,
    /// Change it only if the definition still has this revision, as `seq get` prints it
    #[arg(long, value_name = "REVISION", value_parser = arguments::number)]
    if_revision: Option<u64>,
}

/// The allocation mode.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ModeArg {
    /// Each node allocates from a segment of its own
    Segment,
    /// Increasing across all nodes, through the log; a lost response or `seq advance` leaves a gap
    Strict,
    /// Increasing across all nodes, from the leader's memory; also has gaps when the leader fails
    Ordered,
}

pub(crate) async fn run(command: SeqCommand, session: &Session) -> Result<u8, Failure> {
    match command {
        SeqCommand::List { prefix, stale } => list(prefix, stale, session).await,
        SeqCommand::Get { name } => get(&name, session).await,
        SeqCommand::Create(args) => create(args, session).await,
        SeqCommand::Update(args) => update(args, session).await,
        SeqCommand::Next {
            name,
            count,
            contiguous,
            idempotency_key,
        } => {
            let request = NextRequest {
                count,
                contiguous: contiguous.then_some(true),
                expand: None,
            };
            next(&name, &request, idempotency_key.as_deref(), session).await
        }
        SeqCommand::Advance { name, to } => advance(&name, to, session).await,
        SeqCommand::Delete { name } => delete(&name, session).await,
    }
}

async fn list(prefix: Option<String>, stale: bool, session: &Session) -> Result<u8, Failure> {
    let query = SequencesQuery {
        prefix,
        stale: stale.then_some(true),
        limit: Some(ListQuery::MAX_LIMIT),
        cursor: None,
    };
    let all = pages::all(query, async |query| session.client.sequences(query).await).await?;
    session.print(&rows(Report::list(&all)?, &all))
}

async fn get(name: &str, session: &Session) -> Result<u8, Failure> {
    let sequence = session.client.sequence(name).await?;
    session.print(&one(&sequence)?)
}

async fn create(args: CreateArgs, session: &Session) -> Result<u8, Failure> {
    let segment = args.segment.spec();
    let spec = SequenceSpec {
        mode: args.mode.map(|mode| match mode {
            ModeArg::Segment => Mode::Segment,
            ModeArg::Strict => Mode::Strict,
            ModeArg::Ordered => Mode::Ordered,
        }),
        start: args.start,
        increment: args.increment,
        min: args.min,
        max: args.max,
        cycle: args.cycle.then_some(true),
        segment,
        description: args.description,
    };
    if let Some(trial) = session.trial() {
        return session.print_plan(&trial.create_sequence(&args.name, &spec).await?);
    }
    let created = session.client.create_sequence(&args.name, &spec).await?;
    let Sequence {
        name, mode, next, ..
    } = &created.sequence;
    let next = next.map_or_else(|| "none".to_owned(), |next| next.to_string());
    session.note(&if created.new {
        format!(
            "created the {} sequence {name}; its next value is {next}",
            mode.as_str()
        )
    } else {
        format!("{name} already exists with the same definition; its next value is {next}")
    });
    let kept = &created.sequence.description;
    if !created.new && spec.description.is_some_and(|asked| asked != *kept) {
        let command = format!("seqd seq update {name} --description");
        session.note(&format!(
            "its description is still {kept:?}: {command} changes it"
        ));
    }
    pages::print_created(&one(&created.sequence)?, session)
}

async fn update(args: UpdateArgs, session: &Session) -> Result<u8, Failure> {
    let (name, revision) = (&args.name, args.if_revision);
    let change = SequenceSpec {
        min: args.min,
        max: args.max,
        segment: args.segment.spec(),
        description: args.description,
        ..SequenceSpec::default()
    };
    if let Some(trial) = session.trial() {
        return session.print_plan(&trial.update_sequence(name, &change, revision).await?);
    }
    let sequence = session.client.update_sequence(name, &change, revision);
    let sequence = sequence.await?;
    session.note(&format!("{name} has revision {}", sequence.revision));
    pages::print_created(&one(&sequence)?, session)
}

async fn next(
    name: &str,
    request: &NextRequest,
    key: Option<&str>,
    session: &Session,
) -> Result<u8, Failure> {
    let answer = match key {
        Some(key) => session.client.next_once(name, request, key).await?,
        None => session.client.next(name, request).await?,
    };
    let counts = answer.ranges.iter().map(|range| range.count);
    Failure::unless_count(counts.fold(0, u64::saturating_add), request.count)?;
    let mut report = Report::new(&answer)?;
    let values: Vec<String> = answer.each().map(|value| value.to_string()).collect();
    if session.format == Format::Jsonl {
        report = report.with_items(values.iter().map(|value| json!({ "value": value })))?;
    }
    session.print(&report.with_values("value", values))
}

async fn advance(name: &str, to: i64, session: &Session) -> Result<u8, Failure> {
    let request = AdvanceRequest { to };
    if let Some(trial) = session.trial() {
        return session.print_plan(&trial.advance(name, &request).await?);
    }
    let answer = session.client.advance(name, &request).await?;
    warn_unconfirmed(&answer.unconfirmed, session);
    let next = or_dash(answer.next);
    let mut report = Report::new(&answer)?
        .with_columns("name next unconfirmed")
        .with_people(format!("{name}: the next value is {next}\n"));
    report.row(vec![
        answer.name.clone(),
        next,
        answer.unconfirmed.join(" "),
    ]);
    session.print(&report)
}

async fn delete(name: &str, session: &Session) -> Result<u8, Failure> {
    let plan = session.client.dry_run().delete_sequence(name).await?;
    if let Some(code) = session.agreed(&plan)? {
        return Ok(code);
    }
    let answer = session.client.delete_sequence(name).await?;
    warn_unconfirmed(&answer.unconfirmed, session);
    session.done(&format!("deleted {name}"), &answer)
}

fn warn_unconfirmed(members: &[String], session: &Session) {
    if !members.is_empty() {
        let names = members.join(", ");
        session.note(&format!(
            "not confirmed yet by {names}, which may still return older values"
        ));
    }
}

fn rows(report: Report, sequences: &[Sequence]) -> Report {
    let columns = "name mode next allocated remaining increment";
    let mut report = report.with_columns(columns);
    for sequence in sequences {
        report.row(vec![
            sequence.name.clone(),
            sequence.mode.as_str().to_owned(),
            or_dash(sequence.next),
            or_dash(sequence.allocated),
            or_dash(sequence.remaining),
            sequence.increment.to_string(),
        ]);
    }
    report
}

/// The report of one sequence. The table has one field per line.
fn one(sequence: &Sequence) -> Result<Report, Failure> {
    let mut fields = vec![
        ("name", sequence.name.clone()),
        ("mode", sequence.mode.as_str().to_owned()),
        ("start", sequence.start.to_string()),
        ("increment", sequence.increment.to_string()),
        ("min", sequence.min.to_string()),
        ("max", sequence.max.to_string()),
        ("cycle", sequence.cycle.to_string()),
        ("next", or_dash(sequence.next)),
        ("allocated", or_dash(sequence.allocated)),
        ("remaining", or_dash(sequence.remaining)),
        ("revision", sequence.revision.to_string()),
    ];
    if let Some(segment) = &sequence.segment {
        let text = format!(
            "lasts {}, {} to {} values",
            segment.target, segment.min, segment.max
        );
        fields.push(("segment", text));
    }
    if !sequence.description.is_empty() {
        fields.push(("description", sequence.description.clone()));
    }
    let lines = fields
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value]);
    let people = table(lines);
    Ok(rows(Report::new(sequence)?, std::slice::from_ref(sequence)).with_people(people))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_a_field_a_line_for_people_and_a_row_for_programs() {
        let sequence: Sequence = serde_json::from_str(
            r#"{"name":"order","mode":"strict","start":"1","increment":"1","min":"1",
            "max":"9223372036854775807","cycle":false,"next":"3","allocated":"2",
            "remaining":"9223372036854775805"}"#,
        )
        .unwrap();
        let report = one(&sequence).unwrap();
        let people = "name       order\nmode       strict\nstart      1\nincrement  1\nmin        1\n\
                      max        9223372036854775807\ncycle      false\nnext       3\n\
                      allocated  2\nremaining  9223372036854775805\nrevision   0\n";
        assert_eq!(report.text(Format::Table), people);
        assert_eq!(
            report.text(Format::Plain),
            "order\tstrict\t3\t2\t9223372036854775805\t1\n"
        );
        assert_eq!(
            report.text(Format::Csv),
            "name,mode,next,allocated,remaining,increment\norder,strict,3,2,9223372036854775805,1\n"
        );
    }
}
