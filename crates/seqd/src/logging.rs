//! Log lines on stderr: text on a terminal, JSON otherwise.

use std::io::{self, IsTerminal as _, Write as _};
use std::panic::PanicHookInfo;

use seqd_node::config::LogSection;
use serde_json::{Value, json};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The prefix of the crates to which `log.level` applies. Libraries log at `warn` and above unless
/// the level is `trace`.
const OWN: &str = "seqd";

/// The target of audit lines (who changed what), which are logged at every level.
const AUDIT: &str = "seqd_audit";

/// openraft logs each attempt to reach an unreachable peer, some 25 lines a second, and logs a
/// clean stop as errors. seqd itself logs the events that concern an operator.
const NOISY: &str = "openraft";

/// A handle to the installed log.
pub(crate) struct Log {
    pub(crate) is_text: bool,
    set_level: Box<dyn Fn(&str) + Send + Sync>,
}

impl Log {
    /// Installs the log: lines go to stderr from this call on.
    pub(crate) fn install(log: &LogSection) -> Self {
        let terminal = io::stderr().is_terminal();
        let is_text = log.format.is_text(terminal);
        // NO_COLOR disables colours if it has any non-empty value (no-color.org).
        let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(io::stderr)
            .with_ansi(terminal && !is_plain);
        let lines = if is_text {
            lines.boxed()
        } else {
            std::panic::set_hook(Box::new(log_panic));
            lines.json().flatten_event(true).boxed()
        };
        let (filter, handle) = reload::Layer::new(targets(log.level));
        // It fails only if a subscriber is installed already, and then lines are logged.
        let _ = tracing_subscriber::registry()
            .with(lines)
            .with(filter)
            .try_init();
        Self {
            is_text,
            set_level: Box::new(move |level| {
                // It fails only if the subscriber was dropped, and then nothing is logged.
                let _ = handle.reload(targets(level));
            }),
        }
    }

    /// Sets the level of log lines from this call on.
    pub(crate) fn set_level(&self, level: &str) {
        (self.set_level)(level);
    }
}

/// Writes a panic to stderr as a log line. It bypasses `tracing`, because the panic may have
/// occurred inside it.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let place = panic.location().map(ToString::to_string);
    let line = panic_line(text, place);
    // An error is ignored: stderr is closed.
    let _ = writeln!(io::stderr(), "{line}");
}

fn panic_line(text: Option<&str>, place: Option<String>) -> Value {
    json!({
        "timestamp": jiff::Timestamp::now().to_string(),
        "level": "ERROR",
        "message": format!("a panic: {}", text.unwrap_or("without a message")),
        "location": place,
        "target": "seqd",
    })
}

/// The lines that are logged at `log.level`. The configuration accepts only names of levels.
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
        .with_target(AUDIT, LevelFilter::INFO)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    /// The most detailed level at which lines of `target` are logged if `log.level` is `level`.
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
    fn a_panic_is_one_line_of_json() {
        let line = panic_line(Some("two\nlines"), Some("a.rs:1:2".to_owned())).to_string();
        assert_eq!(line.lines().count(), 1);
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["message"], "a panic: two\nlines");
        assert_eq!(
            (&read["level"], &read["location"]),
            (&json!("ERROR"), &json!("a.rs:1:2"))
        );
    }

    #[test]
    fn the_audit_is_there_at_every_level() {
        for level in ["error", "warn", "info"] {
            assert_eq!(most_detailed(level, AUDIT), Some(Level::INFO), "{level}");
        }
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
