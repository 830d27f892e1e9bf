//! `seqd tls`: a cluster's own CA, and the certificates of its nodes and clients, as files.

mod folder;
mod init;
mod inspect;
mod renew;

use clap::Subcommand;

pub(crate) use folder::{CA, Folder, failed, for_days, write};

use crate::failure::Failure;
use crate::format::Format;

/// What to do with certificates.
#[derive(Debug, Subcommand)]
pub(crate) enum TlsCommand {
    /// Make a CA, and certificates for the nodes of a cluster and for its clients
    Init(init::InitArgs),
    /// Make new certificates and keys in the place of those in a folder, signed by its CA
    Renew(renew::RenewArgs),
    /// Show what certificates state, and whether their keys fit
    Inspect(inspect::InspectArgs),
}

pub(crate) fn run(command: TlsCommand, format: Format) -> Result<u8, Failure> {
    match command {
        TlsCommand::Init(args) => init::run(&args, format),
        TlsCommand::Renew(args) => renew::run(&args, format),
        TlsCommand::Inspect(args) => inspect::run(&args, format),
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// A moment as a date.
fn date(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| String::new(), |at| at.to_string())
}
