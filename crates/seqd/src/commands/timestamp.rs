//! `seqd timestamp`: timestamps that increase over all nodes.

use clap::Args;
use seqd_client::api::{Timestamps, TimestampsRequest};
use serde_json::json;

use crate::arguments;
use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// The options of the command.
#[derive(Debug, Args)]
pub(crate) struct TimestampArgs {
    /// Number of timestamps, 1 to 100000; 1 by default
    #[arg(short = 'n', long, allow_negative_numbers = true, value_parser = arguments::number)]
    count: Option<u64>,
}

pub(crate) async fn run(args: TimestampArgs, session: &Session) -> Result<u8, Failure> {
    let request = TimestampsRequest { count: args.count };
    let answer = session.client.timestamps(&request).await?;
    let received = answer.last.saturating_sub(answer.first).saturating_add(1);
    Failure::unless_count(received, args.count)?;
    let values: Vec<u64> = (answer.first..=answer.last).collect();
    let item = |value: &u64| json!({ "timestamp": value.to_string() });
    let mut report = Report::new(&answer)?
        .with_items(values.iter().map(item))?
        .with_columns("timestamp physical_ms")
        .with_people(values.iter().map(|value| format!("{value}\n")).collect());
    for value in values {
        let physical_ms = value >> Timestamps::COUNTER_BITS;
        report.row(vec![value.to_string(), physical_ms.to_string()]);
    }
    session.print(&report)
}
