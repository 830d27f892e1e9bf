//! `seqd tls init`: creates a CA and its first certificates.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use seqd_client::api::exit;
use seqd_net::tls::issue::Authority;
use serde_json::json;

use super::folder::{CA, Folder, failed, for_days};
use super::issued::{add_command, as_json, report, to_copy, to_use, write_all};
use super::subjects::{name_of, subjects};
use super::{date, now};
use crate::failure::Failure;
use crate::format::Format;

/// The validity of a CA. A CA is replaced when its key is lost, not by the calendar.
const CA_DAYS: u32 = 3650;

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Folder for the files; it is created if it is missing, and existing files are not overwritten
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Nodes, comma-separated: NAME=HOST[,HOST...] with names and addresses, or host names alone,
    /// whose first labels are the nodes' names
    #[arg(
        long,
        value_delimiter = ',',
        required = true,
        value_name = "NAME=HOST,..."
    )]
    nodes: Vec<String>,
    /// Client that gets a certificate of its own, for nodes that require one; repeatable
    #[arg(long = "client", value_name = "NAME")]
    clients: Vec<String>,
    /// More names and addresses by which clients reach every node, such as a load balancer's
    #[arg(long, value_delimiter = ',', value_name = "HOST,...")]
    also: Vec<String>,
    /// Validity of the certificates of nodes and clients, in days
    #[arg(long, default_value = "365", value_parser = RangedU64ValueParser::<u32>::new().range(1..=3650))]
    days: u32,
}

pub(super) fn run(args: &InitArgs, format: Format) -> Result<u8, Failure> {
    let subjects = subjects("--nodes", &args.nodes, &args.clients, &args.also)?;
    let folder = Folder::new(&args.dir);
    for name in [CA].into_iter().chain(subjects.iter().map(name_of)) {
        folder.refuse_present(name).map_err(|refused| {
            let dir = args.dir.display();
            let add = add_command(&args.dir, "--node NAME=HOST");
            refused.with_hint(format!(
                "to add a certificate: {add}; to replace one: seqd tls renew --dir {dir} --node NAME"
            ))
        })?;
    }
    folder.create()?;
    let now = now();
    let (authority, ca) = Authority::create("seqd CA", for_days(CA_DAYS, now)).map_err(failed)?;
    let validity = authority.within(for_days(args.days, now));
    write_all(&folder, &authority, &subjects, validity, || {
        folder.put(CA, &ca)
    })?;
    let certificates = as_json(&folder, &subjects, validity);
    let all =
        json!({ "ca": folder.cert(CA), "ca_key": folder.key(CA), "certificates": certificates });
    let people = format!(
        "{dir}: a CA of {CA_DAYS} days, certificates until {until}\n\n\
         keep   ca.key   away from the nodes: its owner can impersonate any node\n{copy}{rest}",
        dir = args.dir.display(),
        until = date(validity.until),
        copy = to_copy(&subjects),
        rest = to_use(&subjects, ", and of each other node with its own name"),
    );
    let report = report(&all, &folder, &subjects)?.with_people(people);
    report.print(format)?;
    Ok(exit::OK)
}
