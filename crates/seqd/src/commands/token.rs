//! `seqd token`: one-time tokens.

use std::time::Duration;

use clap::Subcommand;
use seqd_client::api::{ConsumeToken, IssueTokens, exit};

use super::key::{millis, nonce_or_drawn};
use crate::arguments;
use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// What to do with one-time tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make tokens, one a line; they are shown once
    Issue {
        /// How many, 1 to 1000
        #[arg(long, value_parser = arguments::number, value_name = "N")]
        count: Option<u64>,
        /// How long they live, 1s to 30d; a day without it
        #[arg(long, value_parser = arguments::duration)]
        ttl: Option<Duration>,
    },
    /// Consume a token; whoever else tries is told that it is used (exit code 6)
    Consume {
        /// The token
        token: String,
        /// The same in each repetition: who consumed it is told so again; drawn without it
        #[arg(long)]
        nonce: Option<String>,
    },
}

pub(crate) async fn run(command: TokenCommand, session: &Session) -> Result<u8, Failure> {
    match command {
        TokenCommand::Issue { count, ttl } => {
            let ttl_ms = millis(ttl);
            let request = IssueTokens { ttl_ms, count };
            let issued = session.client.issue_tokens(&request).await?;
            let mut report = Report::new(&issued)?.with_columns(&["token"]);
            let lines = issued.each().map(|token| format!("{token}\n")).collect();
            for token in issued.each() {
                report.row(vec![token.clone()]);
            }
            report.with_people(lines).print(session.format)?;
        }
        TokenCommand::Consume { token, nonce } => {
            let nonce = Some(nonce_or_drawn(nonce)?);
            let request = ConsumeToken { nonce };
            let consumed = session.client.consume_token(&token, &request).await?;
            session.note("consumed");
            if session.format.is_json() {
                Report::new(&consumed)?.print(session.format)?;
            }
        }
    }
    Ok(exit::OK)
}
