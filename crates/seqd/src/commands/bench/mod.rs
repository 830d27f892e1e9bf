//! `seqd bench`: measures rates and latencies of a cluster or of any HTTP endpoint that returns
//! numbers, and checks the numbers.

mod report;
mod subject;

use std::cell::Cell;
use std::time::Duration;

use clap::{Args, Subcommand};
use hyper::{Method, Uri};
use seqd_client::api::{Mode, exit};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::arguments;
use crate::bench::{Figures, Findings, Halt, JsonPath, Pairs, Ratios, Round, Target, method};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::session::Session;
use crate::signals::Signals;
use subject::{Kind, Lent, Subject};

const CHECKS: &str = "Exit code 7: a number was returned twice, or out of order.";

/// The measurements.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Snowflake IDs
    Ids(IdsArgs),
    /// Values of a segment sequence
    Seq(SequenceArgs),
    /// Values of a strict sequence
    Strict(SequenceArgs),
    /// Values of an ordered sequence
    Ordered(SequenceArgs),
    /// Locks: cycles of acquire and release
    Locks(LocksArgs),
    /// Any HTTP endpoint that returns numbers
    Url(UrlArgs),
}

/// The options of all measurements.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Load", after_long_help = CHECKS)]
pub(crate) struct LoadArgs {
    /// Clients with one connection each, spread over the endpoints; 16 by default, 128 with --rate
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    clients: Option<u16>,
    /// Open loop: N requests per second in all; the latency counts from the time at which a request
    /// was due. By default a closed loop: each client sends a request once it has the last response
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rate: Option<u64>,
    /// Time to measure; 10s by default, unlimited with --requests
    #[arg(long, value_parser = arguments::duration)]
    duration: Option<Duration>,
    /// Requests to measure
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(conflicts_with = "vs")]
    requests: Option<u64>,
    /// Time of the same load before the measurement
    #[arg(long, default_value = "1s", value_parser = arguments::duration_or_zero)]
    warm_up: Duration,
    /// Second target: measure both in alternating rounds, and print the ratio of the first to the
    /// second
    #[arg(long, value_name = "TARGET")]
    vs: Option<String>,
    /// Length of a round with --vs
    #[arg(long, default_value = "1s", value_parser = arguments::duration, requires = "vs")]
    round: Duration,
    /// Do not check that no number repeats and that the order holds
    #[arg(long)]
    no_check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct IdsArgs {
    /// IDs per request
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = arguments::number)]
    count: u64,
    /// Layout of the IDs
    #[arg(long)]
    layout: Option<String>,
    #[command(flatten)]
    load: LoadArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SequenceArgs {
    /// Values per request
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = arguments::number)]
    count: u64,
    /// Existing sequence, whose values are used up; by default a sequence of a fixed name, which is
    /// deleted at the end
    #[arg(long, value_parser = arguments::sequence_name)]
    name: Option<String>,
    #[command(flatten)]
    load: LoadArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LocksArgs {
    /// Locks that the clients use in turn
    #[arg(long, default_value_t = 16, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    names: u64,
    #[command(flatten)]
    load: LoadArgs,
}

#[derive(Debug, Args)]
pub(crate) struct UrlArgs {
    /// URL that returns a number; the access token for seqd is not sent to it
    #[arg(value_parser = |text: &str| text.parse::<Uri>())]
    url: Uri,
    /// Method; GET by default, POST with --body
    #[arg(long, value_parser = method)]
    method: Option<Method>,
    /// Body of each request, as application/json unless --header has another content-type
    #[arg(long)]
    body: Option<String>,
    /// Header of each request, such as "x-tenant: a"; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Field of a JSON response that has the number or an array of numbers, such as data.id; by
    /// default the response is text with one number per line
    #[arg(long, value_name = "PATH")]
    json_field: Option<JsonPath>,
    /// Check also that a number answered before another request was sent is smaller
    #[arg(long)]
    order: bool,
    #[command(flatten)]
    load: LoadArgs,
}

/// The default number of clients in a closed and in an open loop. In an open loop, a client must be
/// free whenever a request is due.
const CLIENTS: (u16, u16) = (16, 128);

/// The time to measure by default.
const DURATION: Duration = Duration::from_secs(10);

/// The most rounds of each target. Each pair of rounds leaves three ratios in memory.
const MOST_ROUNDS: u128 = 100_000;

impl LoadArgs {
    fn clients(&self) -> u16 {
        let default = if self.rate.is_some() {
            CLIENTS.1
        } else {
            CLIENTS.0
        };
        self.clients.unwrap_or(default)
    }

    /// The time to measure. `None` if only the number of requests ends the measurement.
    fn length(&self) -> Option<Duration> {
        self.duration
            .or(self.requests.is_none().then_some(DURATION))
    }

    /// The number of rounds of each target with `--vs`.
    fn rounds(&self) -> u64 {
        let length = self.length().unwrap_or(DURATION).as_nanos();
        let rounds = length
            .div_ceil(self.round.as_nanos().max(1))
            .min(MOST_ROUNDS);
        u64::try_from(rounds).unwrap_or(u64::MAX)
    }
}

impl BenchCommand {
    fn into_parts(self) -> (Kind, LoadArgs) {
        let sequence = |mode, args: SequenceArgs| {
            let SequenceArgs { count, name, load } = args;
            (Kind::Sequence { mode, count, name }, load)
        };
        match self {
            Self::Ids(args) => {
                let IdsArgs {
                    count,
                    layout,
                    load,
                } = args;
                (Kind::Ids { count, layout }, load)
            }
            Self::Seq(args) => sequence(Mode::Segment, args),
            Self::Strict(args) => sequence(Mode::Strict, args),
            Self::Ordered(args) => sequence(Mode::Ordered, args),
            Self::Locks(args) => (Kind::Locks { names: args.names }, args.load),
            Self::Url(args) => {
                let load = args.load.clone();
                (Kind::Url(Box::new(args)), load)
            }
        }
    }
}

/// The measurement, for the report.
struct Measured {
    kind: &'static str,
    load: LoadArgs,
    is_interrupted: bool,
    targets: Vec<MeasuredTarget>,
    ratios: Option<Ratios>,
}

struct MeasuredTarget {
    label: String,
    figures: Figures,
    /// The reason why there are no findings, if there are none.
    unchecked: Option<String>,
    findings: Option<Findings>,
}

pub(crate) async fn run(command: BenchCommand, session: &Session) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let (kind, load) = command.into_parts();
    let mut lent = Lent::default();
    let measured = measure(&kind, load, session, &mut lent, &mut signals).await;
    lent.delete(session).await;
    let measured = measured?;
    report::report(&measured)?.print(session.format)?;
    report::notes(&measured, session);
    exit_code(measured)
}

/// The result of the command, after its report was printed.
fn exit_code(measured: Measured) -> Result<u8, Failure> {
    let mut findings = measured
        .targets
        .iter()
        .filter_map(|target| target.findings.as_ref());
    if findings.any(Findings::is_violated) {
        return Ok(exit::UNHEALTHY);
    }
    if measured.is_interrupted {
        return Err(Failure::failed("the measurement was interrupted"));
    }
    let silent = measured
        .targets
        .into_iter()
        .find(|target| target.figures.actions == 0);
    match silent.map(|target| target.figures.first_failure) {
        None => Ok(exit::OK),
        Some(Some(failure)) => Err(failure),
        Some(None) => Err(Failure::failed(
            "no request was sent: give a longer --duration",
        )),
    }
}

async fn measure(
    kind: &Kind,
    load: LoadArgs,
    session: &Session,
    lent: &mut Lent,
    signals: &mut Signals,
) -> Result<Measured, Failure> {
    let mut subjects = vec![kind.subject(None, &load, session, lent).await?];
    if let Some(vs) = &load.vs {
        subjects.push(kind.subject(Some(vs), &load, session, lent).await?);
    }
    let clients = usize::from(load.clients());
    let (mut targets, mut described) = (Vec::new(), Vec::new());
    for subject in subjects {
        let Subject {
            label,
            action,
            connector,
            servers,
            check,
        } = subject;
        let (check, unchecked) = match check {
            Ok(check) => (Some(check), None),
            Err(reason) => (None, Some(reason)),
        };
        targets.push(Target::new(&action, connector, servers, clients, check));
        described.push((label, unchecked));
    }
    let halt = Halt::default();
    let (figures, pairs) = measured_rounds(&load, &mut targets, session, &halt, signals).await?;
    let all = targets.into_iter().zip(described).zip(figures);
    let targets = all.map(|((target, (label, unchecked)), figures)| MeasuredTarget {
        label,
        figures,
        unchecked,
        findings: target.findings(),
    });
    Ok(Measured {
        kind: kind.name(),
        targets: targets.collect(),
        is_interrupted: halt.is_set(),
        ratios: pairs.finish(),
        load,
    })
}

/// Measures the targets, with a progress bar, until the end or a signal. A second signal does not
/// wait for the requests in flight.
async fn measured_rounds(
    load: &LoadArgs,
    targets: &mut [Target],
    session: &Session,
    halt: &Halt,
    signals: &mut Signals,
) -> Result<(Vec<Figures>, Pairs), Failure> {
    let done = Cell::new(0);
    let count = u32::try_from(targets.len()).unwrap_or(1);
    let length = (load.length().unwrap_or_default() + load.warm_up) * count;
    let ms = arguments::millis(length);
    let progress = Progress::of_time(ms, session.is_quiet);
    let grace = session.options.timeout.unwrap_or(subject::TIMEOUT);
    let mut rounds = std::pin::pin!(rounds(load, targets, grace, &done, halt));
    let begin = Instant::now();
    let mut ticks = interval(Duration::from_millis(500));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = 0;
    loop {
        tokio::select! {
            measured = &mut rounds => return Ok(measured),
            _ = signals.next() => {
                if halt.is_set() {
                    return Err(Failure::failed("the measurement was interrupted"));
                }
                halt.set();
            }
            _ = ticks.tick() => {
                let now = done.get();
                progress.at(arguments::millis(begin.elapsed()));
                progress.words(format!("{} requests/s", (now - last) * 2));
                last = now;
            }
        }
    }
}

async fn rounds(
    load: &LoadArgs,
    targets: &mut [Target],
    grace: Duration,
    done: &Cell<u64>,
    halt: &Halt,
) -> (Vec<Figures>, Pairs) {
    let round = |length| Round {
        length,
        actions: None,
        rate: load.rate,
        grace,
    };
    if !load.warm_up.is_zero() {
        for target in &mut *targets {
            // The figures of the warm-up are discarded, but its numbers are checked.
            round(Some(load.warm_up)).run(target, done, halt).await;
        }
    }
    let mut figures: Vec<Figures> = targets.iter().map(|_| Figures::default()).collect();
    let mut pairs = Pairs::default();
    if let [target] = &mut *targets {
        let all = Round {
            actions: load.requests,
            ..round(load.length())
        };
        figures[0] = all.run(target, done, halt).await;
        return (figures, pairs);
    }
    for at in 0..load.rounds() {
        let mut pair = [Figures::default(), Figures::default()];
        // The targets take turns as the first of a pair.
        let first = usize::from(at % 2 == 1);
        for which in [first, 1 - first] {
            pair[which] = round(Some(load.round))
                .run(&mut targets[which], done, halt)
                .await;
        }
        if !halt.is_set() {
            pairs.push(&pair[0], &pair[1]);
        }
        for (all, one) in figures.iter_mut().zip(pair) {
            all.add(one);
        }
        if halt.is_set() {
            break;
        }
    }
    (figures, pairs)
}
