//! `seqd worker`: worker leases.

use clap::{Args, Subcommand};
use seqd_client::api::{
    Lease, LeaseRequest, ListQuery, ReleaseRequest, RenewRequest, WorkersQuery,
};

use super::pages;
use crate::display::or_dash;
use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// The operations on worker leases.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// List all workers with their latest leases
    List {
        /// Only workers of this layout
        #[arg(long)]
        layout: Option<String>,
        /// List ended leases whose workers were granted again
        #[arg(long)]
        past: bool,
    },
    /// Lease a worker for an external generator, which may use the ticks from from_tick up to the
    /// fence
    Lease {
        /// Owner of the lease: a host, pod or service name
        #[arg(long)]
        owner: String,
        /// Layout of the worker
        #[arg(long, default_value = "default")]
        layout: String,
        /// Datacenter, for a layout with datacenters
        #[arg(long)]
        datacenter: Option<u32>,
    },
    /// Extend the fence of a lease; due when a third of its window has passed
    Renew(HeldArgs),
    /// Release a worker
    Release {
        #[command(flatten)]
        held: HeldArgs,
        /// Last tick in which the generator minted an ID; it must mint no more. By default the
        /// worker stays unavailable up to its fence
        #[arg(long)]
        last_tick: Option<u64>,
    },
    /// Let a node whose clock was ahead mint at the present time again: it gives up its workers and
    /// its stored last tick, which lie in the future
    Reset {
        /// Name of the node
        node: String,
    },
}

/// The lease to renew or release.
#[derive(Debug, Args)]
pub(crate) struct HeldArgs {
    /// Worker ID: the whole worker field, datacenter bits included
    id: u32,
    /// Owner, as given to `worker lease`
    #[arg(long)]
    owner: String,
    /// Lease, as `worker lease` printed it
    #[arg(long)]
    lease: u128,
    /// Layout of the worker
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
            session.print(&Report::facts(&released, facts)?)
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
    session.print(&Report::facts(lease, facts)?)
}

async fn reset(node: &str, session: &Session) -> Result<u8, Failure> {
    let plan = session.client.dry_run().reset_workers(node).await?;
    if let Some(code) = session.agreed(&plan)? {
        return Ok(code);
    }
    let reset = session.client.reset_workers(node).await?;
    let mut report = Report::new(&reset)?
        .with_columns("name layout workers until free")
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
    session.print(&report)
}

async fn list(layout: Option<String>, past: bool, session: &Session) -> Result<u8, Failure> {
    let limit = Some(ListQuery::MAX_LIMIT);
    let query = WorkersQuery {
        layout,
        past: past.then_some(true),
        limit,
        ..WorkersQuery::default()
    };
    let all = pages::all(query, async |query| session.client.workers(query).await).await?;
    let columns = "layout id datacenter worker owner node lease live fence";
    let mut report = Report::list(&all)?.with_columns(columns);
    for worker in all {
        report.row(vec![
            worker.layout,
            worker.id.to_string(),
            or_dash(worker.datacenter),
            worker.worker.to_string(),
            worker.owner,
            or_dash(worker.node),
            worker.lease.to_string(),
            if worker.live { "yes" } else { "no" }.to_owned(),
            worker.fence_time,
        ]);
    }
    session.print(&report)
}
