//! Reads the settings of a node that checks compare with measured values.

use std::collections::BTreeMap;

/// The shortest election timeout of a node in milliseconds, or its default.
pub(super) fn election_ms(config: &BTreeMap<String, String>) -> f64 {
    let read = || {
        let list = config.get("raft.election")?;
        let first = list.trim_start_matches('[').split(',').next()?;
        milliseconds(first)
    };
    read().unwrap_or(400.0)
}

/// A duration of the configuration in milliseconds.
pub(super) fn duration_ms(config: &BTreeMap<String, String>, key: &str, default: f64) -> f64 {
    let value = config.get(key).and_then(|value| milliseconds(value));
    value.unwrap_or(default)
}

fn milliseconds(value: &str) -> Option<f64> {
    let text = value.trim_matches(|character| matches!(character, '"' | '\'' | ' ' | ']'));
    let duration = humantime::parse_duration(text).ok()?;
    Some(duration.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_the_node_writes_them() {
        let config = [
            ("raft.election", "[\"150ms\", \"300ms\"]"),
            ("clock.max_peer_skew", "\"2s\""),
        ];
        let config = config.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let config = BTreeMap::from(config);
        assert!((election_ms(&config) - 150.0).abs() < 1e-9);
        assert!((duration_ms(&config, "clock.max_peer_skew", 1.0) - 2000.0).abs() < 1e-9);
        assert!((duration_ms(&config, "other", 1.0) - 1.0).abs() < 1e-9);
    }
}
