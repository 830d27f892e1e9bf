//! Stories: lines of commands and their outcomes, in a readable form.
//!
//! A line is an entry. ` ; ` separates the commands of one entry. Lines that begin with `>` are
//! outcomes, and `#` begins a comment. `time WALL CLUSTER` sets the times of the following entries,
//! both in milliseconds. The wall clock is counted from 2026-01-01, so that a tick of the layout
//! `default` equals a time.
//!
//! These lines are not entries:
//! - `who LAYOUT WORKER TICK`
//! - `show NAME`, `show-first LAYOUT`, `show-key KEY`, `show-lock NAME`, `show-deadline` and
//!   `show-counter`
//! - `restart`, which loads the state from its rows
//! - `restore CLUSTER`, which restores into a cluster with that ID, with floors as `NAME=VALUE`
//! - `membership INDEX`, which sets the applied membership to that of this entry in term 1

use std::collections::BTreeMap;

use seqd_idgen::{Progression, Tick, WorkerId};
use seqd_state::{
    AccessOutcome, ClusterCommand, ClusterOutcome, Command, DefinitionChange, Entry, Found,
    GrantToken, LayoutOutcome, LeaseId, Level, LogPosition, NodeId, Origin, Outcome, Refusal,
    Restoration, Revision, SegmentSizes, SequenceDefinition, SequenceMode, SequenceOutcome, State,
    TakeLease, ValueRange, WorkerCommand, WorkerOutcome,
};

mod keys;

use super::commands::*;
use super::{lock_story, name, stamp};

/// Plays a story and returns it with the observed outcomes.
pub(crate) fn play(story: &str) -> String {
    let mut state = State::new();
    let mut time = stamp(0, 0);
    let mut membership = None;
    let mut seen = String::new();
    for line in story.lines().filter(|line| !line.starts_with('>')) {
        seen.push_str(line);
        seen.push('\n');
        let line = line.split('#').next().unwrap_or_default().trim();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            ["time", wall, cluster] => time = stamp(number(wall), number(cluster)),
            ["membership", index] => membership = Some(position(number(index))),
            ["show", sequence] => seen.push_str(&show(&state, sequence)),
            ["show-deadline"] => {
                let deadline = state
                    .next_deadline()
                    .map_or("none".into(), |at| at.to_string());
                seen.push_str(&format!("> {deadline}\n"));
            }
            ["restart"] => state = State::from_rows(state.rows().collect::<Vec<_>>()).unwrap(),
            ["restore", ..] => seen.push_str(&restore(&mut state, line)),
            ["who", layout, worker, tick] => seen.push_str(&origin(&state, layout, worker, tick)),
            ["show-first", layout] => {
                let first = state.layout(layout).unwrap().spec().first_sequence;
                seen.push_str(&format!("> {first:?}\n"));
            }
            ["show-key", key] => seen.push_str(&keys::show(&state, key)),
            ["show-lock", lock] => seen.push_str(&lock_story::show(&state, lock)),
            ["show-counter"] => seen.push_str(&show_counter(&state)),
            _ => {
                let commands = line.split(" ; ").flat_map(commands).collect();
                let stamp = time;
                for outcome in state.apply(&Entry { stamp, commands }, membership) {
                    seen.push_str(&format!("> {}\n", describe(&outcome)));
                }
            }
        }
    }
    seen
}

fn position(index: u64) -> LogPosition {
    LogPosition { term: 1, index }
}

fn number(word: &str) -> u64 {
    word.parse()
        .unwrap_or_else(|_| panic!("{word} is not a number"))
}

/// The words and `key=value` pairs of a command.
pub(crate) struct Words<'a> {
    pub(crate) plain: Vec<&'a str>,
    named: BTreeMap<&'a str, &'a str>,
}

/// Returns the holder that may have minted in a tick of a worker.
fn origin(state: &State, layout: &str, worker: &str, tick: &str) -> String {
    let layout = state.layout(layout).unwrap();
    let worker = WorkerId(worker.parse().unwrap());
    match state.origin(layout, worker, Tick(number(tick))) {
        Origin::Held(holder) => format!(
            "> {}, lease {}, ticks from {} to {}\n",
            holder.owner, holder.lease, holder.from_tick, holder.fence
        ),
        Origin::Nobody => "> nobody\n".to_owned(),
        Origin::Unknown { known_from } => {
            let from = known_from.map(|from| from.0 - super::EPOCH_MS);
            format!("> not known, leases are from {from:?}\n")
        }
    }
}

impl Words<'_> {
    pub(crate) fn u64(&self, key: &str) -> Option<u64> {
        self.named.get(key).map(|word| number(word))
    }

    fn i64(&self, key: &str) -> Option<i64> {
        self.named.get(key).map(|word| word.parse().unwrap())
    }

    pub(crate) fn text(&self, key: &str) -> String {
        self.named.get(key).copied().unwrap_or_default().to_owned()
    }
}

/// Parses commands. `next A B*3` is a command for each request.
fn commands(text: &str) -> Vec<Command> {
    match text.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["next", requests @ ..] => requests.iter().map(|word| next_of(word)).collect(),
        _ => vec![command(text)],
    }
}

fn command(text: &str) -> Command {
    let (named, plain): (Vec<_>, Vec<_>) = text.split_whitespace().partition(|w| w.contains('='));
    let named = named
        .into_iter()
        .filter_map(|word| word.split_once('='))
        .collect();
    let words = Words { plain, named };
    match words.plain.as_slice() {
        ["found", cluster_id] => Command::Cluster(ClusterCommand::Found(Found {
            cluster_id: (*cluster_id).to_owned(),
            window_ms: words.u64("window").unwrap_or(super::WINDOW_MS),
            max_peer_skew_ms: words.u64("skew").unwrap_or(super::SKEW_MS),
            founders: (1..=3).map(|id| (NodeId(id), format!("n{id}"))).collect(),
        })),
        ["join", node] => join(node, words.u64("nonce").unwrap_or(0)),
        ["start", node] => start(
            NodeId(number(node)),
            words.u64("boot").unwrap_or(1),
            words.u64("nonce").unwrap_or(0),
        ),
        ["remove", node] => remove(NodeId(number(node))),
        ["create", mode, sequence] => create(name(sequence), definition(mode, &words)),
        ["delete", sequence] => delete(name(sequence), words.u64("revision").map(Revision)),
        ["grant", sequence, size] => grant(
            name(sequence),
            number(size),
            words.u64("after").map(GrantToken),
        ),
        ["return", sequence] => return_tail(
            name(sequence),
            GrantToken(words.u64("token").unwrap()),
            words.u64("unused").unwrap(),
        ),
        ["advance", sequence, to] => advance(name(sequence), to.parse().unwrap()),
        ["update", sequence] => update(
            name(sequence),
            DefinitionChange {
                max: words.i64("max"),
                min: words.i64("min"),
                target_ms: words.u64("target"),
                segment_min: words.u64("smallest"),
                segment_max: words.u64("largest"),
                description: words.named.get("about").map(|&text| text.to_owned()),
            },
            words.u64("revision").map(Revision),
        ),
        ["raise", to] => Command::Cluster(ClusterCommand::RaiseLevel {
            to: Level(to.parse().unwrap()),
            membership: position(words.u64("asked").unwrap()),
        }),
        ["layout", layout, bits] => create_layout(layout, number(bits) as u8),
        ["stamp", wall] => stamp_restoration(stamp(number(wall), 0).wall_ms),
        _ => lease_command(&words),
    }
}

fn lease_command(words: &Words<'_>) -> Command {
    let worker = |word: &str| WorkerId(word.parse().unwrap());
    let lease = || LeaseId(words.u64("lease").unwrap());
    match words.plain.as_slice() {
        ["take", layout] => Command::Workers(WorkerCommand::TakeLease(TakeLease {
            tenant: seqd_state::Tenant::OPERATOR,
            layout: (*layout).to_owned(),
            owner: words.text("owner"),
            node: words.u64("node").map(NodeId),
            boot: words.u64("boot").unwrap_or(0),
            fence: Tick(words.u64("fence").unwrap()),
            datacenter: words.u64("datacenter").map(|datacenter| datacenter as u32),
        })),
        ["extend", layout, id] => extend(
            (*layout).to_owned(),
            worker(id),
            lease(),
            Tick(words.u64("fence").unwrap()),
        ),
        ["release", layout, id] => release(
            (*layout).to_owned(),
            worker(id),
            lease(),
            words.u64("last").map(Tick),
        ),
        _ => match lock_story::command(words) {
            Some(command) => command.into(),
            None => keys::command(words),
        },
    }
}

/// Restores the state into another cluster. `margin=N` applies to all sequences without a
/// `NAME=VALUE`.
fn restore(state: &mut State, line: &str) -> String {
    let mut words = line.split_whitespace().skip(1);
    let mut restoration = Restoration {
        cluster_id: words.next().unwrap().to_owned(),
        founder: "n1".to_owned(),
        ancestors: Vec::new(),
        floors: BTreeMap::new(),
        margin: None,
        written: None,
    };
    for (key, value) in words.filter_map(|word| word.split_once('=')) {
        match key {
            "margin" => restoration.margin = Some(number(value)),
            "written" => restoration.written = Some(stamp(number(value), 0).wall_ms),
            "ancestor" => restoration.ancestors.push(value.to_owned()),
            sequence => {
                let floor = value.parse().unwrap();
                restoration.floors.insert(name(sequence), floor);
            }
        }
    }
    let (node, raised) = match state.restore(&restoration) {
        Ok(restored) => restored,
        Err(error) => return format!("> refused: {error}\n"),
    };
    let mut text = format!("> restored, node {node}\n");
    for sequence in raised {
        let next = |value: Option<i64>| value.map_or("none".to_owned(), |value| value.to_string());
        text.push_str(&format!(
            "> {}: index {} to {}, next value {} to {}\n",
            sequence.name,
            sequence.index_before,
            sequence.index_after,
            next(sequence.next_before),
            next(sequence.next_after),
        ));
        if let Some(value) = sequence.continues_at {
            text.insert_str(text.len() - 1, &format!(", continues at {value}"));
        }
    }
    text
}

fn show_counter(state: &State) -> String {
    let mut copy = state.clone();
    match apply_one(&mut copy, stamp(0, 0), join("nobody", u64::MAX)) {
        Outcome::Cluster(ClusterOutcome::NodeIdAllocated { node }) => {
            format!("> the next number is {node}\n")
        }
        other => format!("> {other:?}\n"),
    }
}

fn next_of(word: &str) -> Command {
    let (sequence, count) = word.split_once('*').unwrap_or((word, "1"));
    strict_next(sequence, number(count))
}

fn definition(mode: &str, words: &Words<'_>) -> SequenceDefinition {
    let mode = match mode {
        "segment" => SequenceMode::Segment,
        "strict" => SequenceMode::Strict,
        other => panic!("no mode {other}"),
    };
    let [start, increment, min, max] = ["start", "by", "min", "max"].map(|key| words.i64(key));
    let cycle = words.named.contains_key("cycle");
    let progression = Progression::with_defaults(start, increment, min, max, cycle).unwrap();
    let segment = SegmentSizes {
        target_ms: words.u64("target").unwrap_or(60_000),
        min: words.u64("smallest").unwrap_or(1_000),
        max: words.u64("largest").unwrap_or(1_000_000),
    };
    SequenceDefinition {
        mode,
        progression,
        segment,
        description: words.text("about"),
    }
}

fn of_cluster(outcome: &ClusterOutcome) -> String {
    match outcome {
        ClusterOutcome::Founded => "founded".to_owned(),
        ClusterOutcome::NodeIdAllocated { node } => format!("node {node}"),
        ClusterOutcome::StartRegistered { node, boot } => {
            format!("node {node} started, boot {boot}")
        }
        ClusterOutcome::MarkedRemoved { node } => format!("node {node} removed"),
        ClusterOutcome::SecretKept => "a secret is kept".to_owned(),
        ClusterOutcome::TimestampsBounded { before, upto } => {
            format!("timestamps from {before} to {upto}")
        }
        ClusterOutcome::WorkersReset { node, number } => {
            format!("the workers of node {node} are reset, number {number}")
        }
        ClusterOutcome::RestorationStamped { wall_ms } => {
            format!("stamped at {}", wall_ms.0 - super::EPOCH_MS)
        }
        ClusterOutcome::LevelRaised { level } => format!("level {level}"),
    }
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        #[cfg(feature = "test-next-level")]
        Outcome::Notes(outcome) => format!("{outcome:?}"),
        Outcome::Refused(refusal) => refused(refusal),
        Outcome::Cluster(outcome) => of_cluster(outcome),
        Outcome::Locks(outcome) => lock_story::describe(outcome),
        Outcome::Layouts(LayoutOutcome::Created { created: true }) => "created".to_owned(),
        Outcome::Layouts(LayoutOutcome::Created { created: false }) => "there already".to_owned(),
        Outcome::Keys(outcome) => keys::describe(outcome),
        Outcome::OneTime(outcome) => keys::describe_token(outcome),
        Outcome::Access(AccessOutcome::Created { id }) => format!("token {id}"),
        Outcome::Access(AccessOutcome::Revoked { id }) => format!("token {id} revoked"),
        Outcome::Workers(WorkerOutcome::LeaseTaken(grant)) => format!(
            "worker {} of {}, lease {}, ticks from {} to {}",
            grant.worker.0, grant.layout, grant.lease, grant.from_tick, grant.fence
        ),
        Outcome::Workers(WorkerOutcome::LeaseExtended { fence }) => format!("extended to {fence}"),
        Outcome::Workers(WorkerOutcome::LeaseReleased { fence }) => format!("released at {fence}"),
        Outcome::Sequences(SequenceOutcome::Created {
            created,
            revision,
            epoch,
        }) => {
            let what = if *created { "created" } else { "there already" };
            format!("{what}, revision {revision}, epoch {epoch}")
        }
        Outcome::Sequences(SequenceOutcome::Deleted { epoch }) => format!("deleted, epoch {epoch}"),
        Outcome::Sequences(SequenceOutcome::SegmentGranted(grant)) => format!(
            "values {} to {} by {}: indices {} + {}, run from {}, token {}, epoch {}",
            grant.first,
            grant.last,
            grant.increment,
            grant.first_index,
            grant.count,
            grant.run_start,
            grant.token,
            grant.epoch
        ),
        Outcome::Sequences(SequenceOutcome::TailReturned {
            next_index,
            returned,
        }) => {
            format!("{returned} returned, next index {next_index}")
        }
        Outcome::Sequences(SequenceOutcome::Advanced {
            next,
            next_index,
            epoch,
        }) => {
            format!("next value {next}, index {next_index}, epoch {epoch}")
        }
        Outcome::Sequences(SequenceOutcome::Updated { changed, revision }) => {
            let what = if *changed { "updated" } else { "unchanged" };
            format!("{what}, revision {revision}")
        }
        Outcome::Sequences(SequenceOutcome::Next(grant)) => {
            let range = |range: &ValueRange| format!("{} to {}", range.first, range.last);
            let mut ranges: Vec<_> = grant.ranges.iter().map(range).collect();
            if ranges.len() > 4 {
                let count = ranges.len();
                ranges.splice(2..count - 1, [format!("... ({count} ranges)")]);
            }
            format!("values {}", ranges.join(", "))
        }
    }
}

fn refused(refusal: &Refusal) -> String {
    format!("refused: {refusal}")
}

fn show(state: &State, sequence: &str) -> String {
    let Some(record) = state.sequence(&name(sequence)) else {
        return format!("> no sequence {sequence}\n");
    };
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    let run = record
        .run
        .map(|run| format!("from {} with token {}", run.start, run.token));
    format!(
        "> next value {}, {} allocated, {} remain; run {}\n",
        or_none(record.next_value().map(|value| value.to_string())),
        record.next_index,
        or_none(record.remaining().map(|count| count.to_string())),
        or_none(run),
    )
}
