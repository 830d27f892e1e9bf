//! `seqd tls`: creates a cluster's own CA and the certificates of its nodes and clients, as files.

mod add;
mod folder;
mod init;
mod inspect;
mod issued;
mod renew;
mod subjects;
#[cfg(test)]
mod tests;

use clap::Subcommand;

pub(crate) use folder::{CA, Folder, failed, for_days, write};

use crate::failure::Failure;
use crate::format::Format;

/// The operations on certificates.
#[derive(Debug, Subcommand)]
pub(crate) enum TlsCommand {
    /// Create a CA, and certificates for the nodes of a cluster and for its clients
    Init(init::InitArgs),
    /// Make certificates for more nodes and clients, signed by the CA in a folder
    Add(add::AddArgs),
    /// Replace the certificates and keys in a folder with new ones, signed by its CA
    Renew(renew::RenewArgs),
    /// Print the contents of certificates, and check their keys
    Inspect(inspect::InspectArgs),
}

pub(crate) fn run(command: TlsCommand, format: Format) -> Result<u8, Failure> {
    match command {
        TlsCommand::Init(args) => init::run(&args, format),
        TlsCommand::Add(args) => add::run(&args, format),
        TlsCommand::Renew(args) => renew::run(&args, format),
        TlsCommand::Inspect(args) => inspect::run(&args, format),
    }
}

/// The time in seconds since 1970.
pub(crate) fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// A time as text.
fn date(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| String::new(), |at| at.to_string())
}
