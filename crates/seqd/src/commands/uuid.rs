//! `seqd uuid`: UUIDs of version 7 and 4.

use clap::Args;
use seqd_client::api::UuidQuery;
use serde_json::json;

use crate::arguments;
use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// The options of the command.
#[derive(Debug, Args)]
pub(crate) struct UuidArgs {
    /// Number of UUIDs, 1 to `http.max_count` (10000); 1 by default
    #[arg(short = 'n', long, allow_negative_numbers = true, value_parser = arguments::number)]
    count: Option<u64>,
    /// UUID version: 7 is ordered by time, 4 is random
    #[arg(
        id = "uuid_version",
        long = "version",
        value_name = "VERSION",
        default_value = "7"
    )]
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(["7", "4"]))]
    version: String,
}

pub(crate) async fn run(args: UuidArgs, session: &Session) -> Result<u8, Failure> {
    let version = if args.version == "4" { 4 } else { 7 };
    let query = UuidQuery {
        version: Some(version),
        count: args.count,
    };
    let (report, uuids) = if query.count.is_some() {
        let answer = session.client.uuids(&query).await?;
        (Report::new(&answer)?, answer.uuids)
    } else {
        let answer = session.client.uuid(&query).await?;
        (Report::new(&answer)?, vec![answer.uuid])
    };
    let report = report.with_items(uuids.iter().map(|uuid| json!({ "uuid": uuid })))?;
    session.print(&report.with_values("uuid", uuids))
}
