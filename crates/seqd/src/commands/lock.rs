//! `seqd lock`: locks.

use std::time::Duration;

use clap::{Args, Subcommand};
use seqd_client::api::{
    AcquireRequest, BreakLockRequest, HeldLock, ListQuery, Lock, LockQuery, LocksQuery,
    ReleaseLockRequest, RenewLockRequest, VerifyLockRequest, exit,
};

use super::pages;
use super::run_held::{self, LockRunArgs};
use crate::arguments;
use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// What to do with locks.
#[derive(Debug, Subcommand)]
pub(crate) enum LockCommand {
    /// Hold a lock: prints the token of the grant, and the lease that renews and releases it
    Acquire(AcquireArgs),
    /// Hold it longer
    Renew {
        #[command(flatten)]
        held: HeldArgs,
        /// How long it is held from now on
        #[arg(long, value_parser = arguments::duration, default_value = "30s")]
        ttl: Duration,
    },
    /// Release a lock
    Release(HeldArgs),
    /// End the hold of another client, as an operator: the next waiter holds the lock at once
    Break {
        /// The lock
        name: String,
        /// The token of the one hold that ends; all holds without it
        #[arg(long)]
        token: Option<u64>,
    },
    /// Whether a token holds a lock
    Verify {
        /// The lock
        name: String,
        /// The token, as it was answered
        #[arg(long)]
        token: u64,
        /// Its owner; any without it
        #[arg(long)]
        owner: Option<String>,
    },
    /// Run a command while a lock is held, and end it when the lock is lost. Its variables
    /// SEQD_LOCK_NAME and SEQD_LOCK_TOKEN have the lock and the token of the grant
    Run(LockRunArgs),
    /// All locks that are in use
    List {
        /// Only names that begin with this
        #[arg(long)]
        prefix: Option<String>,
    },
    /// One lock: who holds it, and who waits
    Get {
        /// The lock
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AcquireArgs {
    /// The lock
    name: String,
    /// Who takes it: a host, pod or service name
    #[arg(long)]
    owner: String,
    /// How long it is held without a renewal
    #[arg(long, value_parser = arguments::duration, default_value = "30s")]
    ttl: Duration,
    /// How long to wait for it; not at all without it
    #[arg(long, value_parser = arguments::duration)]
    wait: Option<Duration>,
    /// The lease of a hold that is entered again: the longer time applies
    #[arg(long)]
    lease: Option<String>,
    /// Nonce of this request: a retry with the same nonce gets the same response. It is a secret;
    /// random by default
    #[arg(long)]
    nonce: Option<String>,
    /// How many hold the lock at once
    #[arg(long)]
    permits: Option<u32>,
    /// Together with others that share it
    #[arg(long)]
    shared: bool,
    /// For how long nobody is granted the lock if this hold runs out
    #[arg(long, value_parser = arguments::duration)]
    lock_delay: Option<Duration>,
}

/// A hold, as it was answered.
#[derive(Debug, Args)]
pub(crate) struct HeldArgs {
    /// The lock
    name: String,
    /// The lease, as `lock acquire` printed it
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
            Report::facts(&released, facts)?.print(session.format)?;
            Ok(exit::OK)
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

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn report(held: &HeldLock, session: &Session) -> Result<u8, Failure> {
    let mut facts = vec![
        ("name", held.name.clone()),
        ("owner", held.owner.clone()),
        ("token", held.token.to_string()),
    ];
    if let Some(lease) = &held.lease {
        facts.push(("lease", lease.clone()));
    }
    facts.push(("expires_in_ms", held.expires_in_ms.to_string()));
    Report::facts(held, facts)?.print(session.format)?;
    Ok(exit::OK)
}

async fn break_holds(name: &str, token: Option<u64>, session: &Session) -> Result<u8, Failure> {
    let request = BreakLockRequest { token };
    // The server's own check, and its words.
    let plan = session.client.dry_run().break_lock(name, &request).await?;
    if let Some(code) = pages::agreed(&plan, session)? {
        return Ok(code);
    }
    let broken = session.client.break_lock(name, &request).await?;
    session.note(&format!("ended {} holds of the lock {name}", broken.ended));
    let mut report = Report::new(&broken)?.with_columns(&["owner", "token"]);
    for hold in &broken.holders {
        report.row(vec![hold.owner.clone(), hold.token.to_string()]);
    }
    report.print(session.format)?;
    Ok(exit::OK)
}

const COLUMNS: [&str; 7] = [
    "name",
    "owner",
    "token",
    "expires_in_ms",
    "held",
    "permits",
    "waiting",
];

/// The one that ends first, or blanks.
fn row(lock: &Lock) -> Vec<String> {
    let first = lock.holders.first();
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let shared = lock.holders.iter().any(|holder| holder.shared);
    let permits = lock.permits.map(|permits| permits.to_string());
    vec![
        lock.name.clone(),
        or_none(first.map(|holder| holder.owner.clone())),
        or_none(first.map(|holder| holder.token.to_string())),
        or_none(first.map(|holder| holder.expires_in_ms.to_string())),
        lock.held.to_string(),
        or_none(if shared {
            Some("shared".to_owned())
        } else {
            permits
        }),
        lock.waiting.to_string(),
    ]
}

async fn list(prefix: Option<String>, session: &Session) -> Result<u8, Failure> {
    let mut query = LocksQuery {
        prefix,
        limit: Some(ListQuery::MAX_LIMIT),
        ..LocksQuery::default()
    };
    let page = async |cursor| {
        query.cursor = cursor;
        session.client.locks(&query).await
    };
    let all = pages::all(page).await?;
    let mut report = Report::list(&all)?.with_columns(&COLUMNS);
    for lock in &all {
        report.row(row(lock));
    }
    report.print(session.format)?;
    Ok(exit::OK)
}

/// A line for each that holds it, then one for each that waits.
async fn get(name: &str, session: &Session) -> Result<u8, Failure> {
    let lock = session.client.lock(name, &LockQuery::default()).await?;
    let columns = ["what", "owner", "token", "ms", "shared"];
    let mut report = Report::new(&lock)?.with_columns(&columns);
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
        let blank = || "-".to_owned();
        report.row(vec![
            "delayed".to_owned(),
            blank(),
            blank(),
            lock.delayed_ms.to_string(),
            blank(),
        ]);
    }
    report.print(session.format)?;
    Ok(exit::OK)
}
