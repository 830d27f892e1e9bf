//! `seqd decode`: the fields of IDs, and the nodes that minted them.

use std::io::{self, IsTerminal as _, Read as _};

use clap::Args;
use seqd_client::api::{IdFormat, IdParts, IdPartsQuery, exit};

use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// Room for some 800,000 IDs, each of which takes a request.
const MAX_STDIN_BYTES: u64 = 16 << 20;

/// The options of the command.
#[derive(Debug, Args)]
pub(crate) struct DecodeArgs {
    /// IDs to decode; by default from stdin, one per line
    ids: Vec<String>,
    /// Layout of the IDs; by default the layout `default`
    #[arg(long)]
    layout: Option<String>,
    /// Text form of the IDs: dec, hex, b62 or crockford; dec by default
    #[arg(long, value_parser = |text: &str| text.parse::<IdFormat>())]
    format: Option<IdFormat>,
}

/// Decodes every ID, even after a failure. The first failure determines the exit code.
pub(crate) async fn run(args: DecodeArgs, session: &Session) -> Result<u8, Failure> {
    let ids = if args.ids.is_empty() || args.ids == ["-"] {
        from_stdin()?
    } else {
        args.ids
    };
    let format = args.format.unwrap_or_default();
    let query = IdPartsQuery {
        layout: args.layout,
        format: args.format.map(|format| format.to_string()),
    };
    let mut found = Vec::new();
    let mut code = exit::OK;
    for id in &ids {
        let parts = match format.parse(id) {
            Ok(_) => session
                .client
                .id_parts(id, &query)
                .await
                .map_err(Failure::from),
            Err(error) => Err(Failure::usage(error.to_string())
                .with_hint("set the format of the ID with --format dec, hex, b62 or crockford")),
        };
        match parts {
            Ok(parts) => found.push(parts),
            Err(failure) => {
                code = if code == exit::OK { failure.exit } else { code };
                failure.print(session.format);
            }
        }
    }
    if !found.is_empty() || ids.is_empty() {
        report(&found, ids.len())?.print(session.format)?;
    }
    Ok(code)
}

fn from_stdin() -> Result<Vec<String>, Failure> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Err(Failure::usage("give an ID, or IDs on stdin"));
    }
    let mut text = String::new();
    let read = stdin
        .lock()
        .take(MAX_STDIN_BYTES + 1)
        .read_to_string(&mut text);
    let read = read.map_err(|error| Failure::failed(format!("cannot read stdin: {error}")))?;
    if read as u64 > MAX_STDIN_BYTES {
        let why = format!("stdin is larger than {MAX_STDIN_BYTES} bytes");
        return Err(Failure::usage(why).with_hint("seqd verify-ids reads files of any size"));
    }
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// The report: an object for one requested ID, an array for several.
fn report(found: &[IdParts], asked: usize) -> Result<Report, Failure> {
    let report = match found {
        [only] if asked == 1 => Report::new(only)?,
        _ => Report::list(found)?,
    };
    let people = found.iter().map(line).collect();
    let columns = "id time worker node datacenter sequence layout hex base62 crockford origin";
    let mut report = report.with_columns(columns).with_people(people);
    for parts in found {
        report.row(vec![
            parts.id.to_string(),
            parts.time.clone(),
            parts.worker.to_string(),
            holder(parts).unwrap_or_default().to_owned(),
            parts
                .datacenter
                .map(|number| number.to_string())
                .unwrap_or_default(),
            parts.sequence.to_string(),
            parts.layout.clone(),
            parts.hex.clone(),
            parts.base62.clone(),
            parts.crockford.clone(),
            parts.origin.clone().unwrap_or_default(),
        ]);
    }
    Ok(report)
}

/// The holder of the worker: the node's name, otherwise the owner of the lease.
fn holder(parts: &IdParts) -> Option<&str> {
    let holder = parts.holder.as_ref()?;
    Some(holder.node.as_deref().unwrap_or(&holder.owner))
}

fn line(parts: &IdParts) -> String {
    let datacenter = parts
        .datacenter
        .map(|number| format!("datacenter {number}   "))
        .unwrap_or_default();
    let holder = holder(parts)
        .map(|name| format!(" ({name})"))
        .unwrap_or_default();
    // The name of a holder is printed next to the worker. Every other origin takes a sentence.
    let origin = match (parts.origin.as_deref(), &parts.origin_detail) {
        (None | Some("held"), _) | (_, None) => String::new(),
        (_, Some(detail)) => format!("   {detail}"),
    };
    format!(
        "  time {}   {datacenter}worker {}{holder}   sequence {}   layout {}   base62 {}   crockford {}{origin}\n",
        parts.time, parts.worker, parts.sequence, parts.layout, parts.base62, parts.crockford,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;

    fn parts() -> IdParts {
        serde_json::from_str(
            r#"{"id":"117450583018840065","layout":"default","time":"2026-11-21T02:26:41.118Z",
            "unix_ms":1795228001118,"tick":"28002400000","datacenter":null,"worker":2,"sequence":1,
            "hex":"1a1446bce002001","base62":"08fvLNRpKVt","crockford":"038A4NVBR0801",
            "holder":{"owner":"n2","node":"n2","lease":"7","from_tick":"1","fence_tick":"2"},
            "origin":"held","origin_detail":"node n2 held it"}"#,
        )
        .unwrap()
    }

    #[test]
    fn people_read_the_published_line() {
        assert_eq!(
            report(&[parts()], 1).unwrap().text(Format::Table),
            "  time 2026-11-21T02:26:41.118Z   worker 2 (n2)   sequence 1   layout default   \
             base62 08fvLNRpKVt   crockford 038A4NVBR0801\n"
        );
        let unheld = IdParts {
            holder: None,
            datacenter: Some(3),
            origin: Some("nobody".to_owned()),
            origin_detail: Some("nobody held it".to_owned()),
            ..parts()
        };
        let line = line(&unheld);
        assert!(
            line.contains("   datacenter 3   worker 2   sequence 1   "),
            "{line}"
        );
        assert!(line.ends_with("   nobody held it\n"), "{line}");
    }

    #[test]
    fn one_id_is_an_object_and_several_are_an_array() {
        let one: serde_json::Value =
            serde_json::from_str(&report(&[parts()], 1).unwrap().text(Format::Json)).unwrap();
        assert_eq!(one["sequence"], 1);
        let two: serde_json::Value =
            serde_json::from_str(&report(&[parts()], 2).unwrap().text(Format::Json)).unwrap();
        assert_eq!(two[0]["tick"], "28002400000");
    }
}
