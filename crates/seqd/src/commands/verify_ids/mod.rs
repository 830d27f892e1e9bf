//! `seqd verify-ids`: checks whether all IDs of a column can be IDs of this cluster, which holders
//! minted them, and which IDs repeat. The input is streamed, so a column may have any length.

mod repeats;

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use clap::Args;
use seqd_client::api::{IdFormat, exit};
use seqd_client::{Finding, Verifier};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;
use repeats::{GATHERED, Repeats};

/// The longest line that is read. An ID has at most 20 digits, and a wrong file may contain no line
/// ends.
const MAX_LINE_BYTES: u64 = 1024;

/// The options of the command.
#[derive(Debug, Args)]
pub(crate) struct VerifyIdsArgs {
    /// File with one ID per line; stdin by default
    file: Option<PathBuf>,
    /// Layout of the IDs
    #[arg(long, default_value = "default")]
    layout: String,
    /// Text form of the IDs: dec, hex, b62 or crockford
    #[arg(long, default_value = "dec", value_parser = |text: &str| text.parse::<IdFormat>())]
    format: IdFormat,
    /// Check a table that another system filled: compare bits, times and repetitions, but no leases
    #[arg(long)]
    foreign: bool,
    /// Number of examples to print for each finding
    #[arg(long, default_value_t = 5, value_name = "N")]
    examples: usize,
}

/// The findings, for `-o json`.
#[derive(Debug, Default, Serialize)]
struct Summary {
    layout: String,
    /// The number of lines that are not blank.
    lines: u64,
    /// `true` if no finding is an error.
    ok: bool,
    findings: Vec<FindingCount>,
    /// The number of IDs that occur more than once.
    duplicates: u64,
    /// The number of surplus lines: all occurrences of repeated IDs except the first ones.
    duplicate_lines: u64,
    holders: Vec<HolderCount>,
}

#[derive(Debug, Serialize)]
struct FindingCount {
    finding: &'static str,
    count: u64,
    wrong: bool,
    /// Examples, with their line numbers.
    examples: Vec<Example>,
}

#[derive(Debug, Clone, Serialize)]
struct Example {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<u64>,
}

#[derive(Debug, Serialize)]
struct HolderCount {
    holder: String,
    ids: u64,
}

pub(crate) async fn run(args: VerifyIdsArgs, session: &Session) -> Result<u8, Failure> {
    let verifier = Verifier::of(&session.client, &args.layout, !args.foreign).await;
    let verifier = verifier.map_err(|error| match error {
        seqd_client::VerifierError::Client(error) => Failure::from(error),
        seqd_client::VerifierError::Layout(error) => Failure::failed(error.to_string()),
    })?;
    let cannot_read = |error: io::Error| Failure::failed(format!("cannot read: {error}"));
    let summary = match args.file.as_deref().filter(|file| file.as_os_str() != "-") {
        Some(path) => {
            let file = std::fs::File::open(path).map_err(|error| {
                Failure::usage(format!("cannot open {}: {error}", path.display()))
            })?;
            verify(BufReader::with_capacity(1 << 20, file), &verifier, &args)
        }
        None => verify(io::stdin().lock(), &verifier, &args),
    };
    let summary = summary.map_err(cannot_read)?;
    report(&summary)?.print(session.format)?;
    Ok(if summary.ok { exit::OK } else { exit::FAILURE })
}

/// Checks every line.
fn verify(
    mut lines: impl BufRead,
    verifier: &Verifier,
    args: &VerifyIdsArgs,
) -> io::Result<Summary> {
    let mut counts: BTreeMap<Option<Finding>, (u64, Vec<Example>)> = BTreeMap::new();
    let mut held = vec![0_u64; verifier.holders().len()];
    let mut repeats = Repeats::new(GATHERED);
    let mut bytes = Vec::new();
    let (mut number_of_line, mut with_something) = (0, 0);
    while read_line(&mut lines, &mut bytes)? {
        number_of_line += 1;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        with_something += 1;
        let finding = match args.format.parse(text) {
            Ok(number) => {
                repeats.push(number)?;
                let (finding, holder) = verifier.check(number);
                if let Some(count) = holder.and_then(|at| held.get_mut(at)) {
                    *count += 1;
                }
                Some(finding)
            }
            Err(_) => None,
        };
        let (count, examples) = counts.entry(finding).or_default();
        *count += 1;
        if examples.len() < args.examples {
            examples.push(Example {
                id: text.chars().take(40).collect(),
                line: Some(number_of_line),
                times: None,
            });
        }
    }
    let repeated = repeats.finish(args.examples)?;
    let mut findings: Vec<FindingCount> = counts
        .into_iter()
        .map(|(finding, (count, examples))| FindingCount {
            finding: finding.map_or("malformed", Finding::as_str),
            count,
            wrong: finding.is_none_or(Finding::is_wrong),
            examples,
        })
        .collect();
    if repeated.numbers > 0 {
        let examples = repeated.examples.iter().map(|(number, times)| Example {
            id: args.format.encode(*number),
            line: None,
            times: Some(*times),
        });
        findings.push(FindingCount {
            finding: "duplicate",
            count: repeated.numbers,
            wrong: true,
            examples: examples.collect(),
        });
    }
    let holders = verifier.holders().iter().zip(held);
    let holders = holders.filter(|(_, ids)| *ids > 0);
    let mut holders: Vec<HolderCount> = holders
        .map(|(holder, ids)| HolderCount {
            holder: holder.clone(),
            ids,
        })
        .collect();
    holders.sort_by_key(|held| std::cmp::Reverse(held.ids));
    Ok(Summary {
        layout: verifier.layout().name().to_owned(),
        lines: with_something,
        ok: findings.iter().all(|finding| !finding.wrong),
        findings,
        duplicates: repeated.numbers,
        duplicate_lines: repeated.surplus,
        holders,
    })
}

/// Reads the next line without its end; returns `false` at the end of the input. Of a line that is
/// too long it returns the beginning, which is not a valid ID.
fn read_line(lines: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<bool> {
    bytes.clear();
    let read = io::Read::take(&mut *lines, MAX_LINE_BYTES).read_until(b'\n', bytes)?;
    if read as u64 == MAX_LINE_BYTES && bytes.last() != Some(&b'\n') {
        lines.skip_until(b'\n')?;
    }
    Ok(read > 0)
}

fn report(summary: &Summary) -> Result<Report, Failure> {
    let mut report = Report::new(summary)?.with_columns("finding count examples");
    for finding in &summary.findings {
        let examples = finding.examples.iter().map(|example| {
            let place = match (example.line, example.times) {
                (Some(line), _) => format!("line {line}"),
                (None, times) => format!("{} times", times.unwrap_or_default()),
            };
            format!("{} ({place})", example.id)
        });
        // A finding without a problem needs no examples.
        let examples = match finding.finding {
            "held" => String::new(),
            _ => examples.collect::<Vec<_>>().join(", "),
        };
        report.row(vec![
            finding.finding.to_owned(),
            finding.count.to_string(),
            examples,
        ]);
    }
    const SHOWN: usize = 10;
    let holders = summary.holders.iter().take(SHOWN);
    let mut holders: Vec<String> = holders
        .map(|held| format!("{} {}", held.holder, held.ids))
        .collect();
    if summary.holders.len() > SHOWN {
        holders.push(format!("and {} more", summary.holders.len() - SHOWN));
    }
    let mut people = report.table();
    let verdict = if summary.ok {
        "nothing is wrong"
    } else {
        "something is wrong"
    };
    people.push_str(&format!(
        "{} IDs of layout {}: {verdict}.\n",
        summary.lines, summary.layout
    ));
    if !holders.is_empty() {
        people.push_str(&format!("made by {}.\n", holders.join(", ")));
    }
    Ok(report.with_people(people))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_one_line() {
        let long = "7".repeat(5000);
        let text = format!("12\r\n\n{long}\n  13  \n14");
        let mut lines = text.as_bytes();
        let mut bytes = Vec::new();
        let mut read = Vec::new();
        while read_line(&mut lines, &mut bytes).unwrap() {
            read.push(String::from_utf8_lossy(&bytes).trim().to_owned());
        }
        assert_eq!(read.len(), 5);
        assert_eq!(
            (&*read[0], &*read[1], &*read[3], &*read[4]),
            ("12", "", "13", "14")
        );
        assert_eq!(read[2].len(), MAX_LINE_BYTES as usize);
    }
}
