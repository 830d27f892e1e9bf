//! Checks environment variables: a variable that begins with `SEQD_` and that no option reads is an
//! error, as an unknown key in the file is.

use std::ffi::OsString;

use clap::Command;
use seqd_client::api::nearest;

use crate::failure::Failure;
use crate::session::TOKEN;

/// The prefix of all variables of the program.
const OWN: &str = "SEQD_";

/// Variables that no option reads: the access token, and the variables that seqd sets for programs
/// that run under a lock or a worker lease, since such a program may run seqd.
const SET_FOR_PROGRAMS: [&str; 7] = [
    TOKEN,
    "SEQD_LOCK_NAME",
    "SEQD_LOCK_TOKEN",
    "SEQD_PID",
    "SEQD_WORKER",
    "SEQD_FROM_TICK",
    "SEQD_FENCE_TICK",
];

/// The prefix of variables of the project's own tests.
const TESTS: &str = "SEQD_TEST_";

/// Refuses the first of `variables` that has the prefix but is not known.
pub(crate) fn check(
    command: &Command,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<(), Failure> {
    let mut known = Vec::new();
    collect(command, &mut known);
    let text = |text: OsString| text.to_string_lossy().into_owned();
    let variables = variables.map(|(name, value)| (text(name), text(value)));
    let mut unknown: Vec<String> = variables
        .filter(|(name, _)| name.starts_with(OWN) && !name.starts_with(TESTS))
        .filter(|(name, _)| !SET_FOR_PROGRAMS.contains(&name.as_str()))
        .filter(|(name, value)| !known.contains(name) && !is_link_to_service(name, value))
        .map(|(name, _)| name)
        .collect();
    unknown.sort();
    let Some(first) = unknown.first() else {
        return Ok(());
    };
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let detail = format!("the variable {first} is unknown");
    // The variable of `node.insecure` lacks the section.
    let without_section = first.replacen("SEQD_NODE_", OWN, 1);
    let mut same = known.iter().copied().filter(|it| *it == without_section);
    let near = same.next().or_else(|| nearest(first, &known));
    Err(Failure::usage(detail).with_hint(match near {
        Some(near) => format!("did you mean {near}? otherwise unset {first}"),
        None => format!("unset {first}; `seqd server --help` shows all variables"),
    }))
}

/// Collects the variables that the options of the command and its subcommands read.
fn collect(command: &Command, known: &mut Vec<String>) {
    let names = command
        .get_arguments()
        .filter_map(|option| option.get_env());
    known.extend(names.map(|name| name.to_string_lossy().into_owned()));
    for inner in command.get_subcommands() {
        collect(inner, known);
    }
}

/// Returns whether Kubernetes sets this variable in each container for a service whose name begins
/// with `seqd`: `SEQD_SERVICE_HOST`, `SEQD_HTTP_PORT_7400_TCP_ADDR`, or `SEQD_HTTP_PORT`. Only the
/// value `tcp://...` distinguishes the last one from an attempt to set a port.
fn is_link_to_service(name: &str, value: &str) -> bool {
    let has_port =
        |(_, after): (&str, &str)| after.starts_with(|digit: char| digit.is_ascii_digit());
    name.contains("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || (name.ends_with("_PORT") && value.contains("://"))
        || name.split_once("_PORT_").is_some_and(has_port)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn refusal(names: &[&str]) -> Option<String> {
        refusal_of(names, "tcp://10.0.0.1:7400")
    }

    fn refusal_of(names: &[&str], value: &str) -> Option<String> {
        let variables = names.iter().map(|name| (name.into(), value.into()));
        let failure = check(&Cli::command(), variables).err()?;
        assert_eq!(failure.exit, 2);
        Some(failure.text(crate::format::Format::Table))
    }

    #[test]
    fn an_unknown_variable_names_the_nearest() {
        let text = refusal(&["PATH", "SEQD_HTTP_LISEN"]).unwrap();
        assert!(text.contains("SEQD_HTTP_LISEN is unknown"), "{text}");
        assert!(text.contains("did you mean SEQD_HTTP_LISTEN?"), "{text}");
        let text = refusal(&["SEQD_NODE_INSECURE"]).unwrap();
        assert!(text.contains("did you mean SEQD_INSECURE?"), "{text}");
        let text = refusal(&["SEQD_BANANA_SPLIT"]).unwrap();
        assert!(text.contains("unset SEQD_BANANA_SPLIT"), "{text}");
        let text = refusal_of(&["SEQD_HTTP_PORT"], "7400").unwrap();
        assert!(text.contains("SEQD_HTTP_PORT is unknown"), "{text}");
    }

    #[test]
    fn variables_of_options_tests_and_services_pass() {
        let names = [
            "SEQD_ENDPOINTS",
            "SEQD_CONFIG",
            "SEQD_NODE_NAME",
            "SEQD_DEMO_DATA_DIR",
            "SEQD_TEST_SEED",
            "SEQD_SERVICE_HOST",
            "SEQD_PORT",
            "SEQD_HTTP_PORT_7400_TCP_ADDR",
            "SEQD_PEERS_SERVICE_PORT_PEER",
        ];
        assert_eq!(refusal(&names), None);
    }
}
