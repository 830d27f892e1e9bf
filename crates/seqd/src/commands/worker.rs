//! `seqd worker`: worker leases.

use clap::{Args, Subcommand};
use seqd_client::api::{
    Lease, LeaseRequest, ListQuery, ReleaseRequest, RenewRequest, WorkersQuery, exit,
};

use super::pages;
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
        /// The leases that are over and whose workers were granted again
        #[arg(long)]
        past: bool,
    },
    /// Take a worker for a generator of your own: its IDs have ticks from the first up to the fence
    Lease {
        /// Who takes it: a host, pod or service name
        #[arg(long)]
        owner: String,
        /// The layout
        #[arg(long, default_value = "default")]
        layout: String,
        /// The datacenter, for a layout that has some
        #[arg(long)]
        datacenter: Option<u32>,
    },
    /// A later fence for a lease, asked for at a third of its window
    Renew(HeldArgs),
    /// Give a worker back
    Release {
        #[command(flatten)]
        held: HeldArgs,
        /// The last tick in which an ID was made, by a generator that makes no more; without it the
        /// worker stays taken up to its fence
        #[arg(long)]
        last_tick: Option<u64>,
    },
    /// Let a node mint in the present again after its clock was ahead: it gives up the workers and the
    /// mark that lie in the future
    Reset {
        /// The node's name
        node: String,
    },
}

/// A lease, as it was answered.
#[derive(Debug, Args)]
pub(crate) struct HeldArgs {
    /// The whole worker field
    id: u32,
    /// The owner, as it was given for the lease
    #[arg(long)]
    owner: String,
    /// The lease, as it was answered
    #[arg(long)]
    lease: u128,
    /// The layout
    #[arg(long, default_value = "default")]
    layout: String,
}

pub(crate) async fn run(command: WorkerCommand, session: &Session) -> Result<u8, Failure> {
    let client = &session.client;
    match command {
        WorkerCommand::List { layout, past } => list(layout, past, session).await,
        WorkerCommand::Lease {
            owner,
            layout,
            datacenter,
        } => {
            let request = LeaseRequest {
                layout: Some(layout),
                owner: Some(owner),
                datacenter,
            };
            report(&client.lease_worker(&request).await?, session)
        }
        WorkerCommand::Renew(held) => {
            let request = RenewRequest {
                owner: Some(held.owner),
                lease: Some(held.lease),
            };
            let renewed = client.renew_worker(&held.layout, held.id, &request);
            report(&renewed.await?, session)
        }
        WorkerCommand::Release { held, last_tick } => {
            let request = ReleaseRequest {
                owner: Some(held.owner),
                lease: Some(held.lease),
                last_tick,
            };
            let released = client.release_worker(&held.layout, held.id, &request);
            let released = released.await?;
            let facts = vec![
                ("layout", released.layout.clone()),
                ("id", released.id.to_string()),
                ("fence", released.fence_time.clone()),
                ("fence_tick", released.fence_tick.to_string()),
            ];
            Report::facts(&released, facts)?.print(session.format)?;
            Ok(exit::OK)
        }
        WorkerCommand::Reset { node } => reset(&node, session).await,
    }
}

fn report(lease: &Lease, session: &Session) -> Result<u8, Failure> {
    let facts = vec![
        ("layout", lease.layout.name.clone()),
        ("id", lease.id.to_string()),
        ("owner", lease.owner.clone()),
        ("lease", lease.lease.to_string()),
        ("from_tick", lease.from_tick.to_string()),
        ("fence_tick", lease.fence_tick.to_string()),
        ("fence", lease.fence_time.clone()),
        ("renew_after_ms", lease.renew_after_ms.to_string()),
    ];
    Report::facts(lease, facts)?.print(session.format)?;
    Ok(exit::OK)
}

async fn reset(node: &str, session: &Session) -> Result<u8, Failure> {
    let plan = session.client.dry_run().reset_workers(node).await?;
    if let Some(code) = pages::agreed(&plan, session)? {
        return Ok(code);
    }
    let reset = session.client.reset_workers(node).await?;
    let mut report = Report::new(&reset)?
        .with_columns(&["name", "layout", "workers", "until", "free"])
        .with_people(match reset.layouts.is_empty() {
            true => format!("{node}: nothing was reset\n"),
            false => format!("{node} resets its workers once it runs and has applied this\n"),
        });
    for of in &reset.layouts {
        let workers: Vec<String> = of.workers.iter().map(u32::to_string).collect();
        report.row(vec![
            reset.name.clone(),
            of.layout.clone(),
            workers.join(","),
            of.until.clone(),
            of.free.to_string(),
        ]);
    }
    report.print(session.format)?;
    Ok(exit::OK)
}

async fn list(layout: Option<String>, past: bool, session: &Session) -> Result<u8, Failure> {
    let limit = Some(ListQuery::MAX_LIMIT);
    let mut query = WorkersQuery {
        layout,
        past: past.then_some(true),
        limit,
        ..WorkersQuery::default()
    };
    let page = async |cursor| {
        query.cursor = cursor;
        session.client.workers(&query).await
    };
    let all = pages::all(page).await?;
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
