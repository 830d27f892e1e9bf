//! `seqd man`: writes a man page for each command.

use std::path::PathBuf;

use clap::{Args, Command};
use seqd_client::api::exit;

use crate::failure::Failure;
use crate::output::write_stderr;

/// The options of the command.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder for the pages; created if missing
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(args: &ManArgs, line: Command, is_quiet: bool) -> Result<u8, Failure> {
    let shown = args.dir.display();
    let failed = |error: std::io::Error| Failure::failed(format!("{shown}: {error}"));
    std::fs::create_dir_all(&args.dir).map_err(failed)?;
    clap_mangen::generate_to(line, &args.dir).map_err(failed)?;
    if !is_quiet {
        write_stderr(&format!(
            "wrote the man pages to {shown}: man {shown}/seqd.1\n"
        ));
    }
    Ok(exit::OK)
}
