//! Formats times, sizes and members, in the same way for every command.

use jiff::Timestamp;
use seqd_client::api::Member;
use seqd_offline::MemberReport;
use unit_prefix::NumberPrefix;

/// Unix milliseconds as RFC 3339.
pub(crate) fn time(unix_ms: u64) -> String {
    let time = i64::try_from(unix_ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| format!("{unix_ms} ms"), |time| format!("{time:.3}"))
}

/// The value, or a dash for a cell without one.
pub(crate) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

pub(crate) const SECONDS_PER_DAY: i64 = 86_400;

/// The seconds until a time in RFC 3339, negative if it has passed.
pub(crate) fn seconds_to(time: &str, now: Timestamp) -> Option<i64> {
    let time = time.parse::<Timestamp>().ok()?;
    Some(time.duration_since(now).as_secs())
}

/// The error of a member's clock, if it is known to be wrong.
pub(crate) fn wrong_clock(member: &Member) -> Option<String> {
    let ahead_ms = member.clock_ahead_ms?;
    let way = if ahead_ms < 0.0 { "behind" } else { "ahead of" };
    let (name, by) = (&member.name, ahead_ms.abs() / 1000.0);
    Some(format!(
        "the clock of {name} is {by:.3} s {way} the majority's"
    ))
}

/// Milliseconds with the unit that people would use: `250ms`, `12.3s`, `4m 5s`, `2h 3m`, `3d 4h`.
/// Other texts stay as they are.
pub(crate) fn duration(ms: &str) -> String {
    ms.parse().map_or_else(|_| ms.to_owned(), milliseconds)
}

pub(crate) fn milliseconds(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms}ms"),
        1..60 => format!("{}.{}s", seconds, ms % 1000 / 100),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// `1.2 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    match NumberPrefix::binary(bytes as f64) {
        NumberPrefix::Standalone(_) => format!("{bytes} bytes"),
        NumberPrefix::Prefixed(unit, size) => format!("{size:.1} {unit}B"),
    }
}

/// `1.2 MiB (1234567 bytes)`.
pub(crate) fn bytes(bytes: u64) -> String {
    match NumberPrefix::binary(bytes as f64) {
        NumberPrefix::Standalone(_) => format!("{bytes} bytes"),
        NumberPrefix::Prefixed(unit, size) => format!("{size:.1} {unit}B ({bytes} bytes)"),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_for_people() {
        let shown = ["250", "12345", "245000", "7380000", "273600000", "-"].map(duration);
        assert_eq!(shown, ["250ms", "12.3s", "4m 5s", "2h 3m", "3d 4h", "-"]);
        assert_eq!(bytes(17), "17 bytes");
        assert_eq!(bytes(1536), "1.5 KiB (1536 bytes)");
        assert_eq!(bytes(5 << 30), "5.0 GiB (5368709120 bytes)");
        assert_eq!(time(1_795_228_001_118), "2026-11-21T02:26:41.118Z");
    }
}
