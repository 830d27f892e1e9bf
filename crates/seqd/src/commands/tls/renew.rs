//! `seqd tls renew`: issues new certificates with the names of the old ones.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use seqd_client::api::exit;
use seqd_net::tls::issue::Subject;
use seqd_net::tls::{Certificate, read_certificates};
use serde_json::json;

use super::folder::{Folder, failed, for_days};
use super::{date, now};
use crate::failure::Failure;
use crate::format::Format;
use crate::output::Report;

#[derive(Debug, Args)]
pub(crate) struct RenewArgs {
    /// Folder that `seqd tls init` created
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Name of one node or client to renew; all by default
    #[arg(long, value_name = "NAME", alias = "client")]
    node: Option<String>,
    /// Validity of the new certificates, in days
    #[arg(long, default_value = "365", value_parser = RangedU64ValueParser::<u32>::new().range(1..=3650))]
    days: u32,
}

pub(super) fn run(args: &RenewArgs, format: Format) -> Result<u8, Failure> {
    let folder = Folder::new(&args.dir);
    let authority = folder.authority()?;
    let mut names = folder.names()?;
    if let Some(one) = &args.node {
        names.retain(|name| name == one);
    }
    if names.is_empty() {
        let why = match &args.node {
            Some(one) => format!("{} does not exist", folder.cert(one).display()),
            None => format!(
                "{} contains no certificates of nodes or clients",
                args.dir.display()
            ),
        };
        return Err(Failure::of(exit::NOT_FOUND, "not-found", why));
    }
    let validity = for_days(args.days, now());
    let mut renewed = Vec::new();
    for name in names {
        let chain = read_certificates(&folder.cert(&name)).map_err(failed)?;
        let read = chain.first().map(Certificate::read);
        let Some(read) = read.transpose().map_err(failed)? else {
            continue;
        };
        let subject = match read.node {
            Some(node) => Subject::Node {
                name: node,
                hosts: read.hosts,
            },
            None => Subject::Client { name: read.subject },
        };
        renewed.push((name, authority.issue(&subject, validity).map_err(failed)?));
    }
    let mut items = Vec::new();
    for (name, issued) in &renewed {
        folder.put(name, issued)?;
        items.push(
            json!({ "name": name, "cert": folder.cert(name), "key": folder.key(name),
            "expires": date(validity.until) }),
        );
    }
    let mut report = Report::list(&items)?.with_columns(&["name", "cert", "expires"]);
    for (name, _) in &renewed {
        let cert = folder.cert(name).display().to_string();
        report.row(vec![name.clone(), cert, date(validity.until)]);
    }
    let mut people = report.table();
    people
        .push_str("copy each certificate and its key to the place of the old ones: a node loads\n");
    people.push_str("them within ten seconds, without a restart\n");
    report.with_people(people).print(format)?;
    Ok(exit::OK)
}
