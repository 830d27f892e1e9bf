//! `seqd elect`: one of many runs. An election is a lock, and who holds it is elected.

use std::time::Duration;

use clap::Subcommand;
use seqd_client::api::{LockQuery, exit};

use super::run_held::{self, ElectRunArgs};
use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// How long one request waits for another holder.
const ROUND_MS: u64 = 20_000;

/// The pause after a request that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// What to do with elections.
#[derive(Debug, Subcommand)]
pub(crate) enum ElectCommand {
    /// Run for it, and run a command while elected: exactly one of all that do so runs its command
    Run(ElectRunArgs),
    /// Who is elected
    Show {
        /// The election
        name: String,
        /// Go on, with a line for each change
        #[arg(long)]
        watch: bool,
    },
}

pub(crate) async fn run(command: ElectCommand, session: &Session) -> Result<u8, Failure> {
    match command {
        ElectCommand::Run(args) => run_held::elect(args, session).await,
        ElectCommand::Show { name, watch: false } => {
            show(&name, &LockQuery::default(), session).await?;
            Ok(exit::OK)
        }
        ElectCommand::Show { name, watch: true } => watch(&name, session).await,
    }
}

/// Prints who is elected; the token of the hold, 0 of none.
async fn show(name: &str, query: &LockQuery, session: &Session) -> Result<u64, Failure> {
    let lock = session.client.lock(name, query).await?;
    let elected = lock.holders.first();
    let mut report = Report::new(&elected)?.with_columns(&["elected", "token", "waiting"]);
    let token = elected.map_or(0, |holder| holder.token);
    report.row(vec![
        elected.map_or_else(|| "-".to_owned(), |holder| holder.owner.clone()),
        token.to_string(),
        lock.waiting.to_string(),
    ]);
    report.print(session.format)?;
    Ok(token)
}

async fn watch(name: &str, session: &Session) -> Result<u8, Failure> {
    let mut token = show(name, &LockQuery::default(), session).await?;
    loop {
        let query = LockQuery {
            other_than: Some(token),
            wait_ms: Some(ROUND_MS),
            ..LockQuery::default()
        };
        // Unchanged after the wait, it is not printed again.
        match session.client.lock(name, &query).await {
            Ok(lock) if lock.holders.first().map_or(0, |holder| holder.token) == token => {}
            Ok(_) => token = show(name, &LockQuery::default(), session).await?,
            Err(error) => {
                session.note(&format!("{error}; asking again"));
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}
