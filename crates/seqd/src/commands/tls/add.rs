//! `seqd tls add`: issues certificates for more nodes and clients, signed by the folder's CA.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use seqd_client::api::exit;
use seqd_net::tls::issue::Subject;
use serde_json::json;

use super::date;
use super::folder::{CA, Folder};
use super::issued::{as_json, report, to_copy, to_use, validity_of, write_all};
use super::subjects::{name_of, subjects};
use crate::failure::Failure;
use crate::format::Format;

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Folder that `seqd tls init` created, with its ca.key
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Node with its names and addresses; repeatable
    #[arg(
        long = "node",
        value_delimiter = ',',
        required_unless_present = "clients",
        value_name = "NAME=HOST[,HOST...]"
    )]
    nodes: Vec<String>,
    /// Client, by its name; repeatable
    #[arg(long = "client", id = "clients", value_name = "NAME")]
    clients: Vec<String>,
    /// More names and addresses by which clients reach the nodes, such as a load balancer's
    #[arg(long, value_delimiter = ',', value_name = "HOST,...")]
    also: Vec<String>,
    /// Validity of the certificates, in days
    #[arg(long, default_value = "365", value_parser = RangedU64ValueParser::<u32>::new().range(1..=3650))]
    days: u32,
}

pub(super) fn run(args: &AddArgs, format: Format) -> Result<u8, Failure> {
    let subjects = subjects("--node", &args.nodes, &args.clients, &args.also)?;
    let folder = Folder::new(&args.dir);
    let authority = folder.authority()?;
    for subject in &subjects {
        let (kind, name) = match subject {
            Subject::Node { name, .. } => ("node", name),
            Subject::Client { name } => ("client", name),
        };
        folder.refuse_present(name_of(subject)).map_err(|refused| {
            let dir = args.dir.display();
            refused.with_hint(format!(
                "to replace it, with the same names: seqd tls renew --dir {dir} --{kind} {name}; \
                 more names: --also HOST"
            ))
        })?;
    }
    let validity = validity_of(&folder, &authority, args.days)?;
    write_all(&folder, &authority, &subjects, validity, || Ok(()))?;
    let all =
        json!({ "ca": folder.cert(CA), "certificates": as_json(&folder, &subjects, validity) });
    let people = format!(
        "{dir}: certificates until {until}\n\n{copy}{rest}",
        dir = args.dir.display(),
        until = date(validity.until),
        copy = to_copy(&subjects),
        rest = to_use(&subjects, ""),
    );
    let report = report(&all, &folder, &subjects)?.with_people(people);
    report.print(format)?;
    Ok(exit::OK)
}
