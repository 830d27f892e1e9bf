//! Reloads the configuration on SIGHUP.
//!
//! Only the log level changes without a restart. An invalid configuration changes nothing.

use seqd_node::config::{Config, Entry};
use tokio::signal::unix::{SignalKind, signal};

use crate::commands::config::ConfigSource;
use crate::failure::Failure;
use crate::logging::Log;

/// The key that takes effect without a restart.
const LEVEL: &str = "log.level";

/// Starts a task that reads `source` again at each SIGHUP. From this call on, SIGHUP does not end
/// the process.
pub(crate) fn on_hangup(
    source: ConfigSource,
    log: Log,
    mut entries: Vec<Entry>,
) -> Result<(), Failure> {
    let mut hangups = signal(SignalKind::hangup())
        .map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            match source.resolve() {
                Ok(resolved) => entries = take(&log, &entries, resolved.config),
                Err(failure) => {
                    tracing::warn!("SIGHUP: nothing was reloaded: {}", failure.detail());
                }
            }
        }
    });
    Ok(())
}

/// Applies the keys that can change, and returns the entries that are in force afterwards.
fn take(log: &Log, before: &[Entry], config: Config) -> Vec<Entry> {
    let changed = changed(before, &config.entries);
    let level = config.log.level;
    let confirm = || tracing::info!(level, "SIGHUP: the log level was reloaded");
    if changed.contains(&LEVEL) {
        // The line is logged if either the old or the new level permits it.
        let is_seen_before = tracing::enabled!(tracing::Level::INFO);
        if is_seen_before {
            confirm();
        }
        log.set_level(level);
        if !is_seen_before {
            confirm();
        }
    } else {
        tracing::info!("SIGHUP: nothing was reloaded: the log level is unchanged");
    }
    let later: Vec<&str> = changed.into_iter().filter(|key| *key != LEVEL).collect();
    if !later.is_empty() {
        let keys = later.join(", ");
        tracing::warn!(
            keys,
            "SIGHUP: other keys were changed; they take effect after a restart"
        );
    }
    let mut now = before.to_vec();
    for (entry, new) in now.iter_mut().zip(config.entries) {
        if entry.key.name == LEVEL {
            *entry = new;
        }
    }
    now
}

/// The keys whose values differ. Both slices are in the order of the table of keys.
fn changed(before: &[Entry], now: &[Entry]) -> Vec<&'static str> {
    let pairs = before.iter().zip(now);
    pairs
        .filter(|(before, now)| before.value != now.value)
        .map(|(before, _)| before.key.name)
        .collect()
}

#[cfg(test)]
mod tests {
    use seqd_node::config::Layers;

    use super::*;

    #[test]
    fn the_keys_that_changed_are_found() {
        let entries = |text: &str| {
            let text = format!("[node]\nname = \"n1\"\n{text}");
            let layers = Layers::default().file("x.toml", &text).unwrap();
            layers.resolve("host").unwrap().config.entries
        };
        let (before, same) = (entries(""), entries("[log]\nlevel = \"info\""));
        assert!(changed(&before, &same).is_empty());
        let other = entries("[log]\nlevel = \"debug\"\n[http]\nmax_count = 5");
        assert_eq!(changed(&before, &other), ["http.max_count", "log.level"]);
    }
}
