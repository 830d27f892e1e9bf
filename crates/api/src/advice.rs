//! Hints that name a request for programs and a command for people.
//!
//! A response over HTTP has both, the request first. The commands print the part for people alone.

/// The separator before the command. It occurs in no path and in no command.
const COMMAND: &str = " | ";

/// Joins the same advice as an HTTP request and as a command.
#[must_use]
pub fn call_or_command(call: &str, command: &str) -> String {
    format!("{call}{COMMAND}{command}")
}

/// Returns the command of a hint, or the whole hint if it names none.
#[must_use]
pub fn command_of(hint: &str) -> &str {
    hint.split_once(COMMAND)
        .map_or(hint, |(_, command)| command)
}

/// The condition for recovering the quorum from the remaining nodes, which loses all data that only
/// the missing voters had.
pub const LOST_MAJORITY: &str = "only if a majority and its disks are permanently lost, see \
     the page RECOVERY of the documentation, A lost majority (seqd data recover-quorum)";

/// After this time, a lost quorum may not return by itself. A restart of a host takes minutes, so
/// the advice does not state that the loss is permanent.
const LOST_FOR_LONG_MS: u64 = 30_000;

/// Returns the advice for a quorum that was lost this long ago, or `None` if it may return soon.
#[must_use]
pub fn lost_for_long(lost_ms: Option<u64>) -> Option<String> {
    let lost_ms = lost_ms.filter(|ms| *ms >= LOST_FOR_LONG_MS)?;
    let seconds = lost_ms / 1000;
    Some(format!(
        "no quorum for {seconds} s: start the missing nodes; {LOST_MAJORITY}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_for_a_lost_majority_comes_only_after_a_long_time() {
        assert_eq!(lost_for_long(None), None);
        assert_eq!(lost_for_long(Some(29_999)), None);
        let advice = lost_for_long(Some(45_000)).unwrap();
        assert!(advice.starts_with("no quorum for 45 s: start the missing nodes; only if a"));
    }

    #[test]
    fn people_read_the_command_and_programs_the_request_too() {
        let hint = call_or_command("PUT /v1/sequences/a creates it", "seqd seq create a");
        assert_eq!(hint, "PUT /v1/sequences/a creates it | seqd seq create a");
        assert_eq!(command_of(&hint), "seqd seq create a");
        assert_eq!(command_of("use a new key"), "use a new key");
    }
}
