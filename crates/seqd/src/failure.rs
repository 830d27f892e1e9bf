//! The failure of a command: one message on stderr and an exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use seqd_client::api::{command_of, exit};
use seqd_client::{Attempt, Error};
use seqd_offline::OfflineError;
use serde_json::{Map, Value, json};

use crate::format::Format;
use crate::output::write_stderr;

#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) exit: u8,
    code: String,
    detail: String,
    hint: Option<String>,
    /// The problem that a node returned, for `-o json`.
    problem: Map<String, Value>,
}

impl Failure {
    /// The command line is invalid.
    pub(crate) fn usage(detail: impl Into<String>) -> Self {
        Self::of(exit::USAGE, "usage", detail)
    }

    /// A failure for which no other exit code is defined.
    pub(crate) fn failed(detail: impl Into<String>) -> Self {
        Self::of(exit::FAILURE, "failure", detail)
    }

    /// A failure with this exit code and this error code.
    pub(crate) fn of(exit: u8, code: &str, detail: impl Into<String>) -> Self {
        let (code, detail) = (code.to_owned(), without_numbers(&detail.into()));
        Self {
            exit,
            code,
            detail,
            hint: None,
            problem: Map::new(),
        }
    }

    /// Refuses a response with another number of values than requested, before they are expanded.
    pub(crate) fn unless_count(received: u64, requested: Option<u64>) -> Result<(), Self> {
        let requested = requested.unwrap_or(1);
        if received == requested {
            return Ok(());
        }
        let detail = format!("the response has {received} values, and {requested} were requested");
        Err(Self::of(exit::FAILURE, "bad-answer", detail))
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The message in the given output format.
    pub(crate) fn text(&self, format: Format) -> String {
        if format.is_json() {
            let mut fields = self.problem.clone();
            fields.insert("code".to_owned(), json!(self.code));
            fields.insert("detail".to_owned(), json!(self.detail));
            fields.insert("exit".to_owned(), json!(self.exit));
            if let Some(hint) = &self.hint {
                fields.insert("hint".to_owned(), json!(hint));
            }
            return format!("{}\n", Value::Object(fields));
        }
        let mut text = format!("error: {} ({})\n", self.detail, self.code);
        if let Some(hint) = &self.hint {
            text.push_str(&format!("hint: {hint}\n"));
        }
        text
    }

    /// Writes the message to stderr without ending the program.
    pub(crate) fn print(&self, format: Format) {
        write_stderr(&self.text(format));
    }

    /// Writes the message to stderr and returns the program's exit code.
    pub(crate) fn report(&self, format: Format) -> ExitCode {
        self.print(format);
        ExitCode::from(self.exit)
    }
}

/// Returns the message without the error numbers that the standard library appends to errors of the
/// operating system.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + part.split_once(')').map_or("", |(_, rest)| rest)
    })
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = error.exit();
        let detail = error.to_string();
        match error {
            Error::Problem(problem) => {
                let detail = match problem.detail.is_empty() {
                    true => problem.title.to_string(),
                    false => problem.detail.to_string(),
                };
                let mut failure = Self::of(exit, &problem.code, detail);
                failure.hint = problem.hint.as_deref().map(command_of).map(str::to_owned);
                if let Ok(Value::Object(fields)) = serde_json::to_value(&problem) {
                    failure.problem = fields;
                }
                failure
            }
            Error::Endpoint(_) | Error::Name(_) | Error::Tls(_) => Self::usage(detail),
            Error::Setup(_) | Error::Write(_) => Self::failed(detail),
            Error::Unreachable(attempts) => {
                Self::of(exit, "unreachable", detail).with_hint(advice(&attempts))
            }
            Error::OutcomeUnknown(_) => Self::of(exit, "outcome-unknown", detail),
            Error::NoAnswer(attempts) => Self {
                hint: wrong_port(&attempts).map(str::to_owned),
                ..Self::of(exit, "no-answer", detail)
            },
            Error::BadAnswer { .. } => Self::of(exit, "bad-answer", detail),
        }
    }
}

/// What to do if no endpoint was reached. The first reason that has a remedy of its own decides.
fn advice(attempts: &[Attempt]) -> &'static str {
    let has = |part: &str| attempts.iter().any(|attempt| attempt.reason.contains(part));
    if let Some(hint) = wrong_port(attempts) {
        hint
    } else if has("not signed by a CA that is trusted here") {
        "name the CA of the cluster with --cacert ca.crt (SEQD_CACERT)"
    } else if has("this side's certificate") {
        "use a client certificate of the CA of the cluster that has not expired: seqd tls renew \
         --client NAME makes one"
    } else if has("its certificate expired") || has("its certificate has expired") {
        "the certificate of the node has expired: renew it there (seqd tls renew)"
    } else if has("requires a client's certificate") {
        "present a certificate with --cert client.crt --key client.key (seqd tls add --client \
         NAME makes one); a port for the other nodes (peer.listen, 7401) serves no clients"
    } else if has("does not speak TLS") {
        "this port has no TLS: give the endpoint the scheme http, and omit --cacert"
    } else {
        "is a node running there? set the endpoints with -e HOST:PORT,... or SEQD_ENDPOINTS"
    }
}

/// Advice for an endpoint with the default port of the peers. With TLS, the node ends the handshake
/// without a reason, because the certificate names no node.
fn wrong_port(attempts: &[Attempt]) -> Option<&'static str> {
    let mut reached = attempts.iter();
    let is_peers_port = |it: &Attempt| {
        let is_default = it.endpoint.ends_with(":7401");
        let answers = !it.reason.to_lowercase().contains("refused");
        is_default && answers || it.reason.contains("invalid HTTP version")
    };
    reached.any(is_peers_port).then_some(
        "is this the port for the other nodes (peer.listen, 7401 by default)? clients use that of \
         http.listen, 7400 by default",
    )
}

impl From<OfflineError> for Failure {
    fn from(error: OfflineError) -> Self {
        let exit = match error.code {
            "not-found" => exit::NOT_FOUND,
            "invalid-argument" => exit::USAGE,
            "already-exists" => exit::CONFLICT,
            _ => exit::FAILURE,
        };
        Self {
            hint: error.hint,
            ..Self::of(exit, error.code, error.message)
        }
    }
}

/// Reports an error of the command-line parser. Help and version are not failures.
pub(crate) fn report_usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && wants_json(std::env::args_os()) {
        return of_parser(&error.to_string()).report(Format::Json);
    }
    // An error is ignored: the streams are closed.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() {
        exit::USAGE
    } else {
        exit::OK
    })
}

/// The failure that an error text of the parser describes, without the usage lines.
fn of_parser(text: &str) -> Failure {
    let text = text.trim_start_matches("error: ");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.take_while(|line| !line.starts_with("Usage:"));
    let lines = lines.take_while(|line| !line.starts_with("For more information"));
    let (tips, detail): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with("tip:"));
    let hint = tips
        .first()
        .map(|tip| tip.trim_start_matches("tip:").trim());
    Failure {
        hint: hint.map(str::to_owned),
        ..Failure::usage(detail.join(" "))
    }
}

/// Returns whether the user requested JSON, for a command line that does not parse as a whole.
fn wants_json(args: impl Iterator<Item = OsString>) -> bool {
    let args: Vec<String> = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
    let json = |text: &str| matches!(text, "json" | "jsonl");
    let named = args
        .windows(2)
        .any(|pair| matches!(pair[0].as_str(), "-o" | "--output") && json(&pair[1]));
    let joined = args.iter().any(|arg| {
        let value = arg
            .strip_prefix("--output=")
            .or_else(|| arg.strip_prefix("-o"));
        value.is_some_and(|value| json(value.trim_start_matches('=')))
    });
    named || joined || std::env::var("SEQD_OUTPUT").is_ok_and(|value| json(&value))
}

#[cfg(test)]
mod tests {
    use seqd_client::api::{ErrorCode, Problem};

    use super::*;

    #[test]
    fn a_problem_keeps_its_exit_code_and_hint() {
        let problem = Problem::new(ErrorCode::NotFound, "no sequence order")
            .with_hint("seqd seq create order");
        let failure = Failure::from(Error::Problem(Box::new(problem)));
        assert_eq!(failure.exit, 3);
        assert_eq!(
            failure.text(Format::Table),
            "error: no sequence order (not-found)\nhint: seqd seq create order\n"
        );
        let json: Value = serde_json::from_str(&failure.text(Format::Json)).unwrap();
        assert_eq!(json["code"], "not-found");
        assert_eq!(json["status"], 404);
        assert_eq!(json["exit"], 3);
    }

    #[test]
    fn an_unreached_node_has_advice_for_its_reason() {
        let hint = |endpoint: &str, reason: &str| {
            let attempt = Attempt {
                endpoint: endpoint.to_owned(),
                reason: reason.to_owned(),
            };
            Failure::from(Error::Unreachable(vec![attempt]))
                .hint
                .unwrap()
        };
        let untrusted = "its certificate is not signed by a CA that is trusted here";
        assert!(hint("n1:7400", untrusted).contains("--cacert"));
        assert!(hint("n1:7400", "it requires a client's certificate").contains("--cert"));
        assert!(hint("n1:7400", "it does not speak TLS").contains("scheme http"));
        assert!(hint("n1:7401", "connection closed").contains("7401 by default"));
        assert!(hint("n1:7401", "connection refused").contains("is a node running there?"));
    }

    #[test]
    fn json_is_seen_in_a_line_that_does_not_parse() {
        let wants = |line: &str| wants_json(line.split(' ').map(OsString::from));
        assert!(wants("seqd id --nope -o json"));
        assert!(wants("seqd --output=jsonl nope"));
        assert!(wants("seqd -ojson nope"));
        assert!(!wants("seqd id --nope -o table"));
    }
}
