//! Parsers for the values of options. Their errors state what is allowed, with an example.

use std::time::Duration;

/// A count or a size.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| "expected a whole number, such as 100".to_owned())
}

/// The name of a sequence. An empty name is refused here, because it has no path of its own in the
/// API; the server checks everything else.
pub(crate) fn sequence_name(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a sequence name must not be empty".to_owned());
    }
    Ok(text.to_owned())
}

/// An `Idempotency-Key`, which is the value of a header; the server checks everything else.
pub(crate) fn idempotency_key(text: &str) -> Result<String, String> {
    if text.chars().any(char::is_control) {
        return Err("a key must not contain a line end or another control character".to_owned());
    }
    Ok(text.to_owned())
}

/// A value of a sequence.
pub(crate) fn value(text: &str) -> Result<i64, String> {
    let rule = || {
        let (min, max) = (i64::MIN, i64::MAX);
        format!("expected a whole number from {min} to {max}, such as 500000")
    };
    text.parse().map_err(|_| rule())
}

/// A switch, whose variable may be set to a word. A word that is neither yes nor no is refused:
/// `SEQD_YES=maybe` must confirm nothing. An empty variable counts as unset.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "y" | "on" => Ok(true),
        "" | "0" | "false" | "no" | "n" | "off" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// A duration above zero.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let found = humantime::parse_duration(text).ok();
    let found = found.filter(|duration| !duration.is_zero());
    found.ok_or_else(|| {
        "expected a duration above zero with its unit, such as 3s or 500ms".to_owned()
    })
}

/// A duration, zero included.
pub(crate) fn duration_or_zero(text: &str) -> Result<Duration, String> {
    let found = humantime::parse_duration(text);
    found.map_err(|_| "expected a duration with its unit, such as 3s, 500ms or 0s".to_owned())
}

/// A duration in the unit of the API.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The shortest TTL of a hold in which a command runs: a second process is started in it, and on a
/// busy machine both must detect its end in time.
const LEAST_HELD: Duration = Duration::from_secs(1);

/// The longest TTL, the limit of the cluster.
const MOST_HELD: Duration = Duration::from_secs(24 * 60 * 60);

/// The TTL of a hold in which a command runs.
pub(crate) fn held_for(text: &str) -> Result<Duration, String> {
    let held = duration(text)?;
    let fits = (LEAST_HELD..=MOST_HELD).contains(&held);
    fits.then_some(held)
        .ok_or_else(|| "the ttl of a hold must be 1s to 24h, such as 30s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_value_is_refused_with_the_accepted_form() {
        assert_eq!(duration("1m 3s"), Ok(Duration::from_secs(63)));
        for wrong in ["5", "", "0s", "-3s", "5 bananas"] {
            let why = duration(wrong).unwrap_err();
            assert!(why.ends_with("such as 3s or 500ms"), "{wrong}: {why}");
        }
        for (word, is_on) in [("", false), ("no", false), ("1", true), ("TRUE", true)] {
            assert_eq!(switch(word), Ok(is_on), "{word}");
        }
        for wrong in ["maybe", "disabled", " yes"] {
            assert!(switch(wrong).is_err(), "{wrong}");
        }
        assert_eq!(held_for("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(held_for("24h"), Ok(Duration::from_secs(24 * 3600)));
        for wrong in ["999ms", "100ms", "24h 1s"] {
            assert!(
                held_for(wrong).unwrap_err().contains("1s to 24h"),
                "{wrong}"
            );
        }
        assert!(held_for("30").unwrap_err().contains("with its unit"));
        assert_eq!((number("7"), value("-7")), (Ok(7), Ok(-7)));
        for wrong in ["x", "", "-1", "1.5", "99999999999999999999"] {
            assert!(number(wrong).unwrap_err().contains("such as 100"));
        }
        assert!(
            value("9223372036854775808")
                .unwrap_err()
                .contains("9223372036854775807")
        );
    }
}
