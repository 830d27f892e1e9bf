//! `seqd elect`: one of many runs. An election is a lock, and who holds it is elected.

use std::time::Duration;

use clap::Subcommand;
use seqd_client::api::{Lock, LockQuery, exit};

use super::run_held::{self, ElectRunArgs};
use crate::failure::Failure;
use crate::output::{Reader, Report, reader_of_stdout, write_stdout};
use crate::session::Session;

/// How long one request waits for another holder: as often it is looked whether somebody reads.
const ROUND_MS: u64 = 5_000;

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
        /// Go on, and print each change
        #[arg(long)]
        watch: bool,
    },
}

pub(crate) async fn run(command: ElectCommand, session: &Session) -> Result<u8, Failure> {
    match command {
        ElectCommand::Run(args) => run_held::elect(args, session).await,
        ElectCommand::Show { name, watch: false } => {
            let lock = session.client.lock(&name, &LockQuery::default()).await?;
            print(&lock, session)?;
            Ok(exit::OK)
        }
        ElectCommand::Show { name, watch: true } => watch(&name, session).await,
    }
}

/// Prints who is elected.
fn print(lock: &Lock, session: &Session) -> Result<Reader, Failure> {
    let elected = lock.holders.first();
    let mut report = Report::new(&elected)?.with_columns(&["elected", "token", "waiting"]);
    report.row(vec![
        elected.map_or_else(|| "-".to_owned(), |holder| holder.owner.clone()),
        token_of(lock).to_string(),
        lock.waiting.to_string(),
    ]);
    write_stdout(&report.text(session.format))
}

/// The token of the hold; 0 of none.
fn token_of(lock: &Lock) -> u64 {
    lock.holders.first().map_or(0, |holder| holder.token)
}

/// Prints each change until nobody reads it any more.
async fn watch(name: &str, session: &Session) -> Result<u8, Failure> {
    let lock = session.client.lock(name, &LockQuery::default()).await?;
    let mut token = token_of(&lock);
    let mut reader = print(&lock, session)?;
    while reader == Reader::There && reader_of_stdout() == Reader::There {
        let query = LockQuery {
            other_than: Some(token),
            wait_ms: Some(ROUND_MS),
            ..LockQuery::default()
        };
        match session.client.lock(name, &query).await {
            // Unchanged after the wait.
            Ok(lock) if token_of(&lock) == token => {}
            Ok(lock) => {
                token = token_of(&lock);
                reader = print(&lock, session)?;
            }
            Err(error) => {
                session.note(&format!("{error}; asking again"));
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
    Ok(exit::OK)
}
