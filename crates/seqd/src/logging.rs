//! Log lines on stderr: text on a terminal, JSON otherwise.

use std::io::{self, IsTerminal as _};

use seqd_node::config::{LogFormat, LogSection};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// The crates that `log.level` is about have names that begin so; libraries log from `warn` up,
/// unless the level is `trace`.
const OWN: &str = "seqd";

/// openraft reports each try at a peer that is away, some 25 lines a second, and an orderly stop as
/// errors. What of it concerns an operator is logged by seqd itself.
const NOISY: &str = "openraft";

/// Sends log lines to stderr from here on; a second call changes nothing.
pub(crate) fn install(log: &LogSection) {
    let terminal = io::stderr().is_terminal();
    let text = match log.format {
        LogFormat::Auto => terminal,
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(terminal);
    let lines = if text {
        lines.boxed()
    } else {
        lines.json().flatten_event(true).boxed()
    };
    // It fails only if lines go somewhere already, which is what is wanted.
    let _ = tracing_subscriber::registry()
        .with(lines)
        .with(targets(log.level))
        .try_init();
}

/// Which lines are logged at `log.level`. The configuration admits only the names of levels.
fn targets(level: &str) -> Targets {
    let own = level.parse().unwrap_or(LevelFilter::INFO);
    let libraries = match own {
        LevelFilter::TRACE => LevelFilter::DEBUG,
        LevelFilter::ERROR => LevelFilter::ERROR,
        _ => LevelFilter::WARN,
    };
    let noisy = match own {
        LevelFilter::TRACE => LevelFilter::DEBUG,
        LevelFilter::DEBUG => LevelFilter::WARN,
        _ => LevelFilter::OFF,
    };
    Targets::new()
        .with_default(libraries)
        .with_target(NOISY, noisy)
        .with_target(OWN, own)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    /// The most detailed level of `target` that is logged at `log.level`.
    fn most_detailed(level: &str, target: &str) -> Option<Level> {
        let levels = [
            Level::TRACE,
            Level::DEBUG,
            Level::INFO,
            Level::WARN,
            Level::ERROR,
        ];
        let targets = targets(level);
        levels
            .into_iter()
            .find(|at| targets.would_enable(target, at))
    }

    #[test]
    fn libraries_are_quieter_than_the_own_crates() {
        let cases = [
            ("error", Level::ERROR, Level::ERROR, None),
            ("warn", Level::WARN, Level::WARN, None),
            ("info", Level::INFO, Level::WARN, None),
            ("debug", Level::DEBUG, Level::WARN, Some(Level::WARN)),
            ("trace", Level::TRACE, Level::DEBUG, Some(Level::DEBUG)),
        ];
        for (level, own, library, noisy) in cases {
            for target in ["seqd", "seqd::server", "seqd_node::app", "seqd_wal"] {
                assert_eq!(most_detailed(level, target), Some(own), "{level} {target}");
            }
            for target in ["sled", "hyper::proto", "tokio"] {
                assert_eq!(
                    most_detailed(level, target),
                    Some(library),
                    "{level} {target}"
                );
            }
            let inner = format!("{NOISY}::core");
            for target in [NOISY, inner.as_str()] {
                assert_eq!(most_detailed(level, target), noisy, "{level} {target}");
            }
        }
    }
}
