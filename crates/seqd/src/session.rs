//! The context of a client command: the client, the output format and the confirmation of
//! destructive commands.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use seqd_client::api::{Plan, Token, exit};
use seqd_client::{Client, ClientFiles, DryRun, Options, Traced, parse_endpoints};
use serde::Serialize;
use tokio::time::{Instant, timeout};

use crate::arguments;
use crate::failure::Failure;
use crate::format::Format;
use crate::output::{Report, write_stderr};

/// The time without output after which a command prints what it waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Global options, accepted before and after the subcommand.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Nodes to connect to, comma-separated; the client tries them in turn
    #[arg(
        short,
        long,
        global = true,
        env = "SEQD_ENDPOINTS",
        value_name = "HOST:PORT,..."
    )]
    #[arg(default_value = "127.0.0.1:7400")]
    pub(crate) endpoints: String,
    /// Output format
    #[arg(
        short,
        long,
        global = true,
        env = "SEQD_OUTPUT",
        value_enum,
        default_value = "table"
    )]
    pub(crate) output: Format,
    /// PEM file with the CAs that signed the nodes' certificates; by default the CAs of the system
    #[arg(long, global = true, env = "SEQD_CACERT", value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,
    /// PEM file with the client's certificate, for nodes that require one
    #[arg(long, global = true, env = "SEQD_CERT", value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,
    /// PEM file with the private key of --cert
    #[arg(long, global = true, env = "SEQD_KEY", value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// File with the access token, of mode 0600 or stricter; a file of root may be readable by its
    /// group (0640). Without it, the token itself may be in SEQD_TOKEN
    #[arg(long, global = true, env = "SEQD_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Deadline of each request, such as 3s or 500ms; 5s by default
    #[arg(long, global = true, env = "SEQD_TIMEOUT", value_parser = arguments::duration)]
    pub(crate) timeout: Option<Duration>,
    /// Print only data and errors
    #[arg(short, long, global = true, env = "SEQD_QUIET", value_parser = arguments::switch)]
    pub(crate) quiet: bool,
    /// Print more on stderr: each request with its endpoint, result and time
    #[arg(short, long, global = true, env = "SEQD_VERBOSE")]
    #[arg(value_parser = arguments::switch)]
    pub(crate) verbose: bool,
    /// Do not ask for confirmation of a destructive command
    #[arg(long, global = true, env = "SEQD_YES", value_parser = arguments::switch)]
    pub(crate) yes: bool,
    /// Check a change and print its effect without making it; commands that change nothing refuse
    /// this option
    #[arg(long, global = true, env = "SEQD_DRY_RUN", value_parser = arguments::switch)]
    pub(crate) dry_run: bool,
}

/// The access token: of the file, otherwise of the variable. An empty variable counts as unset.
fn token_of(file: Option<&Path>, variable: &str) -> Result<Option<Token>, Failure> {
    let token = match file {
        Some(file) => Token::read(file).map_err(|error| error.to_string()),
        None if variable.is_empty() => return Ok(None),
        None => Token::parse(variable).map_err(|error| format!("{TOKEN}: {error}")),
    };
    token.map(Some).map_err(Failure::usage)
}

/// The variable with an access token, which the client libraries read, too.
pub(crate) const TOKEN: &str = "SEQD_TOKEN";

/// Prints a request of `--verbose`: endpoint, request, result and time.
fn print_attempt(traced: &Traced<'_>) {
    let Traced {
        endpoint,
        method,
        path,
        result,
        took,
    } = traced;
    let ms = took.as_secs_f64() * 1000.0;
    write_stderr(&format!(
        "{endpoint}  {method} {path}  {result}  {ms:.1}ms\n"
    ));
}

/// The context with which every client command runs.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    /// The options of `client`.
    pub(crate) options: Options,
    pub(crate) format: Format,
    pub(crate) is_quiet: bool,
    pub(crate) is_verbose: bool,
    yes: bool,
    pub(crate) is_dry_run: bool,
}

impl Session {
    /// Reads the global options. Opens no connection.
    pub(crate) fn open(global: &Global) -> Result<Self, Failure> {
        let tls = ClientFiles {
            cacert: global.cacert.clone(),
            cert: global.cert.clone(),
            key: global.key.clone(),
        };
        let endpoints = parse_endpoints(&global.endpoints, tls.is_given())?;
        let variable = std::env::var_os(TOKEN).unwrap_or_default();
        let token = token_of(global.token_file.as_deref(), &variable.to_string_lossy())?;
        let options = Options {
            endpoints,
            timeout: global.timeout,
            tls,
            trace: global.verbose.then_some(print_attempt as fn(&Traced<'_>)),
            token,
        };
        Ok(Self {
            client: Client::new(options.clone())?,
            options,
            format: global.output,
            is_quiet: global.quiet,
            is_verbose: global.verbose,
            yes: global.yes,
            is_dry_run: global.dry_run,
        })
    }

    /// Prints the effect of a change, as the server has computed it.
    pub(crate) fn print_plan(&self, plan: &Plan) -> Result<u8, Failure> {
        self.print(&Report::new(plan)?.with_values("effect", vec![plan.effect.clone()]))
    }

    /// Prints the result of a command that has succeeded.
    pub(crate) fn print(&self, report: &Report) -> Result<u8, Failure> {
        report.print(self.format)?;
        Ok(exit::OK)
    }

    /// Prints a note for people, or the response as JSON.
    pub(crate) fn done(&self, note: &str, response: &impl Serialize) -> Result<u8, Failure> {
        self.note(note);
        match self.format.is_json() {
            true => self.print(&Report::new(response)?),
            false => Ok(exit::OK),
        }
    }

    /// The client for dry runs, if this is one.
    pub(crate) fn trial(&self) -> Option<DryRun<'_>> {
        self.is_dry_run.then(|| self.client.dry_run())
    }

    /// Prints a plan and asks for confirmation. Returns the exit code if the command ends here: in
    /// a dry run, or without a confirmation.
    pub(crate) fn agreed(&self, plan: &Plan) -> Result<Option<u8>, Failure> {
        if self.is_dry_run {
            return self.print_plan(plan).map(Some);
        }
        let is_agreed = self.may_go_on(&plan.effect)?;
        Ok((!is_agreed).then_some(exit::OK))
    }

    /// Prints a line for people on stderr, unless `--quiet` is set.
    pub(crate) fn note(&self, text: &str) {
        if !self.is_quiet {
            write_stderr(&format!("{text}\n"));
        }
    }

    /// Prints a line on stderr if `--verbose` is set.
    pub(crate) fn verbose_note(&self, text: &str) {
        if self.is_verbose {
            self.note(text);
        }
    }

    /// Waits for `done`, and prints every few seconds what it waits for.
    pub(crate) async fn waiting<T>(&self, what: &str, done: impl Future<Output = T>) -> T {
        let mut done = std::pin::pin!(done);
        let begun = Instant::now();
        loop {
            match timeout(PATIENCE, &mut done).await {
                Ok(value) => return value,
                Err(_) => self.note(&format!("{what} ({} s)", begun.elapsed().as_secs())),
            }
        }
    }

    /// Prints the effect of a destructive command and asks for confirmation.
    ///
    /// Without a terminal it cannot ask: `--yes` is required, and its absence is a usage error.
    pub(crate) fn may_go_on(&self, effect: &str) -> Result<bool, Failure> {
        // Printed even with --quiet, because the user confirms it.
        write_stderr(&format!("{effect}\n"));
        if self.is_dry_run {
            self.note("dry run: nothing was changed");
            return Ok(false);
        }
        if self.yes {
            return Ok(true);
        }
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Err(Failure::usage(
                "this command needs --yes if stdin is not a terminal",
            ));
        }
        write_stderr("continue? [y/N] ");
        let mut answer = String::new();
        io::stdin()
            .lock()
            .read_line(&mut answer)
            .map_err(|error| Failure::failed(format!("cannot read the answer: {error}")))?;
        if matches!(answer.trim(), "y" | "Y" | "yes") {
            return Ok(true);
        }
        Err(Failure::failed("nothing was changed"))
    }
}
