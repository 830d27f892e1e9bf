//! The table of configuration keys: name, default and meaning of each, once.
//!
//! Flags, variables, the file's keys, `config show` and the hints for misspelt keys all come from
//! this table, so that none of them can know a key that the others do not.

/// How a key's value is written in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A quoted text.
    Text,
    /// An integer.
    Number,
    /// A list of texts; comma-separated in flags and variables.
    List,
}

/// One configuration key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// `section.name`, as in the file.
    pub name: &'static str,
    /// How its value is written.
    pub kind: Kind,
    /// The default as text, a list comma-separated; `None` where the value has to be given or is
    /// derived from others.
    pub default: Option<&'static str>,
    /// What it means, for `--help` and the generated file.
    pub help: &'static str,
}

impl Key {
    /// The command-line flag without its dashes: `http-max-count`; `node.*` keys go without the
    /// section: `name`, `data-dir`.
    pub fn flag(&self) -> String {
        let short = self.name.strip_prefix("node.").unwrap_or(self.name);
        short.replace(['.', '_'], "-")
    }

    /// The environment variable: `SEQD_HTTP_MAX_COUNT`; `node.*` keys are `SEQD_NODE_...`.
    pub fn variable(&self) -> String {
        format!("SEQD_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }
}

/// The key of that name.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

const fn key(
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    help: &'static str,
) -> Key {
    Key {
        name,
        kind,
        default,
        help,
    }
}

/// All keys, in the order of the generated file.
pub const KEYS: &[Key] = &[
    key(
        "node.name",
        Kind::Text,
        None,
        "this node's name, unique in the cluster",
    ),
    key(
        "node.name_from",
        Kind::Text,
        None,
        "\"hostname\": the name is the host name's first label",
    ),
    key(
        "node.data_dir",
        Kind::Text,
        Some("/var/lib/seqd"),
        "the folder that this node owns",
    ),
    key(
        "node.datacenter",
        Kind::Number,
        Some("0"),
        "datacenter number, for layouts that have one",
    ),
    key(
        "node.threads",
        Kind::Number,
        Some("0"),
        "worker threads, 0 = one per core",
    ),
    key(
        "http.listen",
        Kind::Text,
        Some("0.0.0.0:7400"),
        "where clients are served, HOST:PORT",
    ),
    key(
        "http.advertise",
        Kind::Text,
        None,
        "this node's client address as others reach it, a URL",
    ),
    key(
        "http.max_count",
        Kind::Number,
        Some("10000"),
        "most IDs or expanded values per request",
    ),
    key(
        "http.request_timeout",
        Kind::Text,
        Some("3s"),
        "how long a request may take",
    ),
    key(
        "peer.listen",
        Kind::Text,
        Some("0.0.0.0:7401"),
        "where the other nodes are heard, HOST:PORT",
    ),
    key(
        "peer.advertise",
        Kind::Text,
        None,
        "this node's peer address as others reach it, HOST:PORT",
    ),
    key(
        "peer.peers",
        Kind::List,
        Some(""),
        "the founding nodes, NAME=HOST:PORT, this one among them",
    ),
    key(
        "raft.heartbeat",
        Kind::Text,
        Some("100ms"),
        "time between the leader's heartbeats",
    ),
    key(
        "raft.election",
        Kind::List,
        Some("400ms,800ms"),
        "shortest and longest election timeout",
    ),
    key(
        "raft.snapshot_every",
        Kind::Number,
        Some("20000"),
        "log entries between two snapshots",
    ),
    key(
        "clock.window",
        Kind::Text,
        Some("30s"),
        "how far ahead a node may mint without the cluster",
    ),
    key(
        "clock.max_backward_wait",
        Kind::Text,
        Some("50ms"),
        "clock rollbacks up to this are waited for",
    ),
    key(
        "clock.on_rollback",
        Kind::Text,
        Some("refuse"),
        "\"refuse\", or \"continue\" in logical time",
    ),
    key(
        "clock.max_forward_jump",
        Kind::Text,
        Some("1s"),
        "clock jumps beyond this are not believed",
    ),
    key(
        "clock.max_peer_skew",
        Kind::Text,
        Some("500ms"),
        "largest tolerated difference of two clocks",
    ),
    key(
        "segment.target",
        Kind::Text,
        Some("1m"),
        "how long a segment of a sequence should last",
    ),
    key(
        "segment.min",
        Kind::Number,
        Some("1000"),
        "smallest segment",
    ),
    key(
        "segment.max",
        Kind::Number,
        Some("1000000"),
        "largest segment",
    ),
    key(
        "log.level",
        Kind::Text,
        Some("info"),
        "error, warn, info, debug or trace",
    ),
    key(
        "log.format",
        Kind::Text,
        Some("auto"),
        "auto (text on a terminal, else JSON), text or json",
    ),
];
