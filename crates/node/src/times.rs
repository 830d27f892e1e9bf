//! Times shown to people: RFC 3339, UTC, milliseconds.

use seqd_idgen::WallMs;

/// The time as `2026-11-21T02:26:41.118Z`.
pub(crate) fn rfc3339(at: WallMs) -> String {
    let known = i64::try_from(at.0)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    match known {
        Some(stamp) => format!("{stamp:.3}"),
        // Past the year 9999 a calendar does not help; the number does.
        None => format!("{} ms after 1970", at.0),
    }
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
}
