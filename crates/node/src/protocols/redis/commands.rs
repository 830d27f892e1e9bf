//! The table of commands.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::channels::only_subscribed;
use super::connection::Client;
use super::errors::{shown, wrong_arguments};
use super::reply::Reply;

/// The implementation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    Incr,
    IncrBy,
    Get,
    Set,
    Remaining,
    Exists,
    Type,
    Expire,
    Delete,
    Eval,
    EvalSha,
    Script,
    HashGet,
    HashExists,
    Subscribe,
    Unsubscribe,
    Ids,
    Token,
    Next,
    Hello,
    Auth,
    Quit,
    Reset,
    Server(ServerCommand),
}

/// A command about the connection or the server, which needs no other node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerCommand {
    Ping,
    Echo,
    Select,
    Info,
    Command,
    Client,
    Config,
    Wait,
    Size,
    Time,
}

/// A command, as `COMMAND` describes it.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// The number of arguments, the command included; negative if more may follow.
    pub(super) arity: i64,
    /// The places of the first and the last key, 0 for none.
    pub(super) keys: (i64, i64),
    pub(super) run: Run,
}

const fn row(name: &'static str, arity: i64, keys: (i64, i64), run: Run) -> Row {
    Row {
        name,
        arity,
        keys,
        run,
    }
}

const NONE: (i64, i64) = (0, 0);
const ONE: (i64, i64) = (1, 1);
const ALL: (i64, i64) = (1, -1);

pub(super) const COMMANDS: &[Row] = &[
    row("incr", 2, ONE, Run::Incr),
    row("incrby", 3, ONE, Run::IncrBy),
    row("get", 2, ONE, Run::Get),
    row("set", -3, ONE, Run::Set),
    row("pttl", 2, ONE, Run::Remaining),
    row("ttl", 2, ONE, Run::Remaining),
    row("exists", -2, ALL, Run::Exists),
    row("type", 2, ONE, Run::Type),
    row("pexpire", -3, ONE, Run::Expire),
    row("expire", -3, ONE, Run::Expire),
    row("del", -2, ALL, Run::Delete),
    row("unlink", -2, ALL, Run::Delete),
    row("eval", -3, NONE, Run::Eval),
    row("evalsha", -3, NONE, Run::EvalSha),
    row("script", -2, NONE, Run::Script),
    row("hget", 3, ONE, Run::HashGet),
    row("hexists", 3, ONE, Run::HashExists),
    row("subscribe", -2, NONE, Run::Subscribe),
    row("unsubscribe", -1, NONE, Run::Unsubscribe),
    row("seqd.id", -1, NONE, Run::Ids),
    row("seqd.token", 3, ONE, Run::Token),
    row("seqd.next", 3, ONE, Run::Next),
    row("ping", -1, NONE, Run::Server(ServerCommand::Ping)),
    row("echo", 2, NONE, Run::Server(ServerCommand::Echo)),
    row("hello", -1, NONE, Run::Hello),
    row("auth", -2, NONE, Run::Auth),
    row("select", 2, NONE, Run::Server(ServerCommand::Select)),
    row("quit", -1, NONE, Run::Quit),
    row("reset", 1, NONE, Run::Reset),
    row("info", -1, NONE, Run::Server(ServerCommand::Info)),
    row("command", -1, NONE, Run::Server(ServerCommand::Command)),
    row("client", -2, NONE, Run::Server(ServerCommand::Client)),
    row("config", -2, NONE, Run::Server(ServerCommand::Config)),
    row("wait", 3, NONE, Run::Server(ServerCommand::Wait)),
    row("dbsize", 1, NONE, Run::Server(ServerCommand::Size)),
    row("time", 1, NONE, Run::Server(ServerCommand::Time)),
];

pub(super) fn find(name: &[u8]) -> Option<&'static Row> {
    let is_it = |row: &&Row| row.name.as_bytes().eq_ignore_ascii_case(name);
    COMMANDS.iter().find(is_it)
}

/// Returns the command if consecutive requests of it are served together: `INCR NAME` or `SEQD.ID`.
pub(super) fn joined(request: &[Bytes]) -> Option<Run> {
    let row = find(request.first()?)?;
    let is_joined = match row.run {
        Run::Incr => row.takes(request),
        Run::Ids => request.len() == 1,
        _ => false,
    };
    is_joined.then_some(row.run)
}

impl Row {
    fn takes(&self, request: &[Bytes]) -> bool {
        let count = i64::try_from(request.len()).unwrap_or(i64::MAX);
        match self.arity {
            exact @ 0.. => count == exact,
            least => count >= -least,
        }
    }
}

/// Executes a request, which is not empty.
pub(super) async fn execute(client: &mut Client, request: &[Bytes]) -> Reply {
    if is_of_transaction(client, &request[0]) {
        return client
            .local("other", || Reply::error(NO_TRANSACTIONS))
            .await;
    }
    let Some(row) = find(&request[0]) else {
        client.is_over |= is_of_web_page(&request[0]);
        return client.local("other", || unknown(request)).await;
    };
    if !row.takes(request) {
        return client.local(row.name, || wrong_arguments(row.name)).await;
    }
    let (name, arguments) = (row.name, &request[1..]);
    if client.is_subscribed() && !is_of_subscriber(row.run) {
        return client.local(name, || only_subscribed(name)).await;
    }
    match row.run {
        Run::Incr => client.increment(&arguments[0], 1).await.remove(0),
        Run::IncrBy => client.increment_by(arguments).await,
        Run::Ids => client.ids(arguments).await,
        Run::Next => client.next_ranges(arguments).await,
        Run::Get => client.get(&arguments[0]).await,
        Run::Set => client.set(arguments).await,
        Run::Remaining => client.remaining(name, &arguments[0]).await,
        Run::Exists => client.exists(arguments).await,
        Run::Type => client.kind(&arguments[0]).await,
        Run::Expire => client.expire(name, arguments).await,
        Run::Delete => client.delete(name, arguments).await,
        Run::Token => client.token(arguments).await,
        Run::Eval => client.eval(arguments).await,
        Run::EvalSha => client.eval_sha(arguments).await,
        Run::Script => client.script(arguments).await,
        Run::HashGet => client.depth(arguments).await,
        Run::HashExists => client.is_inside(arguments).await,
        Run::Subscribe => client.subscribe(arguments).await,
        Run::Unsubscribe => client.unsubscribe(arguments).await,
        Run::Hello => client.hello(arguments).await,
        Run::Auth => client.auth(arguments).await,
        Run::Quit => {
            client.is_over = true;
            Reply::OK
        }
        Run::Reset => client.reset().await,
        Run::Server(command) => client.describe(name, command, arguments).await,
    }
}

/// Returns whether a subscribed connection of protocol version 2 may use a command.
fn is_of_subscriber(run: Run) -> bool {
    matches!(
        run,
        Run::Subscribe
            | Run::Unsubscribe
            | Run::Server(ServerCommand::Ping)
            | Run::Quit
            | Run::Reset
    )
}

const NO_TRANSACTIONS: &str = "ERR no transactions: each command takes effect on its own";

/// The time after a refused request for which a client may send the rest of its transaction. A client
/// that continues after the refusal without an `EXEC` then loses its connection and opens another.
/// This time must exceed the pauses within a transaction that is sent as a whole, for example while
/// a lost packet is sent again: some clients repeat unanswered requests on the next connection.
const REFUSED_FOR: Duration = Duration::from_secs(1);

/// The longest time from `MULTI` to the end of a refused transaction.
const LONGEST_REFUSED: Duration = Duration::from_secs(10);

/// A transaction that was refused, and whose remaining commands may follow.
#[derive(Clone, Copy)]
pub(super) struct RefusedTransaction {
    begun: Instant,
    /// The connection ends at this time if the transaction does not.
    pub(super) until: Instant,
}

impl RefusedTransaction {
    /// The transaction after another of its commands, or after its beginning.
    fn after(earlier: Option<Self>) -> Self {
        let now = Instant::now();
        let begun = earlier.map_or(now, |earlier| earlier.begun);
        let until = (now + REFUSED_FOR).min(begun + LONGEST_REFUSED);
        Self { begun, until }
    }
}

/// Returns whether a request is refused as part of a transaction. Most clients send a transaction
/// without waiting for the reply to `MULTI`, so none of its commands may have an effect. A pause
/// does not end the transaction, because the client may send it in pieces.
fn is_of_transaction(client: &mut Client, name: &[u8]) -> bool {
    let is = |words: &[&str]| {
        let mut words = words.iter();
        words.any(|it| name.eq_ignore_ascii_case(it.as_bytes()))
    };
    if is(&["multi"]) || client.in_refused.is_some() {
        client.in_refused = Some(RefusedTransaction::after(client.in_refused));
    }
    if is(&["exec", "discard", "reset", "quit"]) {
        client.in_refused = None;
    }
    client.in_refused.is_some() || is(&["exec", "discard", "watch", "unwatch"])
}

/// Returns whether a command is a line of an HTTP request, which a web page of any site can make a
/// browser send. The connection then ends, so that the rest of the request has no effect.
fn is_of_web_page(name: &[u8]) -> bool {
    [&b"post"[..], b"host:"]
        .iter()
        .any(|it| name.eq_ignore_ascii_case(it))
}

fn unknown(request: &[Bytes]) -> Reply {
    let name = shown(&request[0]);
    let arguments = request[1..].iter().take(20);
    let arguments: Vec<String> = arguments.map(|it| format!("'{}'", shown(it))).collect();
    let arguments = arguments.join(" ");
    Reply::error(format!(
        "ERR unknown command '{name}', with args beginning with: {arguments}"
    ))
}
