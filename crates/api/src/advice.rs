//! Hints that name a request for programs and a command for people.
//!
//! A response over HTTP has both, the request first. The commands print the part for people alone.

/// The separator, which precedes the command. It is part of no path and of no command.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_the_command_and_programs_the_request_too() {
        let hint = call_or_command("PUT /v1/sequences/a creates it", "seqd seq create a");
        assert_eq!(hint, "PUT /v1/sequences/a creates it | seqd seq create a");
        assert_eq!(command_of(&hint), "seqd seq create a");
        assert_eq!(command_of("use a new key"), "use a new key");
    }
}
