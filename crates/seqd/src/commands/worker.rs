//! `seqd worker`: worker leases.

use clap::Subcommand;
use seqd_client::api::{ListQuery, WorkersQuery, exit};

use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// What to do with worker leases.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// All workers and the latest lease on each
    List {
        /// Only workers of this layout
        #[arg(long)]
        layout: Option<String>,
    },
}

pub(crate) async fn run(command: WorkerCommand, session: &Session) -> Result<u8, Failure> {
    let WorkerCommand::List { layout } = command;
    let limit = Some(ListQuery::MAX_LIMIT);
    let mut query = WorkersQuery {
        layout,
        limit,
        ..WorkersQuery::default()
    };
    let mut all = Vec::new();
    loop {
        let page = session.client.workers(&query).await?;
        all.extend(page.items);
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            break;
        }
    }
    let columns = [
        "layout",
        "id",
        "datacenter",
        "worker",
        "owner",
        "node",
        "lease",
        "live",
        "fence",
    ];
    let mut report = Report::list(&all)?.with_columns(&columns);
    for worker in all {
        report.row(vec![
            worker.layout,
            worker.id.to_string(),
            worker
                .datacenter
                .map_or_else(|| "-".to_owned(), |number| number.to_string()),
            worker.worker.to_string(),
            worker.owner,
            worker.node.unwrap_or_else(|| "-".to_owned()),
            worker.lease.to_string(),
            if worker.live { "yes" } else { "no" }.to_owned(),
            worker.fence_time,
        ]);
    }
    report.print(session.format)?;
    Ok(exit::OK)
}
