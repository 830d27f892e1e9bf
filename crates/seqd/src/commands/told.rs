//! Words that several commands over files share.

use jiff::Timestamp;
use seqd_client::api::exit;
use seqd_node::offline::{MemberReport, OfflineError};

use crate::failure::Failure;
use crate::output;

/// A tool's error as a command fails with it.
pub(crate) fn offline(error: OfflineError) -> Failure {
    let exit = match error.code {
        "not-found" => exit::NOT_FOUND,
        "invalid-argument" => exit::USAGE,
        "already-exists" => exit::CONFLICT,
        _ => exit::FAILURE,
    };
    let failure = Failure::of(exit, error.code, error.message);
    match error.hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// Unix milliseconds as RFC 3339.
pub(crate) fn time(unix_ms: u64) -> String {
    let time = i64::try_from(unix_ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| format!("{unix_ms} ms"), |time| format!("{time:.3}"))
}

/// `1.2 MiB (1234567 bytes)`.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    if size < 1.0 {
        return format!("{bytes} bytes");
    }
    while size >= 1024.0 && unit + 1 < units.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {} ({bytes} bytes)", units[unit])
}

/// One line about a member.
pub(crate) fn member(member: &MemberReport) -> String {
    let role = if member.voter { "voter" } else { "learner" };
    let MemberReport {
        id,
        name,
        peer,
        http,
        ..
    } = member;
    format!("{name} (ID {id}, {role}) {peer} {http}")
}

/// Names and values, one under the other.
pub(crate) fn facts(facts: &[(&'static str, String)]) -> String {
    let rows = facts
        .iter()
        .map(|(what, value)| vec![(*what).to_owned(), value.clone()]);
    output::table(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_for_people() {
        assert_eq!(bytes(17), "17 bytes");
        assert_eq!(bytes(1536), "1.5 KiB (1536 bytes)");
        assert_eq!(bytes(5 << 30), "5.0 GiB (5368709120 bytes)");
        assert_eq!(time(1_795_228_001_118), "2026-11-21T02:26:41.118Z");
    }
}
