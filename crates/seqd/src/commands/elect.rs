//! `seqd elect`: elections, in which one of many candidates runs its command. An election is a
//! lock, and its holder is elected.

use std::time::Duration;

use clap::Subcommand;
use seqd_client::api::{Lock, LockQuery, exit};

use super::run_held::{self, ElectRunArgs};
use crate::display::or_dash;
use crate::failure::Failure;
use crate::output::{Reader, Report, reader_of_stdout, write_stdout};
use crate::session::Session;

/// The longest wait of one request for a change of the holder. After each request the command
/// checks whether stdout is still read.
const ROUND_MS: u64 = 5_000;

/// The pause after a failed request.
const AGAIN: Duration = Duration::from_secs(1);

/// The operations on elections.
#[derive(Debug, Subcommand)]
pub(crate) enum ElectCommand {
    /// Run for election, and run a command while elected: exactly one of all candidates runs its
    /// command
    Run(ElectRunArgs),
    /// Show the elected candidate
    Show {
        /// Name of the election
        name: String,
        /// Continue, and print each change
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

/// Prints the elected candidate.
fn print(lock: &Lock, session: &Session) -> Result<Reader, Failure> {
    let elected = lock.holders.first();
    let mut report = Report::new(&elected)?.with_columns("elected token waiting");
    report.row(vec![
        or_dash(elected.map(|holder| &holder.owner)),
        token_of(lock).to_string(),
        lock.waiting.to_string(),
    ]);
    write_stdout(&report.text(session.format))
}

/// The token of the hold, or 0 if no candidate is elected.
fn token_of(lock: &Lock) -> u64 {
    lock.holders.first().map_or(0, |holder| holder.token)
}

/// Prints each change until the reader of stdout closes it.
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
            // The wait ended without a change.
            Ok(lock) if token_of(&lock) == token => {}
            Ok(lock) => {
                token = token_of(&lock);
                reader = print(&lock, session)?;
            }
            Err(error) => {
                session.note(&format!("{error}; retrying"));
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
    Ok(exit::OK)
}
