//! The faults and findings of a run, and its verdict.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::draws::Kind;
use super::driver::Driver;
use super::duty::{Judged, Stop, judge};
use super::streams::Told;
use super::{LONGEST_STOP, RESTARTED, RETURNED};
use crate::checkers::Violation;
use crate::generators::unique;
use crate::history::At;

/// The period before a violation for which events are printed.
const BEFORE: Duration = Duration::from_secs(30);

/// The longest time around the end or the start of a process for which a request may remain
/// unanswered.
const AROUND: Duration = Duration::from_millis(500);

/// The injected faults that the nodes showed.
#[derive(Debug, Default)]
pub struct Faults {
    pub steps: u64,
    phases: BTreeMap<String, u64>,
    of_leaders: u64,
    /// Steps that the node itself showed, steps too small to be distinguished from none, and steps
    /// during which it had no process or one that had not measured the other clocks yet.
    pub shown: u64,
    pub too_small: u64,
    pub while_down: u64,
    /// Strobes of which both ends were shown, and shown drifts and standstills.
    pub strobes: u64,
    pub moving: u64,
    pub kills: u64,
    pub stops: u64,
    pub ended_wrong: u64,
    pub started_wrong: u64,
    /// Phases in which requests certainly had to be refused because of a wrong clock, and were.
    pub refused: u64,
    /// The longest time until both other nodes named a wrong clock, and until another node led.
    named: Duration,
    moved: Option<Duration>,
}

impl Faults {
    pub fn phase(&mut self, kind: Kind, leads: bool) {
        *self.phases.entry(format!("{kind:?}")).or_default() += 1;
        self.of_leaders += u64::from(leads);
    }

    pub fn noticed(&mut self, named: Duration, moved: Option<Duration>) {
        self.named = self.named.max(named);
        self.moved = self.moved.max(moved);
    }
}

/// The findings of a run.
#[derive(Debug)]
pub struct Figures {
    pub faults: Faults,
    /// By layout: IDs of all nodes and generators.
    ids: BTreeMap<String, usize>,
    /// Refusals by code: of nodes, and of generators.
    refused: [BTreeMap<String, u64>; 2],
    /// The longest pause of each node, and of all generators.
    stops: BTreeMap<String, Stop>,
    /// The longest return after the clock became right, and after a start.
    returns: [Option<(String, Stop)>; 2],
    took: Duration,
}

/// Judges all streams. The figures are returned even if the verdict is a violation.
pub(super) fn judged(driver: Driver, told: Vec<Told>) -> (Figures, Result<(), Violation>) {
    let end = driver.timeline.at();
    let mut figures = Figures {
        faults: Faults::default(),
        ids: BTreeMap::new(),
        refused: Default::default(),
        stops: Default::default(),
        returns: Default::default(),
        took: end.since(At::default()),
    };
    let mut verdict = Ok(());
    let mut by_layout: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for mut told in told {
        let ids = std::mem::take(&mut told.ids);
        by_layout
            .entry(told.layout.clone())
            .or_default()
            .extend(ids);
        let duties = driver.duties_of(told.node);
        let found = judge(&told.served, duties, LONGEST_STOP, end);
        verdict = verdict
            .and(told.violation.clone().map_or(Ok(()), Err))
            .and_then(|()| answered(&driver, &told))
            .and_then(|()| served(&driver, &told, &found));
        figures.add(&told, found);
    }
    for (layout, ids) in by_layout {
        let count = ids.len();
        verdict = verdict.and_then(|()| unique(ids).map(|_| ()));
        figures.ids.insert(layout, count);
    }
    figures.faults = driver.faults;
    (figures, verdict)
}

/// A node whose process runs answers every request.
fn answered(driver: &Driver, told: &Told) -> Result<(), Violation> {
    let around = u64::try_from(AROUND.as_nanos()).unwrap_or(u64::MAX);
    for (sent, seen) in &told.unanswered {
        let is_down = |(node, from, to): &(usize, At, At)| {
            Some(*node) == told.node && sent.0 <= to.0.saturating_add(around) && seen >= from
        };
        if !driver.downs.iter().any(is_down) {
            let detail = format!("{}: sent at {sent:?}, seen at {seen:?}", told.name);
            return Err(Violation::new("a node that runs answers", detail));
        }
    }
    Ok(())
}

fn served(driver: &Driver, told: &Told, found: &Judged) -> Result<(), Violation> {
    let Some(late) = found.late.first() else {
        return Ok(());
    };
    story(driver, told, late);
    let (length, limit) = (late.length(), late.limit);
    let detail = format!(
        "{} gave no IDs for {length:.2?} from {:?} to {:?}, {limit:?} is the limit; {} such times",
        told.name,
        late.from,
        late.to,
        found.late.len()
    );
    Err(Violation::new("a node whose clock is right serves", detail))
}

/// Prints the events before and during a pause.
fn story(driver: &Driver, told: &Told, late: &Stop) {
    let from = At(late.from.0.saturating_sub(BEFORE.as_nanos() as u64));
    let seconds = |at: At| at.0 as f64 / 1e9;
    println!(
        "--- from {:.3} to {:.3} s ---",
        seconds(from),
        seconds(late.to)
    );
    let is_within = |at: At| from <= at && at <= late.to;
    let notes = driver.notes.iter().filter(|note| is_within(note.at));
    let mut lines: Vec<(At, String)> = notes.map(|note| (note.at, note.text.clone())).collect();
    let met = told.changes.iter().filter(|(at, _)| is_within(*at));
    lines.extend(met.map(|(at, what)| (*at, format!("{} meets: {what}", told.name))));
    lines.sort();
    for (at, text) in lines {
        println!("{:10.3}  {text}", seconds(at));
    }
    for node in 0..3 {
        let before = driver.notes.iter().rev().find(|note| note.at <= from);
        let after = driver.notes.iter().find(|note| note.at >= late.to);
        let log = std::fs::read(driver.cluster.node(node).stderr_file()).unwrap_or_default();
        let from = before
            .map_or(0, |note| note.logs[node] as usize)
            .min(log.len());
        let to = after
            .map_or(log.len(), |note| note.logs[node] as usize)
            .min(log.len());
        println!("--- log of n{} ---", node + 1);
        println!("{}", String::from_utf8_lossy(&log[from..to.max(from)]));
    }
}

impl Figures {
    fn add(&mut self, told: &Told, found: Judged) {
        let outside = usize::from(told.node.is_none());
        for (code, count) in &told.refused {
            *self.refused[outside].entry(code.clone()).or_default() += count;
        }
        let longest = |place: &mut Option<(String, Stop)>, stop: Stop| {
            if place
                .as_ref()
                .is_none_or(|(_, known)| known.length() < stop.length())
            {
                *place = Some((told.name.clone(), stop));
            }
        };
        if let Some(stop) = found.stop {
            let whose = told.node.map(|node| format!("n{}", node + 1));
            let whose = whose.unwrap_or_else(|| "generators".to_owned());
            let known = self.stops.entry(whose).or_insert(stop);
            if known.length() < stop.length() {
                *known = stop;
            }
        }
        for stop in found.returns {
            longest(
                &mut self.returns[usize::from(stop.limit >= RESTARTED)],
                stop,
            );
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = &self.faults;
        writeln!(
            f,
            "{} steps in {:.0?}; phases: {:?}, {} of them of the leader's clock",
            faults.steps, self.took, faults.phases, faults.of_leaders
        )?;
        writeln!(
            f,
            "steps that the node showed: {}; too small to be seen: {}; while it started: {}; strobes \
             shown: {}; drifts and standstills: {}",
            faults.shown, faults.too_small, faults.while_down, faults.strobes, faults.moving
        )?;
        writeln!(
            f,
            "processes: {} killed, {} stopped, {} of them with a wrong clock, {} started with one",
            faults.kills, faults.stops, faults.ended_wrong, faults.started_wrong
        )?;
        writeln!(
            f,
            "a wrong clock that was held: refused with in {} phases, named by both others within \
             {:.2?}, another led after {:.2?} at most",
            faults.refused,
            faults.named,
            faults.moved.unwrap_or_default()
        )?;
        writeln!(f, "IDs, no duplicate: {:?}", self.ids)?;
        writeln!(f, "refused by nodes: {:?}", self.refused[0])?;
        writeln!(f, "refused by generators: {:?}", self.refused[1])?;
        let stops = self.stops.iter();
        let stops = stops.map(|(whose, stop)| format!("{whose} {:.2?}", stop.length()));
        let stops: Vec<String> = stops.collect();
        writeln!(
            f,
            "longest stop with a clock that was right, of {LONGEST_STOP:?}: {}",
            stops.join(", ")
        )?;
        let lines = [
            ("return of a clock that was right again", &self.returns[0]),
            ("return after a start", &self.returns[1]),
        ];
        for (what, longest) in lines {
            if let Some((whose, stop)) = longest {
                let (length, limit) = (stop.length(), stop.limit);
                writeln!(f, "longest {what}: {length:.2?} of {limit:?} ({whose})")?;
            }
        }
        write!(f, "limits: {LONGEST_STOP:?}, {RETURNED:?}, {RESTARTED:?}")
    }
}
