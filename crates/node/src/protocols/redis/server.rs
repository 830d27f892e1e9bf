//! Commands about the connection and the server.

use bytes::Bytes;
use seqd_api::ErrorCode;

use super::channels::Subscriptions;
use super::commands::{COMMANDS, Row, ServerCommand, find};
use super::connection::Client;
use super::errors::{not_an_integer, shown, syntax, wrong_arguments};
use super::reply::{Reply, Version};
use super::request::number;
use crate::access::Caller;
use crate::services::Counts;

/// The version of Redis whose commands clients may expect.
const REDIS_VERSION: &str = "7.4.0";

/// The configuration that clients read. It states that writes are durable, because every
/// acknowledged change is on the disks of a majority.
const CONFIGURATION: [(&str, &str); 6] = [
    ("appendfsync", "always"),
    ("appendonly", "yes"),
    ("databases", "1"),
    ("maxmemory", "0"),
    ("save", ""),
    ("timeout", "0"),
];

/// The longest name that a client may set.
const MOST_NAME: usize = 128;

impl Client {
    /// `HELLO [2|3] [AUTH user token] [SETNAME name]`.
    pub(super) async fn hello(&mut self, arguments: &[Bytes]) -> Reply {
        let version = match arguments.first().map(number) {
            None => self.version,
            Some(Some(2)) => Version::Two,
            Some(Some(3)) => Version::Three,
            Some(Some(_)) => return Reply::error("NOPROTO unsupported protocol version"),
            Some(None) => {
                return Reply::error("ERR Protocol version is not an integer or out of range");
            }
        };
        let mut rest = arguments.get(1..).unwrap_or_default();
        let (mut name, mut is_admitted) = (None, false);
        while let Some(option) = rest.first() {
            let is = |word: &[u8]| option.eq_ignore_ascii_case(word);
            rest = match &rest[1..] {
                [user, token, rest @ ..] if is(b"auth") => {
                    let granted = self.sign_in("hello", Some(user), token).await;
                    if granted != Reply::OK {
                        return granted;
                    }
                    is_admitted = true;
                    rest
                }
                [given, rest @ ..] if is(b"setname") => {
                    name = Some(given);
                    rest
                }
                _ => return syntax(),
            };
        }
        if !is_admitted && let Err(refused) = self.session.local("hello", || ()).await {
            return match refused.is(ErrorCode::Unauthorized) {
                true => Reply::error(
                    "NOAUTH HELLO must be called with the client already authenticated, otherwise \
                     the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the \
                     client and select the RESP protocol version at the same time",
                ),
                false => self.failed(&refused),
            };
        }
        if let Some(name) = name {
            let named = self.set_name(name);
            if named != Reply::OK {
                return named;
            }
        }
        self.version = version;
        let proto = if version == Version::Two { 2 } else { 3 };
        Reply::Map(vec![
            ("server", Reply::bulk("redis")),
            ("version", Reply::bulk(REDIS_VERSION)),
            ("proto", Reply::Integer(proto)),
            ("id", Reply::number(self.id)),
            ("mode", Reply::bulk("standalone")),
            ("role", Reply::bulk("master")),
            ("modules", Reply::Array(Vec::new())),
        ])
    }

    /// `AUTH [user] token`: presents an access token. The user name is ignored.
    pub(super) async fn auth(&mut self, arguments: &[Bytes]) -> Reply {
        let (user, token) = match arguments {
            [token] => (None, token),
            [user, token] => (Some(user), token),
            _ => return syntax(),
        };
        self.sign_in("auth", user, token).await
    }

    /// Presents a token. If it is refused, the earlier one stays.
    async fn sign_in(
        &mut self,
        command: &'static str,
        user: Option<&Bytes>,
        token: &Bytes,
    ) -> Reply {
        let earlier = self.session.present(Some(token));
        let admitted = self.session.local(command, || ()).await;
        if admitted.is_err() {
            self.session.present(earlier.as_deref());
        }
        match admitted {
            Ok(()) if user.is_none() && !self.session.needs_token() => Reply::error(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ),
            Ok(()) => Reply::OK,
            Err(refused) if refused.is(ErrorCode::Unauthorized) => {
                Reply::error("WRONGPASS invalid username-password pair or user is disabled.")
            }
            Err(refused) => self.failed(&refused),
        }
    }

    /// `RESET`: returns the connection to its initial state.
    pub(super) async fn reset(&mut self) -> Reply {
        let reset = self.local("reset", || Reply::Simple("RESET".into())).await;
        self.session.present(None);
        self.version = Version::Two;
        self.name.clear();
        self.subscriptions = Subscriptions::default();
        reset
    }

    /// The commands that neither read nor change the cluster's state. They need a token if callers
    /// need tokens.
    pub(super) async fn describe(
        &mut self,
        name: &'static str,
        command: ServerCommand,
        arguments: &[Bytes],
    ) -> Reply {
        match self.session.local(name, || ()).await {
            Ok(()) => self.described(command, arguments),
            Err(refused) => self.failed(&refused),
        }
    }

    fn described(&mut self, command: ServerCommand, arguments: &[Bytes]) -> Reply {
        match command {
            ServerCommand::Ping => match arguments {
                [] | [_] if self.is_subscribed() => {
                    let message = arguments.first().cloned().unwrap_or_default();
                    Reply::Array(vec![Reply::bulk("pong"), Reply::Bulk(message)])
                }
                [] => Reply::Simple("PONG".into()),
                [message] => echo(message),
                _ => wrong_arguments("ping"),
            },
            ServerCommand::Echo => echo(&arguments[0]),
            ServerCommand::Select => match number(&arguments[0]) {
                Some(0) => Reply::OK,
                Some(_) => Reply::error("ERR DB index is out of range"),
                None => not_an_integer(),
            },
            ServerCommand::Info => match self.session.caller() {
                Ok(caller) => Reply::bulk(self.info(caller)),
                Err(refused) => self.failed(&refused),
            },
            ServerCommand::Command => describe_commands(arguments),
            ServerCommand::Client => self.client(arguments),
            ServerCommand::Config => config(arguments),
            // There are no replicas to wait for: every acknowledged write is on a majority.
            ServerCommand::Wait => match (number(&arguments[0]), number(&arguments[1])) {
                (Some(_), Some(..0)) => Reply::error("ERR timeout is negative"),
                (Some(_), Some(_)) => Reply::Integer(0),
                _ => not_an_integer(),
            },
            ServerCommand::Size => match self.session.caller() {
                Ok(caller) => {
                    let counts = self.session.services().counts(caller);
                    Reply::number(counts.sequences + counts.locks)
                }
                Err(refused) => self.failed(&refused),
            },
            ServerCommand::Time => {
                let ms = self.session.services().ids.clock.wall().0;
                Reply::Array(vec![Reply::bulk(ms / 1000), Reply::bulk(ms % 1000 * 1000)])
            }
        }
    }

    fn info(&self, caller: Caller) -> String {
        let services = self.session.services();
        let Counts { sequences, locks } = services.counts(caller);
        format!(
            "# Server\r\nredis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\n\
             seqd_version:{}\r\nseqd_node:{}\r\n\r\n# Replication\r\nrole:master\r\n\
             connected_slaves:0\r\n\r\n# Persistence\r\nloading:0\r\naof_enabled:1\r\n\r\n\
             # Keyspace\r\ndb0:keys={},expires={locks},avg_ttl=0\r\n",
            env!("CARGO_PKG_VERSION"),
            services.node(),
            sequences + locks,
        )
    }

    fn set_name(&mut self, name: &Bytes) -> Reply {
        let is_plain = name.iter().all(u8::is_ascii_graphic);
        if !is_plain || name.len() > MOST_NAME {
            return Reply::error(
                "ERR Client names cannot contain spaces, newlines or special characters.",
            );
        }
        self.name = shown(name);
        Reply::OK
    }

    fn client(&mut self, arguments: &[Bytes]) -> Reply {
        let subcommand = arguments[0].to_ascii_lowercase();
        match (&subcommand[..], &arguments[1..]) {
            (b"setname", [name]) => self.set_name(name),
            (b"getname", []) if self.name.is_empty() => Reply::Null,
            (b"getname", []) => Reply::bulk(&self.name),
            (b"id", []) => Reply::number(self.id),
            (b"info" | b"list", []) => {
                let address = self.session.connection().address();
                let address = address.map_or_else(|| "-".to_owned(), |it| it.to_string());
                let version = if self.version == Version::Two { 2 } else { 3 };
                let (id, name) = (self.id, &self.name);
                Reply::bulk(format!(
                    "id={id} addr={address}:0 name={name} db=0 resp={version}\n"
                ))
            }
            (b"setinfo", [_, _]) | (b"no-evict" | b"no-touch", [_]) => Reply::OK,
            (b"tracking", [mode]) if mode.eq_ignore_ascii_case(b"off") => Reply::OK,
            (b"reply", [mode]) if mode.eq_ignore_ascii_case(b"on") => Reply::OK,
            _ => {
                let text = format!(
                    "ERR unknown subcommand or wrong number of arguments for '{}'. Try CLIENT HELP.",
                    shown(&arguments[0])
                );
                Reply::error(text)
            }
        }
    }
}

fn echo(message: &Bytes) -> Reply {
    Reply::Bulk(message.clone())
}

/// `COMMAND`, `COMMAND COUNT`, `COMMAND LIST`, `COMMAND INFO` and `COMMAND DOCS`.
fn describe_commands(arguments: &[Bytes]) -> Reply {
    let Some((subcommand, names)) = arguments.split_first() else {
        return Reply::Array(COMMANDS.iter().map(described).collect());
    };
    match &subcommand.to_ascii_lowercase()[..] {
        b"count" | b"list" if !names.is_empty() => wrong_arguments("command"),
        b"count" => Reply::number(COMMANDS.len() as u64),
        b"list" => Reply::Array(COMMANDS.iter().map(|row| Reply::bulk(row.name)).collect()),
        b"info" => {
            let row = |name: &Bytes| find(name).map_or(Reply::Null, described);
            Reply::Array(names.iter().map(row).collect())
        }
        b"docs" => Reply::Map(Vec::new()),
        _ => Reply::error("ERR unknown subcommand of COMMAND"),
    }
}

fn described(row: &Row) -> Reply {
    let (first, last) = row.keys;
    Reply::Array(vec![
        Reply::bulk(row.name),
        Reply::Integer(row.arity),
        Reply::Array(Vec::new()),
        Reply::Integer(first),
        Reply::Integer(last),
        Reply::Integer(i64::from(first > 0)),
    ])
}

/// `CONFIG GET name...`; `*` matches all names.
fn config(arguments: &[Bytes]) -> Reply {
    let (subcommand, names) = arguments.split_at(1);
    if !subcommand[0].eq_ignore_ascii_case(b"get") || names.is_empty() {
        return Reply::error(
            "ERR only CONFIG GET is supported: the configuration of the node is not changed here",
        );
    }
    let is_named = |known: &str| {
        let known = known.as_bytes();
        names
            .iter()
            .any(|name| &name[..] == b"*" || name.eq_ignore_ascii_case(known))
    };
    let found = CONFIGURATION.iter().filter(|(name, _)| is_named(name));
    Reply::Map(
        found
            .map(|(name, value)| (*name, Reply::bulk(value)))
            .collect(),
    )
}
