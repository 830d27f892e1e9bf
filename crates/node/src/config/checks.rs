//! From merged texts to the typed configuration, and what is refused on the way.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::keys::KEYS;
use super::layers::{Entry, Layers, Origin, Raw, Resolved, as_toml};
use super::take::{Take, is_host_port};
use super::{
    ClockSection, Config, ConfigError, HttpSection, LogFormat, LogSection, NodeSection,
    PeerSection, RaftSection, SegmentSection,
};

/// A heartbeat has to be missed several times before an election is right.
const HEARTBEATS_PER_ELECTION: u32 = 4;

/// Three ticks of the slowest preset that can still be leased are 30 ms; below a second the
/// extension itself, a round of consensus, would eat the window.
const MIN_WINDOW: Duration = Duration::from_secs(1);

/// A longer window would hold a worker for that long after each crash.
const MAX_WINDOW: Duration = Duration::from_secs(3600);

/// What `?timeout_ms` may ask for at most, too.
pub(crate) const MAX_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn resolve(layers: &Layers, hostname: &str) -> Result<Resolved, ConfigError> {
    let take = Take { layers };
    let mut warnings = Vec::new();
    let (name, name_origin) = name_of(&take, hostname)?;
    let peers = peers_of(&take, &mut warnings)?;
    let http_listen = take.address("http.listen")?;
    let peer_listen = take.address("peer.listen")?;
    let own = peers
        .iter()
        .find(|(peer, _)| *peer == name)
        .map(|(_, address)| address.clone());
    let peer_advertise = match take.given("peer.advertise") {
        Some(_) => take.host_port("peer.advertise")?,
        None => own.unwrap_or_else(|| reachable(peer_listen, hostname)),
    };
    let http_advertise = match take.given("http.advertise") {
        Some(_) => take.url("http.advertise")?,
        None => {
            let host = peer_advertise
                .rsplit_once(':')
                .map_or(hostname, |(host, _)| host);
            let bound = (!http_listen.ip().is_unspecified()).then(|| http_listen.to_string());
            let address = bound.unwrap_or_else(|| format!("{host}:{}", http_listen.port()));
            format!("http://{address}")
        }
    };
    let peers = if peers.is_empty() {
        vec![(name.clone(), peer_advertise.clone())]
    } else {
        peers
    };
    let mut config = Config {
        node: NodeSection {
            name,
            data_dir: PathBuf::from(take.text("node.data_dir")?),
            datacenter: take.number("node.datacenter", 0, 1023)? as u32,
            threads: take.number("node.threads", 0, 1024)? as usize,
        },
        http: HttpSection {
            listen: http_listen,
            advertise: http_advertise,
            max_count: take.number("http.max_count", 1, 10_000)? as u32,
            request_timeout: take.duration(
                "http.request_timeout",
                Duration::from_millis(10),
                MAX_REQUEST_TIMEOUT,
            )?,
        },
        peer: PeerSection {
            listen: peer_listen,
            advertise: peer_advertise,
            peers,
        },
        raft: raft_of(&take)?,
        clock: clock_of(&take)?,
        segment: segment_of(&take)?,
        log: log_of(&take)?,
        entries: Vec::new(),
    };
    let entries = entries(layers, &config, name_origin);
    config.entries.clone_from(&entries);
    Ok(Resolved {
        config,
        entries,
        warnings,
    })
}

/// Whether a node or a sequence may be called that.
pub(crate) fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    (1..=128).contains(&text.len())
        && text.as_bytes()[0].is_ascii_alphanumeric()
        && text.bytes().all(allowed)
}

const NAME_RULE: &str = "1 to 128 of A-Z a-z 0-9 . _ : -, the first a letter or a digit";

fn name_of(take: &Take<'_>, hostname: &str) -> Result<(String, Origin), ConfigError> {
    let from = take.given("node.name_from");
    let (origin, name) = match (take.given("node.name"), &from) {
        // The stronger layer wins, so that a flag's name overrides a file's name_from.
        (Some((origin, raw)), Some((other, _))) if *other <= origin => (origin, raw.text()),
        (Some((origin, raw)), None) => (origin, raw.text()),
        (_, Some((origin, raw))) => {
            if raw.text() != "hostname" {
                return Err(take.refuse("node.name_from", "\"hostname\" is the only choice"));
            }
            (origin.clone(), first_label(hostname).to_owned())
        }
        (None, None) => {
            let how = "give --name, SEQD_NODE_NAME or name = \"n1\" under [node]";
            return Err(ConfigError::Missing {
                key: "node.name",
                how: how.to_owned(),
            });
        }
    };
    if !is_name(&name) {
        let value = name;
        let (origin, allowed) = (origin.to_string(), format!("a name is {NAME_RULE}"));
        return Err(ConfigError::Value {
            key: "node.name",
            value,
            origin,
            allowed,
        });
    }
    Ok((name, origin))
}

/// The first DNS label of a host name.
pub(super) fn first_label(host: &str) -> &str {
    host.split('.').next().unwrap_or(host)
}

fn peers_of(
    take: &Take<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<(String, String)>, ConfigError> {
    let refuse = |allowed: String| take.refuse("peer.peers", &allowed);
    let mut peers: Vec<(String, String)> = Vec::new();
    for item in take.items("peer.peers") {
        let (name, address) = item
            .split_once('=')
            .ok_or_else(|| refuse(format!("{item} is not NAME=HOST:PORT")))?;
        if !is_name(name) {
            return Err(refuse(format!("{name}: a name is {NAME_RULE}")));
        }
        if !is_host_port(address) {
            return Err(refuse(format!("{item} is not NAME=HOST:PORT")));
        }
        if peers.iter().any(|(known, _)| known == name) {
            return Err(refuse(format!("{name} is there twice")));
        }
        if let Some((other, _)) = peers.iter().find(|(_, known)| known == address) {
            return Err(refuse(format!("{other} and {name} have the same address")));
        }
        peers.push((name.to_owned(), address.to_owned()));
    }
    if peers.len() > 7 {
        return Err(refuse(format!(
            "{} founders; 1, 3 or 5 are right, 7 the most",
            peers.len()
        )));
    }
    if matches!(peers.len(), 2 | 4 | 6) {
        let (many, fewer) = (peers.len(), peers.len() - 1);
        warnings.push(format!(
            "{many} voters can lose no more nodes than {fewer}: prefer an odd number"
        ));
    }
    Ok(peers)
}

fn raft_of(take: &Take<'_>) -> Result<RaftSection, ConfigError> {
    let (shortest, longest) = (Duration::from_millis(10), Duration::from_secs(60));
    let heartbeat = take.duration("raft.heartbeat", shortest, longest)?;
    let items = take.items("raft.election");
    let refuse = |allowed: String| take.refuse("raft.election", &allowed);
    let [min, max] = items.as_slice() else {
        return Err(refuse(
            "two durations, shortest and longest: [\"400ms\", \"800ms\"]".to_owned(),
        ));
    };
    let parse = |text: &str| {
        humantime::parse_duration(text).map_err(|error| refuse(format!("{text}: {error}")))
    };
    let (min, max) = (parse(min)?, parse(max)?);
    if min >= max {
        return Err(refuse(
            "the shortest has to be less than the longest".to_owned(),
        ));
    }
    if min < heartbeat * HEARTBEATS_PER_ELECTION {
        let heartbeat = humantime::format_duration(heartbeat);
        return Err(refuse(format!(
            "the shortest has to be at least {HEARTBEATS_PER_ELECTION} heartbeats (of {heartbeat})"
        )));
    }
    let snapshot_every = take.number("raft.snapshot_every", 100, 100_000_000)?;
    Ok(RaftSection {
        heartbeat,
        election: (min, max),
        snapshot_every,
    })
}

fn clock_of(take: &Take<'_>) -> Result<ClockSection, ConfigError> {
    let continue_on_rollback = match take.text("clock.on_rollback")?.as_str() {
        "refuse" => false,
        "continue" => true,
        _ => return Err(take.refuse("clock.on_rollback", "\"refuse\" or \"continue\"")),
    };
    let minute = Duration::from_secs(60);
    Ok(ClockSection {
        window: take.duration("clock.window", MIN_WINDOW, MAX_WINDOW)?,
        max_backward_wait: take.duration("clock.max_backward_wait", Duration::ZERO, minute)?,
        continue_on_rollback,
        max_forward_jump: take.duration(
            "clock.max_forward_jump",
            Duration::from_millis(10),
            minute,
        )?,
        max_peer_skew: take.duration("clock.max_peer_skew", Duration::from_millis(10), minute)?,
    })
}

fn segment_of(take: &Take<'_>) -> Result<SegmentSection, ConfigError> {
    let min = take.number("segment.min", 1, 1 << 40)?;
    let max = take.number("segment.max", 1, 1 << 40)?;
    if min > max {
        return Err(take.refuse("segment.min", "it has to be at most segment.max"));
    }
    let (second, day) = (Duration::from_millis(100), Duration::from_secs(86_400));
    Ok(SegmentSection {
        target: take.duration("segment.target", second, day)?,
        min,
        max,
    })
}

fn log_of(take: &Take<'_>) -> Result<LogSection, ConfigError> {
    let level = take.text("log.level")?;
    if !["error", "warn", "info", "debug", "trace"].contains(&level.as_str()) {
        return Err(take.refuse("log.level", "error, warn, info, debug or trace"));
    }
    let format = match take.text("log.format")?.as_str() {
        "auto" => LogFormat::Auto,
        "text" => LogFormat::Text,
        "json" => LogFormat::Json,
        _ => return Err(take.refuse("log.format", "auto, text or json")),
    };
    Ok(LogSection { level, format })
}

/// A listening address as others reach it: the host's name stands for "all interfaces".
fn reachable(listen: SocketAddr, hostname: &str) -> String {
    if listen.ip().is_unspecified() {
        format!("{hostname}:{}", listen.port())
    } else {
        listen.to_string()
    }
}

fn entries(layers: &Layers, config: &Config, name_origin: Origin) -> Vec<Entry> {
    KEYS.iter()
        .map(|key| {
            let derived = match key.name {
                "node.name" => Some(config.node.name.clone()),
                "http.advertise" => Some(config.http.advertise.clone()),
                "peer.advertise" => Some(config.peer.advertise.clone()),
                _ => None,
            };
            let (origin, value) = match (layers.get(key.name), derived) {
                (Some((origin, raw)), _) => (origin, Some(as_toml(key.kind, &raw))),
                (None, Some(text)) if key.name == "node.name" => (
                    name_origin.clone(),
                    Some(as_toml(key.kind, &Raw::One(text))),
                ),
                (None, Some(text)) => (Origin::Derived, Some(as_toml(key.kind, &Raw::One(text)))),
                (None, None) => (Origin::Default, None),
            };
            Entry { key, value, origin }
        })
        .collect()
}
