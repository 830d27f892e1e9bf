//! `seqd lock`: locks.

use std::time::Duration;

use clap::{Args, Subcommand};
use seqd_client::api::{
    AcquireRequest, BreakLockRequest, HeldLock, ListQuery, Lock, LockQuery, LocksQuery,
    ReleaseLockRequest, RenewLockRequest, VerifyLockRequest,
};

use super::pages;
use super::run_held::{self, LockRunArgs};
use crate::arguments::{self, millis};
use crate::display::or_dash;
use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// The operations on locks.
#[derive(Debug, Subcommand)]
pub(crate) enum LockCommand {
    /// Acquire a lock: prints the fencing token, and the lease with which to renew and release it
    Acquire(AcquireArgs),
    /// Extend the hold of a lock
    Renew {
        #[command(flatten)]
        held: HeldArgs,
        /// Time for which the lock is held from the renewal on, 100ms to 24h
        #[arg(long, value_parser = arguments::duration, default_value = "30s")]
        ttl: Duration,
    },
    /// Release a lock
    Release(HeldArgs),
    /// End the hold of another client as an operator: the next waiter gets the lock at once
    Break {
        /// Name of the lock
        name: String,
        /// Fencing token of the hold to end; all holds by default
        #[arg(long)]
        token: Option<u64>,
    },
    /// Check whether a fencing token belongs to a current hold of a lock
    Verify {
        /// Name of the lock
        name: String,
        /// Fencing token, as `lock acquire` printed it
        #[arg(long)]
        token: u64,
        /// Required owner of the hold; any owner by default
        #[arg(long)]
        owner: Option<String>,
    },
    /// Run a command while a lock is held, and end it when the lock is lost. The command's
    /// environment contains the name of the lock in SEQD_LOCK_NAME and the fencing token in
    /// SEQD_LOCK_TOKEN
    Run(LockRunArgs),
    /// List all locks in use
    List {
        /// Only locks whose names begin with this prefix
        #[arg(long)]
        prefix: Option<String>,
    },
    /// Show the holders and waiters of a lock
    Get {
        /// Name of the lock
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AcquireArgs {
    /// Name of the lock
    name: String,
    /// Owner of the hold: a host, pod or service name
    #[arg(long)]
    owner: String,
    /// Time for which the lock is held without a renewal, 100ms to 24h
    #[arg(long, value_parser = arguments::duration, default_value = "30s")]
    ttl: Duration,
    /// Time to wait for the lock, at most 10m; no wait by default
    #[arg(long, value_parser = arguments::duration)]
    wait: Option<Duration>,
    /// Lease of the caller's current hold, which is entered again: the later deadline applies
    #[arg(long)]
    lease: Option<String>,
    /// Nonce of this request: a retry with the same nonce gets the same response. It is a secret;
    /// random by default
    #[arg(long)]
    nonce: Option<String>,
    /// Number of simultaneous holders, 1 to 1024; 1 by default
    #[arg(long)]
    permits: Option<u32>,
    /// Share the lock with other shared holders
    #[arg(long)]
    shared: bool,
    /// Time for which the lock is not granted after this hold expires without a release, at most 1m;
    /// 0s by default
    #[arg(long, value_parser = arguments::duration)]
    lock_delay: Option<Duration>,
}

/// The hold to renew or release.
#[derive(Debug, Args)]
pub(crate) struct HeldArgs {
    /// Name of the lock
    name: String,
    /// Lease, as `lock acquire` printed it
    #[arg(long)]
    lease: String,
}

pub(crate) async fn run(command: LockCommand, session: &Session) -> Result<u8, Failure> {
    let client = &session.client;
    match command {
        LockCommand::Acquire(args) => acquire(args, session).await,
        LockCommand::Renew { held, ttl } => {
            let request = RenewLockRequest {
                lease: Some(held.lease),
                ttl_ms: Some(millis(ttl)),
            };
            report(&client.renew_lock(&held.name, &request).await?, session)
        }
        LockCommand::Release(held) => {
            let request = ReleaseLockRequest {
                lease: Some(held.lease),
            };
            let released = client.release_lock(&held.name, &request).await?;
            let facts = vec![
                ("name", released.name.clone()),
                ("token", released.token.to_string()),
            ];
            session.print(&Report::facts(&released, facts)?)
        }
        LockCommand::Break { name, token } => break_holds(&name, token, session).await,
        LockCommand::Verify { name, token, owner } => {
            let token = Some(token);
            let request = VerifyLockRequest { owner, token };
            report(&client.verify_lock(&name, &request).await?, session)
        }
        LockCommand::Run(args) => run_held::lock(args, session).await,
        LockCommand::List { prefix } => list(prefix, session).await,
        LockCommand::Get { name } => get(&name, session).await,
    }
}

async fn acquire(args: AcquireArgs, session: &Session) -> Result<u8, Failure> {
    let request = AcquireRequest {
        owner: Some(args.owner),
        ttl_ms: Some(millis(args.ttl)),
        wait_ms: args.wait.map(millis),
        lease: args.lease,
        nonce: args.nonce,
        permits: args.permits,
        shared: args.shared.then_some(true),
        lock_delay_ms: args.lock_delay.map(millis),
    };
    let held = session.client.acquire_lock(&args.name, &request).await?;
    report(&held, session)
}

fn report(held: &HeldLock, session: &Session) -> Result<u8, Failure> {
    let mut facts = vec![
        ("name", held.name.clone()),
        ("owner", held.owner.clone()),
        ("token", held.token.to_string()),
    ];
    facts.extend(held.lease.iter().map(|lease| ("lease", lease.clone())));
    facts.push(("expires_in_ms", held.expires_in_ms.to_string()));
    session.print(&Report::facts(held, facts)?)
}

async fn break_holds(name: &str, token: Option<u64>, session: &Session) -> Result<u8, Failure> {
    let request = BreakLockRequest { token };
    // The server checks the request and describes its effect.
    let plan = session.client.dry_run().break_lock(name, &request).await?;
    if let Some(code) = session.agreed(&plan)? {
        return Ok(code);
    }
    let broken = session.client.break_lock(name, &request).await?;
    session.note(&format!("ended {} holds of the lock {name}", broken.ended));
    let mut report = Report::new(&broken)?.with_columns("owner token");
    for hold in &broken.holders {
        report.row(vec![hold.owner.clone(), hold.token.to_string()]);
    }
    session.print(&report)
}

/// The holder whose hold ends first, or dashes.
fn row(lock: &Lock) -> Vec<String> {
    let first = lock.holders.first();
    let shared = lock.holders.iter().any(|holder| holder.shared);
    let permits = match shared {
        true => "shared".to_owned(),
        false => or_dash(lock.permits),
    };
    vec![
        lock.name.clone(),
        or_dash(first.map(|holder| &holder.owner)),
        or_dash(first.map(|holder| holder.token)),
        or_dash(first.map(|holder| holder.expires_in_ms)),
        lock.held.to_string(),
        permits,
        lock.waiting.to_string(),
    ]
}

async fn list(prefix: Option<String>, session: &Session) -> Result<u8, Failure> {
    let query = LocksQuery {
        prefix,
        limit: Some(ListQuery::MAX_LIMIT),
        ..LocksQuery::default()
    };
    let all = pages::all(query, async |query| session.client.locks(query).await).await?;
    let columns = "name owner token expires_in_ms held permits waiting";
    let mut report = Report::list(&all)?.with_columns(columns);
    for lock in &all {
        report.row(row(lock));
    }
    session.print(&report)
}

/// Prints one line per holder, then one line per waiter.
async fn get(name: &str, session: &Session) -> Result<u8, Failure> {
    let lock = session.client.lock(name, &LockQuery::default()).await?;
    let mut report = Report::new(&lock)?.with_columns("what owner token ms shared");
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    for holder in &lock.holders {
        report.row(vec![
            "holds".to_owned(),
            holder.owner.clone(),
            holder.token.to_string(),
            holder.expires_in_ms.to_string(),
            yes(holder.shared),
        ]);
    }
    for waiter in &lock.waiters {
        report.row(vec![
            "waits".to_owned(),
            waiter.owner.clone(),
            "-".to_owned(),
            waiter.waits_ms.to_string(),
            yes(waiter.shared),
        ]);
    }
    if lock.delayed_ms > 0 {
        let delayed = lock.delayed_ms.to_string();
        let cells = ["delayed", "-", "-", &delayed, "-"];
        report.row(cells.map(str::to_owned).into());
    }
    session.print(&report)
}
