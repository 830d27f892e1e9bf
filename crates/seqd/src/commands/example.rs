//! The worked example of `docs/internals/EXTENDING.md`, compiled only for tests: `seqd example`
//! prints the version of the answering node.

use clap::Args;

use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// The options of the command.
#[derive(Debug, Args)]
pub(crate) struct ExampleArgs {
    /// Without the revision
    #[arg(long)]
    short: bool,
}

pub(crate) async fn run(args: ExampleArgs, session: &Session) -> Result<u8, Failure> {
    let mut version = session.client.version().await?;
    if args.short {
        version.revision = None;
    }
    let mut report = Report::new(&version)?.with_columns("version revision");
    report.row(vec![version.version, version.revision.unwrap_or_default()]);
    session.print(&report)
}
