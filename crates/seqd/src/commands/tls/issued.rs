//! Issues and writes certificates of nodes and clients, and prints what to do with the files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use seqd_client::api::address::{HTTP_PORT, tls_url};
use seqd_client::api::exit;
use seqd_net::tls::Validity;
use seqd_net::tls::issue::{Authority, Subject};
use serde_json::{Value, json};

use super::folder::{CA, Folder, failed, for_days};
use super::subjects::name_of;
use super::{date, now};
use crate::failure::Failure;
use crate::output::{Report, write_stderr};

/// The folder of the files on a node, for the printed instructions.
const THERE: &str = "/etc/seqd/tls";

/// The validity of new certificates: as many days as requested, but not longer than that of the CA,
/// with a line on stderr if the CA shortens it.
///
/// # Errors
/// The CA has expired.
pub(super) fn validity_of(
    folder: &Folder,
    authority: &Authority,
    days: u32,
) -> Result<Validity, Failure> {
    let now = now();
    let requested = for_days(days, now);
    let validity = authority.within(requested);
    let (ca, end) = (folder.cert(CA), date(validity.until));
    let ca = ca.display();
    let remedy = "make a new CA, as described under \"A new CA\" in docs/ACCESS.md";
    if validity.until <= now {
        let why = format!("the CA {ca} expired at {end}, so it signs no certificates; {remedy}");
        return Err(Failure::of(exit::CONFLICT, "precondition-failed", why));
    }
    if validity.until < requested.until {
        write_stderr(&format!(
            "the certificates are valid until {end} instead of for {days} days, because the CA \
             {ca} expires then; {remedy}\n"
        ));
    }
    Ok(validity)
}

/// Signs all certificates, then writes them, so that a name that is invalid in a certificate leaves
/// no file. `first` is written before them.
pub(super) fn write_all(
    folder: &Folder,
    authority: &Authority,
    subjects: &[Subject],
    validity: Validity,
    first: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut issued = Vec::new();
    for subject in subjects {
        issued.push(authority.issue(subject, validity).map_err(failed)?);
    }
    first()?;
    for (subject, issued) in subjects.iter().zip(&issued) {
        folder.put(name_of(subject), issued)?;
    }
    Ok(())
}

/// One object per certificate.
pub(super) fn as_json(folder: &Folder, subjects: &[Subject], validity: Validity) -> Vec<Value> {
    let one = |subject: &Subject| {
        let name = name_of(subject);
        let (kind, hosts) = match subject {
            Subject::Node { hosts, .. } => ("node", hosts.as_slice()),
            Subject::Client { .. } => ("client", [].as_slice()),
        };
        json!({ "name": name, "kind": kind, "hosts": hosts, "cert": folder.cert(name),
            "key": folder.key(name), "expires": date(validity.until) })
    };
    subjects.iter().map(one).collect()
}

/// A report with one row per certificate.
pub(super) fn report(
    json: &Value,
    folder: &Folder,
    subjects: &[Subject],
) -> Result<Report, Failure> {
    let mut report = Report::new(json)?.with_columns("name cert key");
    let path = |path: PathBuf| path.display().to_string();
    for name in subjects.iter().map(name_of) {
        report.row(vec![
            name.to_owned(),
            path(folder.cert(name)),
            path(folder.key(name)),
        ]);
    }
    Ok(report)
}

/// A line per certificate: which files go where.
pub(super) fn to_copy(subjects: &[Subject]) -> String {
    let mut text = String::new();
    for subject in subjects {
        let name = name_of(subject);
        let files = format!("copy   ca.crt {name}.crt {name}.key");
        let _ = match subject {
            Subject::Node { hosts, .. } => {
                let host = first_host(hosts);
                let hosts = hosts.join(", ");
                writeln!(text, "{files}   to {THERE} on {host}   (valid for {hosts})")
            }
            Subject::Client { .. } => writeln!(text, "{files}   to the client {name}"),
        };
    }
    text
}

/// The section `[tls]` of the first node, and the command that tries it out as the first client.
/// Without a node, only the command, to be completed.
pub(super) fn to_use(subjects: &[Subject], others: &str) -> String {
    let mut clients = subjects.iter().filter_map(|subject| match subject {
        Subject::Client { name } => Some(name),
        Subject::Node { .. } => None,
    });
    let client = clients.next();
    let own = client.map_or_else(String::new, |client| {
        format!(" --cert {client}.crt --key {client}.key")
    });
    let Some(Subject::Node { name, hosts }) = subjects.first() else {
        return format!("\nseqd -e https://HOST:{HTTP_PORT} --cacert ca.crt{own} status\n");
    };
    let file = |end: &str| format!("\"{THERE}/{name}.{end}\"");
    let host = first_host(hosts);
    let url = if host.contains(':') {
        tls_url(format_args!("[{host}]:{HTTP_PORT}"))
    } else {
        tls_url(format_args!("{host}:{HTTP_PORT}"))
    };
    format!(
        "\nin the configuration of {name}{others}:\n\n\
         [tls]\ncert = {cert}\nkey = {key}\n{client_ca}client_ca = \"{THERE}/ca.crt\"\n\
         peer_cert = {cert}\npeer_key = {key}\npeer_ca = \"{THERE}/ca.crt\"\n\n\
         seqd -e {url} --cacert ca.crt{own} status\n",
        cert = file("crt"),
        key = file("key"),
        client_ca = if client.is_none() { "# " } else { "" },
    )
}

fn first_host(hosts: &[String]) -> &str {
    hosts.first().map_or("", String::as_str)
}

/// The command that adds a certificate to a folder, for hints.
pub(super) fn add_command(dir: &Path, what: &str) -> String {
    format!("seqd tls add --dir {} {what}", dir.display())
}
