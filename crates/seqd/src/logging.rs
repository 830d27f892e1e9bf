//! Log lines on stderr: text on a terminal, JSON otherwise.

use std::io::{self, IsTerminal as _};

use seqd_node::config::{LogFormat, LogSection};
use tracing_subscriber::EnvFilter;

/// The crates whose lines `log.level` is about; libraries log from `warn` up, unless everything
/// is wanted.
const OWN: [&str; 7] = [
    "seqd",
    "seqd_node",
    "seqd_raft",
    "seqd_wal",
    "seqd_state",
    "seqd_idgen",
    "seqd_client",
];

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
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(directives(&log.level)))
        .with_writer(io::stderr)
        .with_ansi(terminal);
    // It fails only if lines go somewhere already, which is what is wanted.
    let _ = if text {
        lines.try_init()
    } else {
        lines.json().flatten_event(true).try_init()
    };
}

fn directives(level: &str) -> String {
    let libraries = match level {
        "trace" => "debug",
        "error" => "error",
        _ => "warn",
    };
    let noisy = match level {
        "trace" => "debug",
        "debug" => "warn",
        _ => "off",
    };
    let libraries = format!("{libraries},{NOISY}={noisy}");
    OWN.iter()
        .fold(libraries, |text, own| format!("{text},{own}={level}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_quieter_than_the_own_crates() {
        assert!(directives("info").starts_with("warn,openraft=off,seqd=info,seqd_node=info"));
        assert!(directives("trace").starts_with("debug,openraft=debug,seqd=trace"));
        for level in ["error", "warn", "info", "debug", "trace"] {
            assert!(EnvFilter::try_new(directives(level)).is_ok());
        }
    }
}
