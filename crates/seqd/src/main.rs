//! The `seqd` binary: server, demo cluster, client and admin tool.
//!
//! This file parses the command line, runs the command and maps its result to an exit code. The
//! admin commands use only the client crate, as any other program would. Only `server`, `config`
//! and the commands for files (`snapshot`, `data`) use the node crate.
//!
//! Layers, lowest first. A module imports only from its own layer and from those below it:
//!
//! - `arguments`, `config_flags`, `display`, `examples`, `format`, `logging`, `private`,
//!   `progress`: the command line, and how values are printed
//! - `failure`, `output`: results and errors on the terminal
//! - `runtime`, `service_manager`, `session`, `signals`, `variables`: what a command runs in
//! - `bench`: the load generator of `seqd bench`
//! - `backup`, `commands`, `supervise`: the commands
//! - `demo`, `reload`, `server`: nodes in this process
//! - `cli`, `suggestions`: from a command line to a command
//! - `next_level`: a binary of its own, at the next level of formats, for tests of upgrades

mod arguments;
mod backup;
mod bench;
mod cli;
mod commands;
mod config_flags;
mod demo;
mod display;
mod examples;
mod failure;
mod format;
mod logging;
mod output;
mod private;
mod progress;
mod reload;
mod runtime;
mod server;
mod service_manager;
mod session;
mod signals;
mod suggestions;
mod supervise;
mod variables;

use std::process::ExitCode;

use clap::CommandFactory as _;
use mimalloc::MiMalloc;

use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::runtime::{block_on, current_thread};
use crate::session::Session;

/// A start with a large state allocates and frees many small pieces: the allocator takes a third of
/// its time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => return failure::report_usage(&suggestions::without_destructive(error)),
    };
    let format = cli.global.output;
    match run(cli) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.report(format),
    }
}

/// Runs the command and returns its exit code.
fn run(cli: Cli) -> Result<u8, Failure> {
    variables::check(&Cli::command(), std::env::vars_os())?;
    if cli.global.dry_run && !cli.command.has_dry_run() {
        let detail = "this command does not support --dry-run; nothing was done";
        return Err(Failure::usage(detail).with_hint("omit --dry-run, or unset SEQD_DRY_RUN"));
    }
    match cli.command {
        Command::Server(args) => return server::run(args),
        Command::Demo(args) => return demo::run(args),
        Command::Tls(command) => return commands::tls::run(command, cli.global.output),
        Command::Config(command) => return commands::config::run(command, &cli.global),
        Command::Completions(args) => return commands::completions::run(&args, Cli::command()),
        Command::Man(args) => {
            return commands::man::run(&args, Cli::command(), cli.global.quiet);
        }
        Command::Version => return commands::version::run(cli.global.output),
        Command::Guardian(args) => {
            return block_on(&current_thread()?, supervise::guardian::run(args));
        }
        _ => {}
    }
    let session = Session::open(&cli.global)?;
    block_on(&current_thread()?, client_command(cli.command, &session))
}

/// Runs a command that is a client of a cluster.
async fn client_command(command: Command, session: &Session) -> Result<u8, Failure> {
    match command {
        Command::Id(args) => commands::id::run(args, session).await,
        Command::Decode(args) => commands::decode::run(args, session).await,
        Command::VerifyIds(args) => commands::verify_ids::run(args, session).await,
        Command::Uuid(args) => commands::uuid::run(args, session).await,
        Command::Timestamp(args) => commands::timestamp::run(args, session).await,
        Command::Seq(command) => commands::seq::run(command, session).await,
        Command::Layout(command) => commands::layout::run(command, session).await,
        Command::Import(command) => commands::import::run(command, session).await,
        Command::Worker(command) => commands::worker::run(command, session).await,
        Command::Key(command) => commands::key::run(command, session).await,
        Command::Token(command) => commands::token::run(command, session).await,
        Command::Elect(command) => commands::elect::run(command, session).await,
        Command::Lock(command) => commands::lock::run(command, session).await,
        Command::Member(command) => commands::member::run(command, session).await,
        Command::Leader(command) => commands::leader::run(command, session).await,
        Command::Drain(args) => commands::drain::run(args, true, session).await,
        Command::Resume(args) => commands::drain::run(args, false, session).await,
        Command::Snapshot(command) => commands::snapshot::run(command, session).await,
        Command::Data(command) => commands::data::run(command, session),
        Command::Access(command) => commands::access::run(command, session).await,
        Command::Doctor => commands::doctor::run(session).await,
        Command::Status(args) => commands::status::run(args, session).await,
        Command::Bench(command) => commands::bench::run(command, session).await,
        #[cfg(test)]
        Command::Example(args) => commands::example::run(args, session).await,
        // `run` has handled these without a session.
        Command::Server(_)
        | Command::Demo(_)
        | Command::Tls(_)
        | Command::Config(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Guardian(_)
        | Command::Version => Ok(seqd_client::api::exit::FAILURE),
    }
}
