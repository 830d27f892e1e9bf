//! `seqd id`: snowflake IDs.

use clap::Args;
use seqd_client::api::{Id, IdFormat, IdQuery};

use crate::arguments;
use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// The options of the command.
#[derive(Debug, Args)]
pub(crate) struct IdArgs {
    /// Number of IDs, 1 to `http.max_count` (10000); 1 by default
    #[arg(short = 'n', long, allow_negative_numbers = true, value_parser = arguments::number)]
    count: Option<u64>,
    /// Text form: dec, hex, b62 or crockford; dec by default
    #[arg(long, value_parser = |text: &str| text.parse::<IdFormat>())]
    format: Option<IdFormat>,
    /// Pad each ID with leading zeros to this width, 1 to 64
    #[arg(long, value_parser = arguments::number)]
    pad: Option<u64>,
    /// Layout of the IDs; by default the layout `default`
    #[arg(long)]
    layout: Option<String>,
}

pub(crate) async fn run(args: IdArgs, session: &Session) -> Result<u8, Failure> {
    let query = IdQuery {
        count: args.count,
        layout: args.layout,
        format: args.format.map(|format| format.to_string()),
        pad: args.pad,
        ..IdQuery::default()
    };
    let (report, ids) = if query.count.is_some() {
        let answer = session.client.ids(&query).await?;
        let items = answer.ids.iter().map(|id| Id {
            id: id.clone(),
            layout: answer.layout.clone(),
            worker: answer.worker,
            node: answer.node.clone(),
        });
        (Report::new(&answer)?.with_items(items)?, answer.ids)
    } else {
        let answer = session.client.id(&query).await?;
        (Report::new(&answer)?, vec![answer.id])
    };
    session.print(&report.with_values("id", ids))
}
