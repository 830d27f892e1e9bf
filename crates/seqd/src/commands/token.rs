//! `seqd token`: one-time tokens.

use std::time::Duration;

use clap::Subcommand;
use seqd_client::api::{ConsumeToken, IssueTokens, ListQuery, TokensQuery, exit};

use super::key::nonce_or_drawn;
use super::pages::{self, Listed};
use crate::arguments::{self, millis};
use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// The operations on one-time tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Issue one-time tokens, one per line; they are printed once
    Issue {
        /// Number of tokens, 1 to 1000; 1 by default
        #[arg(long, value_parser = arguments::number, value_name = "N")]
        count: Option<u64>,
        /// Lifetime of the tokens, 1s to 30d; 1d by default
        #[arg(long, value_parser = arguments::duration)]
        ttl: Option<Duration>,
    },
    /// Consume a one-time token; every other caller gets exit code 6, because it is used
    Consume {
        /// One-time token
        token: String,
        /// Nonce of this request: a retry with the same nonce gets the same response; random by
        /// default
        #[arg(long)]
        nonce: Option<String>,
    },
    /// List one-time tokens by their first 11 characters, with the tenant to which each is charged
    List {
        /// Only tokens that are charged to this tenant: operator, token:ID (`seqd access list`) or
        /// address:IP
        #[arg(long)]
        tenant: Option<String>,
        /// Largest number of tokens to print
        #[arg(long, value_parser = arguments::number, default_value = "1000")]
        limit: u64,
    },
    /// Delete one-time tokens as an operator: they can no longer be consumed
    Delete {
        /// First 11 characters of a token; without it, all tokens of --tenant
        #[arg(
            value_name = "ID",
            conflicts_with = "tenant",
            required_unless_present = "tenant"
        )]
        id: Option<String>,
        /// Delete all tokens that are charged to this tenant
        #[arg(long)]
        tenant: Option<String>,
    },
}

pub(crate) async fn run(command: TokenCommand, session: &Session) -> Result<u8, Failure> {
    match command {
        TokenCommand::Issue { count, ttl } => {
            let ttl_ms = ttl.map(millis);
            let request = IssueTokens { ttl_ms, count };
            let issued = session.client.issue_tokens(&request).await?;
            let report =
                Report::new(&issued)?.with_values("token", issued.each().cloned().collect());
            report.print(session.format)?;
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
        TokenCommand::List { tenant, limit } => return list(tenant, limit, session).await,
        TokenCommand::Delete { id: Some(id), .. } => return delete(&id, session).await,
        TokenCommand::Delete { tenant, .. } => return delete_matching(tenant, session).await,
    }
    Ok(exit::OK)
}

fn query(tenant: Option<String>) -> TokensQuery {
    TokensQuery {
        tenant,
        limit: Some(ListQuery::MAX_LIMIT),
        cursor: None,
    }
}

async fn list(tenant: Option<String>, limit: u64, session: &Session) -> Result<u8, Failure> {
    let query = query(tenant);
    let Listed { items, is_cut } = pages::up_to(limit, query, async |query| {
        session.client.one_time_tokens(query).await
    })
    .await?;
    let columns = "id used tenant expires_in_ms";
    let mut report = Report::list(&items)?.with_columns(columns);
    for token in items {
        report.row(vec![
            token.id,
            token.used.to_string(),
            token.tenant,
            token.expires_in_ms.to_string(),
        ]);
    }
    report.print(session.format)?;
    pages::note_cut(is_cut, limit, session);
    Ok(exit::OK)
}

/// The length of a token's public ID, in characters.
const ID_CHARS: usize = 11;

/// The length of a whole token, its ID and its secret, in characters.
const TOKEN_CHARS: usize = 33;

/// Refuses an invalid token ID without printing it: a whole token is a secret, and a request with
/// it would leave it in the logs of the node and of proxies.
fn check_id(text: &str) -> Result<(), Failure> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_plain && text.len() == ID_CHARS {
        return Ok(());
    }
    let refused = Failure::usage(format!(
        "the ID of a one-time token is its first {ID_CHARS} characters, letters and digits, and \
         {} characters were given",
        text.chars().count()
    ));
    Err(match text.split_at_checked(ID_CHARS) {
        Some((id, _)) if is_plain && text.len() == TOKEN_CHARS => {
            refused.with_hint(format!("seqd token delete {id}"))
        }
        _ => refused,
    })
}

async fn delete(id: &str, session: &Session) -> Result<u8, Failure> {
    check_id(id)?;
    // The server checks the request and describes its effect.
    let plan = session.client.dry_run().delete_one_time(id).await?;
    if let Some(code) = session.agreed(&plan)? {
        return Ok(code);
    }
    let deleted = session.client.delete_one_time(id).await?;
    session.done(&format!("deleted the one-time token {id}"), &deleted)
}

async fn delete_matching(tenant: Option<String>, session: &Session) -> Result<u8, Failure> {
    let query = query(tenant);
    let plan = session.client.dry_run().delete_all_one_time(&query).await?;
    let plan = pages::plan_of_all(plan);
    if let Some(code) = session.agreed(&plan)? {
        return Ok(code);
    }
    pages::delete("one-time tokens", session, query, async |query| {
        session.client.delete_all_one_time(query).await
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;

    #[test]
    fn a_whole_token_is_refused_and_only_its_id_is_printed() {
        let (id, secret) = ("00KhwLq8Q2a", "5VqRzYt7mNbXcLp0sDfGh3");
        assert!(check_id(id).is_ok());
        let refused = check_id(&format!("{id}{secret}")).unwrap_err();
        assert_eq!(refused.exit, exit::USAGE);
        let text = refused.text(Format::Json);
        assert!(
            text.contains(&format!("seqd token delete {id}\"")),
            "{text}"
        );
        assert!(!text.contains(secret), "{text}");
        for wrong in ["", "00KhwLq8Q2", "00KhwLq8Q2-", "\u{e9}0KhwLq8Q2"] {
            assert!(check_id(wrong).is_err(), "{wrong:?}");
        }
    }
}
