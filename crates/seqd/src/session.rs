//! What every client command has: the client, how to write, and whether to ask.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::FalseyValueParser;
use seqd_client::api::{Plan, Token, exit};
use seqd_client::{Client, ClientFiles, Options, parse_endpoints};
use tokio::time::{Instant, timeout};

use crate::arguments;
use crate::failure::Failure;
use crate::format::Format;
use crate::output::{Report, write_stderr};

/// How long a command is silent: a person begins to wonder.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Options that stand before or after the subcommand.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Nodes, comma-separated; each is tried in turn
    #[arg(
        short,
        long,
        global = true,
        env = "SEQD_ENDPOINTS",
        value_name = "HOST:PORT,..."
    )]
    #[arg(default_value = "127.0.0.1:7400")]
    pub(crate) endpoints: String,
    /// How data is written
    #[arg(
        short,
        long,
        global = true,
        env = "SEQD_OUTPUT",
        value_enum,
        default_value = "table"
    )]
    pub(crate) output: Format,
    /// The CAs that nodes' certificates are signed by, a PEM file; without it the system's own
    #[arg(long, global = true, env = "SEQD_CACERT", value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,
    /// This client's own certificate, a PEM file, where nodes require one
    #[arg(long, global = true, env = "SEQD_CERT", value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of --cert, a PEM file
    #[arg(long, global = true, env = "SEQD_KEY", value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// A file with the token that nodes are shown, open to its owner alone (mode 0600)
    #[arg(long, global = true, env = "SEQD_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Deadline of each request, such as 3s or 500ms
    #[arg(long, global = true, env = "SEQD_TIMEOUT", value_parser = arguments::duration)]
    pub(crate) timeout: Option<Duration>,
    /// Say nothing but data and errors
    #[arg(short, long, global = true, env = "SEQD_QUIET", value_parser = FalseyValueParser::new())]
    pub(crate) quiet: bool,
    /// Say more on stderr
    #[arg(short, long, global = true, env = "SEQD_VERBOSE")]
    #[arg(value_parser = FalseyValueParser::new())]
    pub(crate) verbose: bool,
    /// Do not ask before a destructive command
    #[arg(long, global = true, env = "SEQD_YES", value_parser = FalseyValueParser::new())]
    pub(crate) yes: bool,
    /// Check a change and say what it would do, and do nothing; commands that change nothing refuse this option
    #[arg(long, global = true, env = "SEQD_DRY_RUN", value_parser = FalseyValueParser::new())]
    pub(crate) dry_run: bool,
}

/// What every client command is run with.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) format: Format,
    quiet: bool,
    verbose: bool,
    yes: bool,
    pub(crate) is_dry_run: bool,
}

impl Session {
    /// Reads the global options; connects to nothing.
    pub(crate) fn open(global: &Global) -> Result<Self, Failure> {
        let tls = ClientFiles {
            cacert: global.cacert.clone(),
            cert: global.cert.clone(),
            key: global.key.clone(),
        };
        let endpoints = parse_endpoints(&global.endpoints, tls.is_given())?;
        let token = global.token_file.as_deref().map(Token::read).transpose();
        let token = token.map_err(|error| Failure::usage(error.to_string()))?;
        let client = Client::new(Options {
            endpoints,
            timeout: global.timeout,
            tls,
            token,
        })?;
        Ok(Self {
            client,
            format: global.output,
            quiet: global.quiet,
            verbose: global.verbose,
            yes: global.yes,
            is_dry_run: global.dry_run,
        })
    }

    /// Prints what a change would do; the server has checked it.
    pub(crate) fn print_plan(&self, plan: &Plan) -> Result<u8, Failure> {
        let mut report = Report::new(plan)?
            .with_columns(&["effect"])
            .with_people(format!("{}\n", plan.effect));
        report.row(vec![plan.effect.clone()]);
        report.print(self.format)?;
        Ok(exit::OK)
    }

    /// A line for people on stderr, not with `--quiet`.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            write_stderr(&format!("{text}\n"));
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// A line on stderr with `--verbose` only.
    pub(crate) fn verbose_note(&self, text: &str) {
        if self.verbose {
            self.note(text);
        }
    }

    /// Waits for `done`, and prints every few seconds what is awaited.
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

    /// Writes the effect of a destructive command and asks whether to go on.
    ///
    /// Without a terminal there is no question: it takes `--yes`, or it is a usage error.
    pub(crate) fn may_go_on(&self, effect: &str) -> Result<bool, Failure> {
        // With --quiet too: it is what the user agrees to.
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
                "this command needs --yes where nobody can be asked",
            ));
        }
        write_stderr("go on? [y/N] ");
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
