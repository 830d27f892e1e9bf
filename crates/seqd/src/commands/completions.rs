//! `seqd completions`: completions for a shell.

use clap::{Args, Command};
use clap_complete::Shell;
use seqd_client::api::exit;

use crate::failure::Failure;
use crate::output::write_stdout;

/// The options of the command.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to print completions for
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs, mut line: Command) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut line, "seqd", &mut text);
    write_stdout(&String::from_utf8_lossy(&text))?;
    Ok(exit::OK)
}
