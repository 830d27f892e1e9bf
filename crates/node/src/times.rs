//! Times in RFC 3339, in UTC and with milliseconds, and in the form of HTTP; durations in
//! milliseconds.

use std::time::Duration;

use seqd_idgen::WallMs;

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// `None` after the year 9999.
fn timestamp(at: WallMs) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()
}

/// The time as `2026-11-21T02:26:41.118Z`.
pub(crate) fn rfc3339(at: WallMs) -> String {
    match timestamp(at) {
        Some(stamp) => format!("{stamp:.3}"),
        // RFC 3339 has no dates after the year 9999, so the number is shown.
        None => format!("{} ms after 1970", at.0),
    }
}

/// The time as the `Date` header has it (RFC 9110, section 5.6.7); empty after the year 9999.
pub(crate) fn http_date(at: WallMs) -> String {
    let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
    timestamp(at)
        .and_then(|stamp| printer.timestamp_to_rfc9110_string(&stamp).ok())
        .unwrap_or_default()
}

/// Parses a time in RFC 3339 or in milliseconds of Unix time. A time between two milliseconds or in
/// a leap second is `None`, because it would be taken for another time.
pub(crate) fn parse(text: &str) -> Option<WallMs> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(WallMs);
    }
    let stamp: jiff::Timestamp = text.parse().ok()?;
    if stamp.subsec_nanosecond() % 1_000_000 != 0 || text.contains(":60") {
        return None;
    }
    u64::try_from(stamp.as_millisecond()).ok().map(WallMs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds_and_end_in_z() {
        assert_eq!(
            rfc3339(WallMs(1_795_228_001_118)),
            "2026-11-21T02:26:41.118Z"
        );
        assert_eq!(rfc3339(WallMs(0)), "1970-01-01T00:00:00.000Z");
        assert!(rfc3339(WallMs(u64::MAX)).contains("after 1970"));
    }

    #[test]
    fn a_time_is_read_in_either_form() {
        for text in ["2026-11-21T02:26:41.118Z", "2026-11-21T03:26:41.118+01:00"] {
            assert_eq!(parse(text), Some(WallMs(1_795_228_001_118)), "{text}");
        }
        assert_eq!(parse("1795228001118"), Some(WallMs(1_795_228_001_118)));
        let bad = [
            "",
            "-5",
            "1e3",
            "2026-11-21",
            "1969-12-31T23:59:59Z",
            "99999999999999999999",
            "2026-01-01T00:00:00.0005Z",
            "2026-06-30T23:59:60Z",
        ];
        for text in bad {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
