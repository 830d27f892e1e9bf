//! The table of configuration keys: name, type, kind, default, rule and meaning of each, once.
//!
//! The typed sections, flags, variables, the file's keys, `config show` and the hints for misspelt
//! keys all derive from it. A new key is one row. Rules that involve two keys are in `relations`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use seqd_api::Mode;
use seqd_idgen::OnRollback;
use seqd_state::{
    MAX_GRANT_SIZE, MAX_KEY_BYTES_IN_ALL, MAX_KEYS, MAX_LOCKS, MAX_ONE_TIME, MAX_TTL_MS,
    MAX_WAITERS, Share,
};

use super::rules::{
    CompatRoutes, LogFormat, address, any, compat_routes, duration, durations, file, host_port,
    hosts, name, number, one_of, optional_address, optional_file, path, peers, share, switch, url,
};
use super::values::{ConfigError, Given, Origin, Values};

/// The TOML type of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    /// True or false. A flag without a value means true.
    Switch,
    /// A list of texts; comma-separated in flags, variables and defaults.
    List,
}

#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// `section.name`, as in the file.
    pub name: &'static str,
    pub kind: Kind,
    /// `None` if the value must be given or derives from other keys.
    pub default: Option<&'static str>,
    /// For `--help`.
    pub help: &'static str,
}

impl Key {
    /// The command-line flag without its dashes: `http-max-count`; keys of `[node]` go without the
    /// section: `name`, `data-dir`.
    pub fn flag(&self) -> String {
        let short = self.name.strip_prefix("node.").unwrap_or(self.name);
        short.replace(['.', '_'], "-")
    }

    pub fn variable(&self) -> String {
        // The contract fixes this name, because images and tests set it for a whole machine.
        if self.name == "node.insecure" {
            return "SEQD_INSECURE".to_owned();
        }
        format!("SEQD_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }
}

pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The value of one key in force, for `config show`.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: &'static Key,
    /// As TOML; `None` if the key is not set.
    pub value: Option<String>,
    /// As JSON, of the key's own type; null if the key is not set.
    pub json: serde_json::Value,
    pub origin: Origin,
}

fn entries(values: &Values) -> Vec<Entry> {
    let entry = |key: &'static Key| {
        let given = values.get(key.name);
        Entry {
            key,
            value: given.map(|given| as_toml(key.kind, given)),
            json: given.map_or(serde_json::Value::Null, |given| as_json(key.kind, given)),
            origin: given.map_or(Origin::Default, |given| given.origin.clone()),
        }
    };
    KEYS.iter().map(entry).collect()
}

fn as_toml(kind: Kind, given: &Given) -> String {
    match kind {
        Kind::Text => quoted(&given.text),
        Kind::Number | Kind::Switch => given.text.clone(),
        Kind::List => {
            let items: Vec<String> = given.items().map(quoted).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

fn as_json(kind: Kind, given: &Given) -> serde_json::Value {
    let text = given.text.as_str();
    match kind {
        Kind::Text => text.into(),
        Kind::List => given.items().collect(),
        // The values have passed the rules of their keys.
        Kind::Number => text.parse::<u64>().map_or_else(|_| text.into(), Into::into),
        Kind::Switch => text
            .parse::<bool>()
            .map_or_else(|_| text.into(), Into::into),
    }
}

/// Generates the sections, [`KEYS`] and the function that reads a [`Config`], from rows of
/// `key: type, kind, default, rule, meaning`.
macro_rules! table {
    ($($section:ident: $Section:ident {
        $($key:ident: $type:ty, $kind:ident, $default:expr, $rule:expr, $help:literal;)*
    })*) => {
        $(
            #[doc = concat!("`[", stringify!($section), "]`")]
            #[derive(Clone, Debug)]
            pub struct $Section { $(#[doc = $help] pub $key: $type,)* }
        )*

        #[derive(Clone, Debug)]
        pub struct Config {
            $(#[doc = concat!("`[", stringify!($section), "]`")] pub $section: $Section,)*
            /// All keys with values and origins, for `/v1/config`.
            pub entries: Vec<Entry>,
        }

        impl Config {
            pub(super) fn read(values: &Values) -> Result<Config, ConfigError> {
                Ok(Config {
                    $($section: $Section {
                        $($key: values.read(
                            concat!(stringify!($section), ".", stringify!($key)),
                            $rule,
                        )?,)*
                    },)*
                    entries: entries(values),
                })
            }
        }

        /// All keys, in the order in which `config show` lists them.
        pub const KEYS: &[Key] = &[$($(Key {
            name: concat!(stringify!($section), ".", stringify!($key)),
            kind: Kind::$kind,
            default: $default,
            help: $help,
        },)*)*];
    };
}

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The highest datacenter number. The layout `twitter` has the most datacenter bits, five.
pub(super) const MAX_DATACENTER: u64 = 31;

// Limits of durations are in milliseconds.
table! {
    node: NodeSection {
        name: String, Text, None, name, "this node's name, unique in the cluster";
        // Checked where it is used, since a `name` from a stronger layer overrides it.
        name_from: String, Text, None, any,
            "\"hostname\": the name is the host name's first label";
        data_dir: PathBuf, Text, Some("/var/lib/seqd"), path, "the folder that this node owns";
        datacenter: u32, Number, Some("0"), |given| number(given, 0..=MAX_DATACENTER),
            "datacenter number, for layouts that have one";
        threads: usize, Number, Some("0"), |given| number(given, 0..=1024),
            "threads that serve clients, 0 = one per core; consensus has another one";
        insecure: bool, Switch, Some("false"), switch,
            "serve other machines without TLS or without authentication";
    }
    http: HttpSection {
        listen: SocketAddr, Text, Some("0.0.0.0:7400"), address,
            "the address for clients, HOST:PORT";
        advertise: String, Text, None, url, "this node's client address as others reach it, a URL";
        hosts: Vec<String>, List, Some(""), hosts,
            "more host names that requests may be sent to";
        max_count: u32, Number, Some("10000"), |given| number(given, 1..=10_000),
            "the maximum number of IDs or expanded values per request";
        request_timeout: Duration, Text, Some("3s"), |given| duration(given, 10..=30 * SECOND),
            "how long a request may take";
        drain: Duration, Text, Some("0s"), |given| duration(given, 0..=10 * MINUTE),
            "how long readiness fails and requests are still served before a stop";
        hot_path: bool, Switch, Some("true"), switch,
            "whether the most frequent requests are read without the HTTP library";
        pages: bool, Switch, Some("true"), switch,
            "whether the pages /ui/ and /docs, and /openapi.json, are served";
    }
    peer: PeerSection {
        listen: SocketAddr, Text, Some("0.0.0.0:7401"), address,
            "the address for the other nodes, HOST:PORT";
        advertise: String, Text, None, host_port,
            "this node's peer address as others reach it, HOST:PORT";
        peers: Vec<(String, String)>, List, Some(""), peers,
            "the nodes of the bootstrap, NAME=HOST:PORT, this one among them";
        found_after: Duration, Text, Some("2s"), |given| duration(given, 0..=MINUTE),
            "how long an empty node listens for an existing cluster before one is founded";
    }
    raft: RaftSection {
        heartbeat: Duration, Text, Some("100ms"), |given| duration(given, 10..=MINUTE),
            "time between the leader's heartbeats";
        election: (Duration, Duration), List, Some("400ms,800ms"), durations,
            "shortest and longest election timeout";
        snapshot_every: u64, Number, Some("20000"), |given| number(given, 100..=100_000_000),
            "the most log entries between two snapshots of a node";
    }
    clock: ClockSection {
        // In a window of less than a second, the extension, itself a round of consensus, would use
        // up the window. A window of more than an hour would reserve a worker for that long after
        // each crash.
        window: Duration, Text, Some("30s"), |given| duration(given, SECOND..=HOUR),
            "how long a node may mint without contact to the cluster";
        max_backward_wait: Duration, Text, Some("50ms"), |given| duration(given, 0..=MINUTE),
            "the node waits out clock rollbacks up to this duration";
        on_rollback: OnRollback, Text, Some("refuse"), |given| one_of(
            given,
            &[("refuse", OnRollback::Refuse), ("continue", OnRollback::Continue)],
            "\"refuse\" or \"continue\"",
        ), "\"refuse\", or \"continue\" in logical time";
        max_forward_jump: Duration, Text, Some("1s"), |given| duration(given, 10..=MINUTE),
            "a clock jump longer than this is not trusted immediately";
        max_peer_skew: Duration, Text, Some("500ms"), |given| duration(given, 10..=MINUTE),
            "the largest tolerated difference between two clocks";
        // The layout `default` has this many workers. A layout with fewer workers limits itself.
        workers: u32, Number, Some("1"), |given| number(given, 1..=1024),
            "workers that this node may lease per layout, on demand";
    }
    tls: TlsSection {
        cert: Option<PathBuf>, Text, None, file,
            "this node's certificate for clients, a PEM file; clients are then served over TLS \
             only";
        key: Option<PathBuf>, Text, None, file, "its private key, a PEM file";
        client_ca: Option<PathBuf>, Text, None, file,
            "the CAs of clients' certificates, a PEM file; clients must then present a certificate";
        peer_cert: Option<PathBuf>, Text, None, file,
            "this node's certificate for the other nodes, a PEM file";
        peer_key: Option<PathBuf>, Text, None, file, "its private key, a PEM file";
        peer_ca: Option<PathBuf>, Text, None, file,
            "the CAs of this cluster's nodes, a PEM file; with these three keys, nodes connect \
             over TLS only";
    }
    auth: AuthSection {
        enabled: bool, Switch, Some("false"), switch, "whether clients need a token";
        bootstrap_token_file: Option<PathBuf>, Text, None, file,
            "a file with the operator's token, which may do everything";
    }
    segment: SegmentSection {
        target: Duration, Text, Some("1m"), |given| duration(given, 100..=24 * HOUR),
            "how long a segment of a sequence should last";
        min: u64, Number, Some("1000"), |given| number(given, 1..=MAX_GRANT_SIZE),
            "smallest segment";
        max: u64, Number, Some("1000000"), |given| number(given, 1..=MAX_GRANT_SIZE),
            "largest segment";
    }
    limits: LimitsSection {
        tenant_share: Share, Text, Some("25%"), share,
            "the part of each bounded resource that one access token (without tokens: one address) may hold";
        keys: u64, Number, Some("1000000"), |given| number(given, 1..=MAX_KEYS as u64),
            "the number of idempotency keys in the cluster above which this node begins no new \
             ones";
        key_bytes: u64, Number, Some("268435456"),
            |given| number(given, 1 << 20..=MAX_KEY_BYTES_IN_ALL),
            "the bytes of idempotency keys with their results in the cluster above which this node \
             begins no new keys";
        tokens: u64, Number, Some("1000000"), |given| number(given, 1..=MAX_ONE_TIME as u64),
            "the number of one-time tokens in the cluster above which this node issues no new ones";
        sequences: u64, Number, Some("100000"), |given| number(given, 1..=10_000_000),
            "the number of sequences, including deleted ones, above which this node creates no \
             new ones";
        answer_ttl: Duration, Text, Some("24h"), |given| duration(given, MINUTE..=MAX_TTL_MS),
            "how long the response to a request with an Idempotency-Key is stored";
        // The upper limits are those of the replicated state, which apply regardless of a node's
        // configuration.
        locks: u32, Number, Some("100000"), |given| number(given, 1..=MAX_LOCKS as u64),
            "the number of locks in use above which this node creates no new ones";
        lock_waiters: u32, Number, Some("1024"), |given| number(given, 1..=MAX_WAITERS as u64),
            "the maximum number of requests that wait for one lock";
    }
    health: HealthSection {
        listen: Option<SocketAddr>, Text, Some(""), optional_address,
            "the address of /livez, /readyz and /metrics in plain HTTP without a token; empty: none";
    }
    redis: RedisSection {
        listen: Option<SocketAddr>, Text, Some(""), optional_address,
            "the address for clients of the Redis protocol, HOST:PORT; empty: none";
        create: Option<Mode>, Text, Some("strict"), |given| one_of(
            given,
            &[
                ("strict", Some(Mode::Strict)),
                ("segment", Some(Mode::Segment)),
                ("ordered", Some(Mode::Ordered)),
                ("refuse", None),
            ],
            "strict, segment, ordered or refuse",
        ), "what INCR of an unknown name creates: strict, segment, ordered or refuse";
    }
    memcached: MemcachedSection {
        listen: Option<SocketAddr>, Text, Some(""), optional_address,
            "the address for clients of the memcached protocol, HOST:PORT; empty: none";
        layout: String, Text, Some("default"), name,
            "the layout of the IDs that a get returns";
    }
    compat: CompatSection {
        routes: Vec<CompatRoutes>, List, Some(""), compat_routes,
            "routes of other systems on the clients' HTTP port: leaf, tinyid, cosid, katsubushi";
        leaf_layout: String, Text, Some("leaf"), name,
            "the layout of /api/snowflake/get, and of /id and /ids of katsubushi and CosId";
        tinyid_tokens: Option<PathBuf>, Text, Some(""), optional_file,
            "a file with the tokens of TinyID, lines TOKEN BIZTYPE; empty: any is accepted";
    }
    log: LogSection {
        level: &'static str, Text, Some("info"), |given| one_of(
            given,
            &["error", "warn", "info", "debug", "trace"].map(|level| (level, level)),
            "error, warn, info, debug or trace",
        ), "error, warn, info, debug or trace";
        format: LogFormat, Text, Some("auto"), |given| one_of(
            given,
            &[("auto", LogFormat::Auto), ("text", LogFormat::Text), ("json", LogFormat::Json)],
            "auto, text or json",
        ), "auto (text on a terminal, else JSON), text or json";
        slow_requests: Duration, Text, Some("1s"), |given| duration(given, 0..=10 * MINUTE),
            "requests that take at least this long are logged, at most 10 per second; 0s: none";
    }
}

/// Writes the text as a TOML string.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
