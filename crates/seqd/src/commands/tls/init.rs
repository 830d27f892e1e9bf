//! `seqd tls init`: creates a CA and its first certificates.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use seqd_client::api::address::{HTTP_PORT, tls_url};
use seqd_client::api::name::NAME_RULE;
use seqd_client::api::{exit, validate_name};
use seqd_net::tls::issue::{Authority, Subject};
use serde_json::json;

use super::folder::{CA, Folder, failed, for_days};
use super::{date, now};
use crate::failure::Failure;
use crate::format::Format;
use crate::output::Report;

/// The validity of a CA. A CA is replaced when its key is lost, not by the calendar.
const CA_DAYS: u32 = 3650;

/// The hosts by which clients on the same machine reach a node.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The folder of the files on a node, for the printed instructions.
const THERE: &str = "/etc/seqd/tls";

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Folder for the files; it is created if it is missing, and existing files are not overwritten
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Nodes, comma-separated: NAME=HOST, or HOST, whose first label is the name
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
    /// Validity of the certificates of nodes and clients, in days
    #[arg(long, default_value = "365", value_parser = RangedU64ValueParser::<u32>::new().range(1..=3650))]
    days: u32,
}

pub(super) fn run(args: &InitArgs, format: Format) -> Result<u8, Failure> {
    let subjects = subjects(args)?;
    let names: Vec<&str> = subjects.iter().map(|(name, _)| name.as_str()).collect();
    let folder = Folder::new(&args.dir);
    folder.refuse_present(&[&[CA][..], &names].concat())?;
    folder.create()?;
    let now = now();
    let (authority, ca) = Authority::create("seqd CA", for_days(CA_DAYS, now)).map_err(failed)?;
    let validity = for_days(args.days, now);
    // All certificates are signed before anything is written, so that a name that is invalid in a
    // certificate leaves no file.
    let mut issued = Vec::new();
    for (name, subject) in &subjects {
        issued.push((name, authority.issue(subject, validity).map_err(failed)?));
    }
    folder.put(CA, &ca)?;
    for (name, issued) in issued {
        folder.put(name, &issued)?;
    }
    let files: Vec<_> = subjects
        .iter()
        .map(|(name, subject)| {
            let (kind, hosts) = match subject {
                Subject::Node { hosts, .. } => ("node", hosts.as_slice()),
                Subject::Client { .. } => ("client", [].as_slice()),
            };
            json!({ "name": name, "kind": kind, "hosts": hosts, "cert": folder.cert(name),
                "key": folder.key(name), "expires": date(validity.until) })
        })
        .collect();
    let all = json!({ "ca": folder.cert(CA), "ca_key": folder.key(CA), "certificates": files });
    let mut report = Report::new(&all)?
        .with_columns(&["name", "cert", "key"])
        .with_people(people(args, &subjects, &date(validity.until)));
    for (name, _) in &subjects {
        let path = |path: PathBuf| path.display().to_string();
        report.row(vec![
            name.clone(),
            path(folder.cert(name)),
            path(folder.key(name)),
        ]);
    }
    report.print(format)?;
    Ok(exit::OK)
}

/// The nodes and clients, with the base names of their files.
fn subjects(args: &InitArgs) -> Result<Vec<(String, Subject)>, Failure> {
    let mut subjects: Vec<(String, Subject)> = Vec::new();
    for item in &args.nodes {
        let (name, host) = match item.split_once('=') {
            Some((name, host)) => (name, host),
            None => (item.split('.').next().unwrap_or(item), item.as_str()),
        };
        if !is_host(host) {
            let why = format!(
                "--nodes: {item:?} is not NAME=HOST: the host is a name or an address, without a \
                 port"
            );
            return Err(Failure::usage(why));
        }
        let mut hosts = vec![host.to_owned()];
        hosts.extend(
            LOOPBACK
                .iter()
                .filter(|own| **own != host)
                .map(|own| (*own).to_owned()),
        );
        let name = name.to_owned();
        subjects.push((name.clone(), Subject::Node { name, hosts }));
    }
    for name in &args.clients {
        let name = name.clone();
        subjects.push((name.clone(), Subject::Client { name }));
    }
    for (at, (name, _)) in subjects.iter().enumerate() {
        // The name is also a file name.
        if validate_name(name).is_err() {
            return Err(Failure::usage(format!("{name}: a name is {NAME_RULE}")));
        }
        if name == CA || subjects[..at].iter().any(|(other, _)| other == name) {
            let why = format!("{name} is listed twice: each node and client needs its own name");
            return Err(Failure::usage(why).with_hint("give the names of nodes as NAME=HOST"));
        }
    }
    Ok(subjects)
}

/// Returns whether the text is a host name or an IP address.
fn is_host(text: &str) -> bool {
    if text.parse::<std::net::IpAddr>().is_ok() {
        return true;
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    !text.is_empty() && text.len() <= 253 && text.bytes().all(plain)
}

fn people(args: &InitArgs, subjects: &[(String, Subject)], until: &str) -> String {
    let dir = args.dir.display();
    let mut text = format!(
        "{dir}: a CA of {CA_DAYS} days, certificates until {until}\n\n\
         keep   ca.key   away from the nodes: its owner can impersonate any node\n"
    );
    for (name, subject) in subjects {
        let _ = match subject {
            Subject::Node { hosts, .. } => {
                let host = hosts.first().map_or("", String::as_str);
                writeln!(
                    text,
                    "copy   ca.crt {name}.crt {name}.key   to {THERE} on {host}"
                )
            }
            Subject::Client { .. } => {
                writeln!(
                    text,
                    "copy   ca.crt {name}.crt {name}.key   to the client {name}"
                )
            }
        };
    }
    let Some((name, Subject::Node { hosts, .. })) = subjects.first() else {
        return text;
    };
    let file = |end: &str| format!("\"{THERE}/{name}.{end}\"");
    let _ = writeln!(
        text,
        "\nin the configuration of {name}, and of each other node with its own name:\n\n\
         [tls]\ncert = {cert}\nkey = {key}\n{client_ca}client_ca = \"{THERE}/ca.crt\"\n\
         peer_cert = {cert}\npeer_key = {key}\npeer_ca = \"{THERE}/ca.crt\"\n",
        cert = file("crt"),
        key = file("key"),
        client_ca = if args.clients.is_empty() { "# " } else { "" },
    );
    let host = hosts.first().map_or("", String::as_str);
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let url = tls_url(format_args!("{host}:{HTTP_PORT}"));
    let own = args.clients.first();
    let own = own.map_or_else(String::new, |client| {
        format!(" --cert {client}.crt --key {client}.key")
    });
    let _ = writeln!(text, "seqd -e {url} --cacert ca.crt{own} status");
    text
}
