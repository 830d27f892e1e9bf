//! `seqd key`: idempotency keys.

use std::time::Duration;

use clap::{Args, Subcommand};
use seqd_client::api::{BeginKey, GetKeyQuery, JsonText, KeyEnded, KeysQuery, ListQuery, exit};

use super::pages::{self, Listed};
use crate::arguments::{self, millis};
use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// The operations on idempotency keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Begin a key: returns a claim if the caller is the first (state first), or the stored result
    /// (state done)
    Begin(BeginArgs),
    /// Store the result of a key; every later `key begin` returns it
    Complete {
        /// Name of the key
        #[arg(value_name = "KEY")]
        name: String,
        /// Claim, as `key begin` printed it
        #[arg(long)]
        claim: String,
        /// Result as JSON, at most 16 KiB
        #[arg(long, default_value = "null", value_name = "JSON", value_parser = json)]
        result: JsonText,
    },
    /// End a claim without a result: the next caller gets a claim at once
    Abandon {
        /// Name of the key
        #[arg(value_name = "KEY")]
        name: String,
        /// Claim, as `key begin` printed it
        #[arg(long)]
        claim: String,
    },
    /// Show the state of a key
    Get {
        /// Name of the key
        #[arg(value_name = "KEY")]
        name: String,
        /// Read the answering node's own state, which may lag behind
        #[arg(long)]
        stale: bool,
    },
    /// List keys, with the tenant to which each is charged
    List {
        #[command(flatten)]
        which: WhichKeys,
        /// Largest number of keys to print
        #[arg(long, value_parser = arguments::number, default_value = "1000")]
        limit: u64,
    },
    /// Delete keys as an operator: the next caller that begins one of them gets a claim
    Delete {
        /// Name of the key; without it, all keys that --prefix and --tenant select
        #[arg(value_name = "KEY", conflicts_with_all = ["prefix", "tenant", "requests", "all"],
              required_unless_present_any = ["prefix", "tenant", "all"])]
        name: Option<String>,
        #[command(flatten)]
        which: WhichKeys,
        /// The keys of all tenants, or all keys of --tenant
        #[arg(long, conflicts_with = "prefix")]
        all: bool,
    },
}

/// The selection of keys to list or delete.
#[derive(Debug, Args)]
pub(crate) struct WhichKeys {
    /// Only keys that begin with this prefix
    #[arg(long)]
    prefix: Option<String>,
    /// Only keys that are charged to this tenant: operator, token:ID (`seqd access list`) or
    /// address:IP
    #[arg(long)]
    tenant: Option<String>,
    /// Keys of requests with an Idempotency-Key header, instead of keys from `key begin`
    #[arg(long)]
    requests: bool,
}

impl WhichKeys {
    /// Selects all keys if `all` is set. Refuses an empty prefix, because a script may have lost
    /// its prefix.
    fn or_all(mut self, all: bool) -> Result<Self, Failure> {
        if self.prefix.as_deref() == Some("") {
            let detail = "--prefix is empty, which selects all keys";
            return Err(Failure::usage(detail).with_hint("add a prefix, or use --all instead"));
        }
        if all && self.tenant.is_none() {
            self.prefix = Some(String::new());
        }
        Ok(self)
    }

    fn query(self) -> KeysQuery {
        KeysQuery {
            prefix: self.prefix,
            tenant: self.tenant,
            requests: self.requests.then_some(true),
            limit: Some(ListQuery::MAX_LIMIT),
            cursor: None,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct BeginArgs {
    /// Name of the key: 1 to 255 printable ASCII characters
    #[arg(value_name = "KEY")]
    name: String,
    /// Lifetime of the key, 1s to 30d; 1d by default
    #[arg(long, value_parser = arguments::duration)]
    ttl: Option<Duration>,
    /// Time for which the claim is exclusive to the caller, 100ms to 24h; 1m by default
    #[arg(long, value_parser = arguments::duration)]
    claim_ttl: Option<Duration>,
    /// Fingerprint of the work, such as a hash of the request, at most 128 bytes; the same key with
    /// another fingerprint is refused
    #[arg(long)]
    fingerprint: Option<String>,
    /// Nonce of this request: a retry with the same nonce gets the same response; random by default
    #[arg(long)]
    nonce: Option<String>,
}

fn json(text: &str) -> Result<JsonText, String> {
    let told = |error| format!("not JSON: {error}; put a text in quotes: '\"paid\"'");
    JsonText::new(text.to_owned()).map_err(told)
}

/// A nonce that no other call has, so that a retry can get a lost response.
pub(super) fn nonce_or_drawn(nonce: Option<String>) -> Result<String, Failure> {
    if let Some(nonce) = nonce {
        return Ok(nonce);
    }
    let mut random = [0; 16];
    let drawn = getrandom::fill(&mut random);
    drawn.map_err(|error| Failure::failed(format!("no random bytes: {error}")))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

pub(crate) async fn run(command: KeyCommand, session: &Session) -> Result<u8, Failure> {
    let client = &session.client;
    match command {
        KeyCommand::Begin(args) => begin(args, session).await,
        KeyCommand::Complete {
            name,
            claim,
            result,
        } => ended(&client.complete_key(&name, &claim, &result).await?, session),
        KeyCommand::Abandon { name, claim } => {
            ended(&client.abandon_key(&name, &claim).await?, session)
        }
        KeyCommand::Get { name, stale } => get(&name, stale, session).await,
        KeyCommand::List { which, limit } => list(which, limit, session).await,
        KeyCommand::Delete { name, which, all } => match name {
            Some(name) => delete(&name, session).await,
            None => delete_matching(which.or_all(all)?, session).await,
        },
    }
}

async fn begin(args: BeginArgs, session: &Session) -> Result<u8, Failure> {
    let request = BeginKey {
        ttl_ms: args.ttl.map(millis),
        claim_ttl_ms: args.claim_ttl.map(millis),
        fingerprint: args.fingerprint,
        nonce: Some(nonce_or_drawn(args.nonce)?),
    };
    let begun = session.client.begin_key(&args.name, &request).await?;
    let mut facts = vec![
        ("state", begun.state.as_str().to_owned()),
        ("attempt", begun.attempt.to_string()),
    ];
    facts.extend(begun.claim.iter().map(|claim| ("claim", claim.clone())));
    facts.extend(begun.token.map(|token| ("token", token.to_string())));
    facts.extend(claim_ends(begun.claim_expires_in_ms));
    facts.push(("expires_in_ms", begun.expires_in_ms.to_string()));
    facts.extend(result_of(begun.result.as_ref()));
    session.print(&Report::facts(&begun, facts)?)
}

async fn get(name: &str, stale: bool, session: &Session) -> Result<u8, Failure> {
    let query = GetKeyQuery {
        stale: stale.then_some(true),
    };
    let key = session.client.key(name, &query).await?;
    let mut facts = vec![
        ("state", key.state.as_str().to_owned()),
        ("attempt", key.attempt.to_string()),
        ("fingerprint", key.fingerprint.clone()),
        ("expires_in_ms", key.expires_in_ms.to_string()),
    ];
    facts.extend(claim_ends(key.claim_expires_in_ms));
    facts.extend(result_of(key.result.as_ref()));
    session.print(&Report::facts(&key, facts)?)
}

fn claim_ends(in_ms: Option<u64>) -> Option<(&'static str, String)> {
    in_ms.map(|ms| ("claim_expires_in_ms", ms.to_string()))
}

fn result_of(result: Option<&JsonText>) -> Option<(&'static str, String)> {
    result.map(|result| ("result", result.as_str().to_owned()))
}

async fn list(which: WhichKeys, limit: u64, session: &Session) -> Result<u8, Failure> {
    let query = which.query();
    let Listed { items, is_cut } =
        pages::up_to(limit, query, async |query| session.client.keys(query).await).await?;
    let columns = "key state tenant attempt bytes expires_in_ms";
    let mut report = Report::list(&items)?.with_columns(columns);
    for key in items {
        report.row(vec![
            key.key,
            key.state.as_str().to_owned(),
            key.tenant,
            key.attempt.to_string(),
            key.bytes.to_string(),
            key.expires_in_ms.to_string(),
        ]);
    }
    report.print(session.format)?;
    pages::note_cut(is_cut, limit, session);
    Ok(exit::OK)
}

async fn delete(name: &str, session: &Session) -> Result<u8, Failure> {
    // The server checks the request and describes its effect.
    let plan = session.client.dry_run().delete_key(name).await?;
    if let Some(code) = session.agreed(&plan)? {
        return Ok(code);
    }
    let deleted = session.client.delete_key(name).await?;
    session.done(&format!("deleted the key {name}"), &deleted)
}

async fn delete_matching(which: WhichKeys, session: &Session) -> Result<u8, Failure> {
    let query = which.query();
    let plan = session.client.dry_run().delete_keys(&query).await?;
    let plan = pages::plan_of_all(plan);
    if let Some(code) = session.agreed(&plan)? {
        return Ok(code);
    }
    pages::delete("keys", session, query, async |query| {
        session.client.delete_keys(query).await
    })
    .await
}

fn ended(ended: &KeyEnded, session: &Session) -> Result<u8, Failure> {
    session.done(&format!("{} is {}", ended.key, ended.state.as_str()), ended)
}
