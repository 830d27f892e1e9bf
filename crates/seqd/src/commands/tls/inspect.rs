//! `seqd tls inspect`: prints the contents of certificates and checks their keys.

use std::path::{Path, PathBuf};

use clap::Args;
use seqd_client::api::exit;
use seqd_net::tls::{Certificate, KeyFit, key_fit, read_certificates};
use serde_json::json;

use super::{date, now};
use crate::display::or_dash;
use crate::failure::Failure;
use crate::format::Format;
use crate::output::Report;

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// PEM files with certificates; the key of NAME.crt is read from NAME.key next to it
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Returns exit code 7 if a certificate has expired, is not valid yet, or has a key that does not
/// match.
pub(super) fn run(args: &InspectArgs, format: Format) -> Result<u8, Failure> {
    let now = now();
    let mut items = Vec::new();
    let mut rows = Vec::new();
    let mut is_healthy = true;
    for path in &args.files {
        let refused = |error: seqd_net::tls::TlsError| Failure::failed(error.to_string());
        let chain = read_certificates(path).map_err(refused)?;
        for (at, der) in chain.iter().enumerate() {
            let read = Certificate::read(der).map_err(refused)?;
            // The key belongs to the first certificate; the others are its issuers.
            let key = path.with_extension("key");
            let fit = (at == 0 && key.exists()).then(|| key_fit(der, &key));
            let state = read.validity.state(now);
            is_healthy &= state.is_none() && fit.as_ref().is_none_or(|fit| *fit == KeyFit::Fits);
            let (kind, uses) = kind_and_uses(&read);
            let days = read.validity.days_left(now);
            items.push(json!({
                "file": path, "kind": kind, "name": read.owner(), "hosts": read.hosts,
                "uses": uses, "issuer": read.issuer, "from": date(read.validity.from),
                "until": date(read.validity.until), "days_left": days, "problem": state,
                "key": fit.as_ref().map(ToString::to_string),
            }));
            let named = if read.is_ca {
                read.subject.clone()
            } else {
                format!("{kind} {}", read.owner())
            };
            rows.push(vec![
                shown(path),
                named,
                read.hosts.join(" "),
                uses.join(" "),
                date(read.validity.until),
                state.unwrap_or_else(|| days.to_string()),
                or_dash(fit),
            ]);
        }
    }
    let columns = "file for hosts use until days_left key";
    let mut report = Report::list(&items)?.with_columns(columns);
    rows.into_iter().for_each(|row| report.row(row));
    report.print(format)?;
    Ok(if is_healthy {
        exit::OK
    } else {
        exit::UNHEALTHY
    })
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn kind_and_uses(read: &Certificate) -> (&'static str, Vec<&'static str>) {
    if read.is_ca {
        return ("ca", vec!["signs"]);
    }
    let uses = [(read.for_server, "server"), (read.for_client, "client")];
    let uses = uses
        .into_iter()
        .filter(|(may, _)| *may)
        .map(|(_, name)| name);
    let kind = match (&read.node, read.for_server) {
        (Some(_), _) => "node",
        (None, true) => "server",
        (None, false) => "client",
    };
    (kind, uses.collect())
}
