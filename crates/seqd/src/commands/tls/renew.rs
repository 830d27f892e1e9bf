//! `seqd tls renew`: issues new certificates with the names of the old ones.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use seqd_client::api::exit;
use seqd_net::tls::issue::Subject;
use seqd_net::tls::{Certificate, read_certificates};
use serde_json::json;

use super::date;
use super::folder::{Folder, failed};
use super::issued::{add_command, validity_of};
use super::subjects::hosts;
use crate::failure::Failure;
use crate::format::Format;
use crate::output::Report;

#[derive(Debug, Args)]
pub(crate) struct RenewArgs {
    /// Folder that `seqd tls init` created
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Node to renew, by its name; repeatable; by default all nodes and clients
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,
    /// Client to renew, by its name; repeatable
    #[arg(long = "client", value_name = "NAME")]
    clients: Vec<String>,
    /// Names and addresses to add to the certificates of the nodes, such as a load balancer's
    #[arg(long, value_delimiter = ',', value_name = "HOST,...")]
    also: Vec<String>,
    /// Validity of the new certificates, in days
    #[arg(long, default_value = "365", value_parser = RangedU64ValueParser::<u32>::new().range(1..=3650))]
    days: u32,
}

pub(super) fn run(args: &RenewArgs, format: Format) -> Result<u8, Failure> {
    let folder = Folder::new(&args.dir);
    let authority = folder.authority()?;
    let also = hosts("--also", &args.also)?;
    let validity = validity_of(&folder, &authority, args.days)?;
    let mut renewed = Vec::new();
    let mut has_nodes = false;
    for name in names(args, &folder)? {
        let chain = read_certificates(&folder.cert(&name)).map_err(failed)?;
        let read = chain.first().map(Certificate::read);
        let Some(read) = read.transpose().map_err(failed)? else {
            continue;
        };
        check_owner(args, &folder, &name, &read)?;
        has_nodes |= read.node.is_some();
        let subject = match read.node {
            Some(node) => {
                let mut hosts = read.hosts;
                let more: Vec<_> = also.iter().filter(|host| !hosts.contains(host)).collect();
                hosts.extend(more.into_iter().cloned());
                Subject::Node { name: node, hosts }
            }
            None => Subject::Client { name: read.subject },
        };
        renewed.push((name, authority.issue(&subject, validity).map_err(failed)?));
    }
    if !has_nodes && !also.is_empty() {
        return Err(Failure::usage(
            "--also: only nodes have hosts, and no node is renewed",
        ));
    }
    let mut items = Vec::new();
    for (name, issued) in &renewed {
        folder.put(name, issued)?;
        items.push(
            json!({ "name": name, "cert": folder.cert(name), "key": folder.key(name),
            "expires": date(validity.until) }),
        );
    }
    let mut report = Report::list(&items)?.with_columns("name cert expires");
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

/// Refuses a certificate that belongs to another node or client than its file name and the options
/// state. Otherwise, the renewed certificate would give one machine the identity of another.
fn check_owner(
    args: &RenewArgs,
    folder: &Folder,
    name: &String,
    found: &Certificate,
) -> Result<(), Failure> {
    let is_node = found.node.is_some();
    let kind = |is_node: bool| if is_node { "node" } else { "client" };
    let (as_node, as_client) = (args.nodes.contains(name), args.clients.contains(name));
    let wants_node = as_node || !as_client && is_node;
    if found.owner() == name && wants_node == is_node && !(as_client && is_node) {
        return Ok(());
    }
    let (dir, cert) = (args.dir.display(), folder.cert(name));
    let cert = cert.display();
    let why = format!(
        "{cert} is the certificate of {} {}, not of {} {name}; nothing was renewed",
        kind(is_node),
        found.owner(),
        kind(wants_node),
    );
    let hint = if found.owner() == name {
        format!("seqd tls renew --dir {dir} --{} {name}", kind(is_node))
    } else {
        let host = if wants_node { "=HOST" } else { "" };
        format!(
            "put the files of {name} back, or move {cert} and its key away and run: seqd tls add \
             --dir {dir} --{} {name}{host}",
            kind(wants_node)
        )
    };
    Err(Failure::of(exit::CONFLICT, "precondition-failed", why).with_hint(hint))
}

/// The names of the certificates to renew.
fn names(args: &RenewArgs, folder: &Folder) -> Result<Vec<String>, Failure> {
    let present = folder.names()?;
    let not_found = |why: String, what: &str| {
        let hint = add_command(&args.dir, what);
        Err(Failure::of(exit::NOT_FOUND, "not-found", why).with_hint(hint))
    };
    let nodes = args
        .nodes
        .iter()
        .map(|name| (name, format!("--node {name}=HOST")));
    let clients = args
        .clients
        .iter()
        .map(|name| (name, format!("--client {name}")));
    for (name, what) in nodes.chain(clients) {
        if !present.contains(name) {
            let why = format!("{} does not exist", folder.cert(name).display());
            return not_found(why, &what);
        }
    }
    if present.is_empty() {
        let dir = args.dir.display();
        let why = format!("{dir} contains no certificates of nodes or clients");
        return not_found(why, "--node NAME=HOST");
    }
    let mut named: Vec<String> = args.nodes.iter().chain(&args.clients).cloned().collect();
    named.sort();
    named.dedup();
    Ok(if named.is_empty() { present } else { named })
}
