//! `seqd access`: access tokens of programs and people.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use seqd_client::api::{ACCESS_MARK, CreateAccess, ListQuery, Permission, exit, validate_name};

use super::pages;
use crate::arguments;
use crate::display::or_dash;
use crate::failure::Failure;
use crate::output::Report;
use crate::private;
use crate::session::Session;

/// The operations on access tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum AccessCommand {
    /// Create a token; it is printed once, on stdout
    Create(CreateArgs),
    /// List all tokens with their permissions
    List,
    /// Revoke a token: every node refuses it from then on
    Revoke {
        /// ID of the token, as `access list` prints it
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Permissions, each of which includes the ones before it: read, allocate, admin. With a
    /// prefix, only for names that begin with it: allocate:order. Repeatable or comma-separated
    #[arg(
        long = "scope",
        required = true,
        value_delimiter = ',',
        value_name = "SCOPE[:PREFIX]"
    )]
    scopes: Vec<Permission>,
    /// Note for people, such as the owner of the token
    #[arg(long)]
    description: Option<String>,
    /// Lifetime, such as 90d, at most 3650d; unlimited by default
    #[arg(long, value_parser = arguments::duration)]
    ttl: Option<Duration>,
    /// Requests per second that each node serves for the token, 1 to 1000000; unlimited by default
    #[arg(long, value_parser = arguments::number, value_name = "N")]
    rate: Option<u64>,
    /// Write the token to a new file with mode 0600 instead of stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) async fn run(command: AccessCommand, session: &Session) -> Result<u8, Failure> {
    match command {
        AccessCommand::Create(args) => create(args, session).await,
        AccessCommand::List => list(session).await,
        AccessCommand::Revoke { id } => revoke(&id, session).await,
    }
}

async fn create(args: CreateArgs, session: &Session) -> Result<u8, Failure> {
    let too_many = |_| Failure::usage("--rate: must be 1 to 1000000 requests per second");
    for scope in &args.scopes {
        note_unfit(scope, session);
    }
    let request = CreateAccess {
        scopes: Some(args.scopes),
        description: args.description,
        ttl_ms: args.ttl.map(arguments::millis),
        per_second: args.rate.map(u32::try_from).transpose().map_err(too_many)?,
    };
    if let Some(trial) = session.trial() {
        let plan = trial.create_token(&request).await?;
        if let Some(path) = args.out.as_deref().filter(|path| path.exists()) {
            return Err(cannot_make(path, &std::io::ErrorKind::AlreadyExists.into()));
        }
        return session.print_plan(&plan);
    }
    // The file is created before the token: a token that cannot be stored would be lost.
    let file = args.out.as_deref().map(new_file).transpose()?;
    let created = match session.client.create_token(&request).await {
        Ok(created) => created,
        Err(error) => {
            if let Some(path) = &args.out {
                // The file is empty.
                let _ = std::fs::remove_file(path);
            }
            return Err(error.into());
        }
    };
    let listed = &created.listed;
    let until = listed.expires.as_deref().unwrap_or("it is revoked");
    session.note(&format!(
        "token {} permits {} until {until}; it is not shown again",
        listed.id,
        listed.scopes.join(", ")
    ));
    warn_unconfirmed(&created.unconfirmed, "refused", session);
    if let (Some(mut file), Some(path)) = (file, &args.out) {
        let line = format!("{}\n", created.token);
        let written = file
            .write_all(line.as_bytes())
            .and_then(|()| file.sync_all());
        written.map_err(|error| {
            let id = &listed.id;
            Failure::failed(format!("cannot write {}: {error}", path.display())).with_hint(format!(
                "the token was not stored: revoke it with `seqd access revoke {id}`"
            ))
        })?;
        let mut report = Report::new(listed)?
            .with_columns("id file")
            .with_people(format!("{}\n", path.display()));
        report.row(vec![listed.id.clone(), path.display().to_string()]);
        report.print(session.format)?;
        return Ok(exit::OK);
    }
    let mut report = Report::new(&created)?
        .with_columns("token id")
        .with_people(format!("{}\n", created.token));
    report.row(vec![created.token.clone(), listed.id.clone()]);
    session.print(&report)
}

/// Prints the members that have not confirmed the change and still act on the old state.
fn warn_unconfirmed(members: &[String], fate: &str, session: &Session) {
    if !members.is_empty() {
        let names = members.join(", ");
        session.note(&format!(
            "not confirmed yet by {names}: the token may still be {fate} there"
        ));
    }
}

/// Every prefix of a valid name is a valid name, so no name begins with an invalid prefix.
fn note_unfit(scope: &Permission, session: &Session) {
    if !scope.prefix.is_empty()
        && let Err(error) = validate_name(&scope.prefix)
    {
        session.note(&format!(
            "{scope}: only names of locks and keys can begin with this prefix, not names of \
             sequences: {error}"
        ));
    }
}

fn new_file(path: &Path) -> Result<std::fs::File, Failure> {
    let made = private::new_file(path, 0o600);
    made.map_err(|error| cannot_make(path, &error))
}

fn cannot_make(path: &Path, error: &std::io::Error) -> Failure {
    let text = std::io::Error::from(error.kind()).to_string();
    Failure::usage(format!("cannot make {}: {text}", path.display()))
}

async fn list(session: &Session) -> Result<u8, Failure> {
    let query = ListQuery {
        limit: Some(ListQuery::MAX_LIMIT),
        ..ListQuery::default()
    };
    let all = pages::all(query, async |query| session.client.tokens(query).await).await?;
    let columns = "id scopes rate created expires description";
    let mut report = Report::list(&all)?.with_columns(columns);
    for token in all {
        let expires = match (token.expires, token.expired) {
            (Some(at), true) => format!("{at} (expired)"),
            (Some(at), false) => at,
            (None, _) => "-".to_owned(),
        };
        let rate = token.per_second;
        report.row(vec![
            token.id,
            token.scopes.join(","),
            or_dash(rate.map(|rate| format!("{rate}/s"))),
            token.created,
            expires,
            token.description,
        ]);
    }
    session.print(&report)
}

/// Number of hexadecimal digits of an ID.
const ID_DIGITS: usize = 16;

/// Refuses a text that is no ID. It may be a secret, so it is neither sent nor printed.
fn check_id(text: &str) -> Result<(), Failure> {
    let is_id = |text: &str| {
        text.len() == ID_DIGITS
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    if is_id(text) {
        return Ok(());
    }
    let refused = Failure::usage(format!(
        "the ID of a token is {ID_DIGITS} hexadecimal digits, and {} characters were given",
        text.chars().count()
    ));
    let of_token = text
        .strip_prefix(ACCESS_MARK)
        .and_then(|rest| rest.split_once('_'));
    Err(match of_token {
        Some((id, _)) if is_id(id) => refused.with_hint(format!("seqd access revoke {id}")),
        _ => refused.with_hint("seqd access list"),
    })
}

async fn revoke(id: &str, session: &Session) -> Result<u8, Failure> {
    check_id(id)?;
    // The server checks the request and describes its effect.
    let plan = session.client.dry_run().revoke_token(id).await?;
    if let Some(code) = session.agreed(&plan)? {
        return Ok(code);
    }
    let revoked = session.client.revoke_token(id).await?;
    warn_unconfirmed(&revoked.unconfirmed, "let in", session);
    session.done(&format!("revoked {id}"), &revoked)
}
