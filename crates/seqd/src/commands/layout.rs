//! `seqd layout`: the definitions of IDs, their end of life and their spread.

use clap::{Args, Subcommand};
use seqd_client::api::{CreateLayout, EncodeRequest, Layout, LayoutQuery, ListQuery};

use super::pages;
use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// The operations on layouts.
#[derive(Debug, Subcommand)]
pub(crate) enum LayoutCommand {
    /// List all layouts
    List,
    /// Create a layout; it can never be changed or removed
    Create(CreateArgs),
    /// Show the properties of a layout: end of life, rates, workers, largest ID, spread, warnings
    Explain {
        /// Name of the layout
        name: String,
        /// IDs per second of one worker, for the spread
        #[arg(long, default_value_t = 20)]
        rate: u64,
        /// Divisors for the spread, which is the share of IDs with each remainder
        #[arg(
            long = "mod",
            value_name = "N",
            value_delimiter = ',',
            default_values_t = [10, 16, 64]
        )]
        moduli: Vec<u32>,
    },
    /// Print the ID of a time, and the first and last ID of its tick, for scans by time; nothing is
    /// allocated
    Encode {
        /// Name of the layout
        name: String,
        /// Time: RFC 3339, or milliseconds of Unix time
        #[arg(long)]
        time: String,
        /// Worker, within its datacenter if one is given
        #[arg(long)]
        worker: Option<u32>,
        /// Datacenter, for a layout with datacenters
        #[arg(long)]
        datacenter: Option<u32>,
        /// Sequence within the tick
        #[arg(long)]
        sequence: Option<u32>,
    },
}

/// The definition of a layout. Omitted fields are as in the layout `default`.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Name of the layout
    name: String,
    /// Start of tick 0, RFC 3339 or milliseconds of Unix time
    #[arg(long)]
    epoch: Option<String>,
    /// Length of a tick: 1, 10 or 1000 ms; 1 by default
    #[arg(long)]
    tick_ms: Option<u32>,
    /// Bits of the tick; 41 by default
    #[arg(long)]
    time_bits: Option<u8>,
    /// Upper bits of the worker field that contain the datacenter; 0 by default
    #[arg(long)]
    datacenter_bits: Option<u8>,
    /// Bits of the worker within its datacenter; 10 by default
    #[arg(long)]
    worker_bits: Option<u8>,
    /// Bits of the sequence within the tick; 12 by default
    #[arg(long)]
    sequence_bits: Option<u8>,
    /// Order of the fields: tick-worker-sequence (the default) or tick-sequence-worker
    #[arg(long)]
    order: Option<String>,
    /// First sequence of a tick: spread (the default), zero, or random:N for a random one below N
    #[arg(long)]
    first_sequence: Option<String>,
}

pub(crate) async fn run(command: LayoutCommand, session: &Session) -> Result<u8, Failure> {
    match command {
        LayoutCommand::List => list(session).await,
        LayoutCommand::Create(args) => create(args, session).await,
        LayoutCommand::Explain { name, rate, moduli } => {
            explain(&name, rate, &moduli, session).await
        }
        LayoutCommand::Encode {
            name,
            time,
            worker,
            datacenter,
            sequence,
        } => {
            let parts = EncodeRequest {
                time: Some(time),
                worker,
                datacenter,
                sequence,
            };
            let encoded = session.client.encode_id(&name, &parts).await?;
            let facts = vec![
                ("id", encoded.id.to_string()),
                ("time", encoded.time.clone()),
                ("tick", encoded.tick.to_string()),
                ("first", encoded.first.to_string()),
                ("last", encoded.last.to_string()),
            ];
            session.print(&Report::facts(&encoded, facts)?)
        }
    }
}

async fn list(session: &Session) -> Result<u8, Failure> {
    let query = ListQuery {
        limit: Some(ListQuery::MAX_LIMIT),
        ..ListQuery::default()
    };
    let all = pages::all(query, async |query| session.client.layouts(query).await).await?;
    let columns = "name bits tick_ms epoch lasts_until workers ids_per_second first_sequence";
    let mut report = Report::list(&all)?.with_columns(columns);
    for layout in all {
        let bits = bits(&layout);
        report.row(vec![
            layout.name,
            bits,
            layout.tick_ms.to_string(),
            layout.epoch,
            layout.exhausted_at,
            layout.workers.to_string(),
            layout.ids_per_second.to_string(),
            layout.first_sequence,
        ]);
    }
    session.print(&report)
}

/// The widths of the time, the datacenter, the worker and the sequence.
fn bits(layout: &Layout) -> String {
    let (time, sequence) = (layout.time_bits, layout.sequence_bits);
    let worker = match layout.datacenter_bits {
        0 => layout.worker_bits.to_string(),
        datacenter => format!("{datacenter}+{}", layout.worker_bits),
    };
    format!("{time}/{worker}/{sequence}")
}

async fn create(args: CreateArgs, session: &Session) -> Result<u8, Failure> {
    let request = CreateLayout {
        name: Some(args.name),
        epoch: args.epoch,
        tick_ms: args.tick_ms,
        time_bits: args.time_bits,
        datacenter_bits: args.datacenter_bits,
        worker_bits: args.worker_bits,
        sequence_bits: args.sequence_bits,
        order: args.order,
        first_sequence: args.first_sequence,
    };
    if let Some(trial) = session.trial() {
        let plan = trial.create_layout(&request).await?;
        if let Some(layout) = &plan.layout {
            warn(layout, session);
        }
        return session.print_plan(&plan);
    }
    let (is_new, layout) = session.client.create_layout(&request).await?;
    let name = &layout.name;
    session.note(&if is_new {
        let until = layout.exhausted_at.get(..10).unwrap_or_default();
        format!(
            "created the layout {name}, which lasts until {until}: seqd id --layout {name}; \
             seqd layout explain {name} shows it"
        )
    } else {
        format!("{name} already exists with the same definition")
    });
    warn(&layout, session);
    pages::print_created(&facts(&layout, &[])?, session)
}

fn warn(layout: &Layout, session: &Session) {
    if !layout.overlaps.is_empty() {
        session.note(&format!(
            "{} can emit the same numbers as {}: keep their IDs in different columns",
            layout.name,
            layout.overlaps.join(", ")
        ));
    }
    for warning in &layout.warnings {
        session.note(warning);
    }
}

async fn explain(name: &str, rate: u64, moduli: &[u32], session: &Session) -> Result<u8, Failure> {
    let mut found = None;
    let mut spreads = Vec::new();
    for modulus in moduli {
        let query = LayoutQuery {
            rate: Some(rate),
            modulus: Some(*modulus),
        };
        let layout = session.client.layout(name, &query).await?;
        spreads.extend(layout.spread.clone());
        found = Some(layout);
    }
    let Some(layout) = found else {
        return Err(Failure::usage("--mod takes one divisor or more"));
    };
    let lines = spreads.iter().map(|spread| {
        let (modulus, used) = (spread.modulus, spread.used);
        format!(
            "mod {modulus} at {}/s: {used} of {modulus} remainders, {} to {} of {} IDs each",
            spread.rate, spread.least, spread.most, spread.ids
        )
    });
    session.print(&facts(&layout, &lines.collect::<Vec<_>>())?)
}

fn facts(layout: &Layout, spreads: &[String]) -> Result<Report, Failure> {
    let fits = if layout.fits_53_bits {
        "yes: exact as a JavaScript number"
    } else {
        "no: a string in JSON"
    };
    let mut facts = vec![
        ("name", layout.name.clone()),
        ("bits", format!("{} (time/worker/sequence)", bits(layout))),
        ("order", layout.order.clone()),
        ("tick", format!("{} ms", layout.tick_ms)),
        ("epoch", layout.epoch.clone()),
        ("lasts until", layout.exhausted_at.clone()),
        ("workers", layout.workers.to_string()),
        ("IDs/s per worker", layout.ids_per_second.to_string()),
        ("IDs/s in all", layout.ids_per_second_of_all.to_string()),
        ("largest ID", layout.largest.to_string()),
        ("fits 53 bits", fits.to_owned()),
        ("first sequence", layout.first_sequence.clone()),
    ];
    facts.extend(spreads.iter().map(|line| ("spread", line.clone())));
    if !layout.overlaps.is_empty() {
        facts.push(("same numbers as", layout.overlaps.join(", ")));
    }
    let warnings = layout.warnings.iter();
    facts.extend(warnings.map(|warning| ("warning", warning.clone())));
    Report::facts(layout, facts)
}
