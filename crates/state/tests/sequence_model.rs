//! No index of a sequence is used twice, regardless of nodes, lost replies, repeated proposals and
//! administrators.
//!
//! The nodes follow the rules: a node uses its ranges in order. It discards all of them before it
//! proposes a return, and the return contains the first unused index of its last run. Everything
//! else is adverse: replies are lost, proposals are applied late, in any order and twice, and
//! ranges are used although an advance or a deletion has invalidated them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use seqd_idgen::Progression;
use seqd_state::{
    Command, DefinitionChange, Entry, Epoch, GrantToken, Outcome, Refusal, SegmentGrant,
    SequenceCommand, SequenceMode, SequenceName, SequenceOutcome, SequenceRefusal, State,
};
use support::commands::*;
use support::mark::Mark;
use support::{definition, founded, name, scripts, stamp};

const NODES: usize = 3;
const NAMES: [&str; 2] = ["a", "b"];

/// An event that concerns a sequence.
#[derive(Debug, Clone)]
enum Step {
    /// The node proposes a refill, with its latest token if it has one.
    Refill {
        node: usize,
        size: u64,
    },
    /// The node uses indices that it holds.
    Use {
        node: usize,
        count: u64,
    },
    /// The node discards its ranges and proposes to return as much as it can.
    Return {
        node: usize,
    },
    Advance {
        by: i64,
    },
    Delete,
    Create,
    /// Moves the last value. The state decides whether the change is allowed.
    Extend {
        by: i64,
    },
    /// Some of the pending proposals are applied in one entry. A lost reply reaches no node.
    Apply {
        which: Vec<Index>,
        lose_replies: bool,
    },
    /// A proposal that was applied before is applied again, with no caller waiting.
    ApplyAgain {
        which: Index,
    },
    /// The node's process ends and loses everything in its memory.
    Crash {
        node: usize,
    },
    /// The state is loaded from its rows.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let node = 0..NODES;
    let step = prop_oneof![
        6 => (node.clone(), 1u64..40).prop_map(|(node, size)| Step::Refill { node, size }),
        6 => (node.clone(), 1u64..30).prop_map(|(node, count)| Step::Use { node, count }),
        4 => node.clone().prop_map(|node| Step::Return { node }),
        1 => (0i64..50).prop_map(|by| Step::Advance { by }),
        1 => Just(Step::Delete),
        2 => Just(Step::Create),
        2 => (-20i64..60).prop_map(|by| Step::Extend { by }),
        9 => (vec(any::<Index>(), 1..4), prop::bool::weighted(0.15))
            .prop_map(|(which, lose_replies)| Step::Apply { which, lose_replies }),
        3 => any::<Index>().prop_map(|which| Step::ApplyAgain { which }),
        1 => node.prop_map(|node| Step::Crash { node }),
        1 => Just(Step::Restart),
    ];
    vec((0..NAMES.len(), step), 1..120)
}

/// The ranges that a node holds of one sequence.
#[derive(Debug, Default)]
struct Holding {
    /// The unused parts of ranges, in the order of their grants: first index and count.
    ranges: Vec<(u64, u64)>,
    latest: Option<SegmentGrant>,
    refilling: bool,
}

impl Holding {
    fn take(&mut self, mut count: u64) -> Vec<u64> {
        let mut taken = Vec::new();
        while count > 0 && !self.ranges.is_empty() {
            let (first, left) = self.ranges[0];
            let now = left.min(count);
            taken.extend(first..first + now);
            count -= now;
            self.ranges[0] = (first + now, left - now);
            if left == now {
                self.ranges.remove(0);
            }
        }
        taken
    }

    /// Returns the first unused index of the last run, or the end of the run.
    fn first_unused_of_last_run(&self, latest: &SegmentGrant) -> u64 {
        let end = latest.first_index + latest.count;
        let in_run = |(first, _): &&(u64, u64)| (latest.run_start..end).contains(first);
        self.ranges
            .iter()
            .find(in_run)
            .map_or(end, |(first, _)| *first)
    }
}

/// A pending proposal and the node that waits for it.
#[derive(Debug, Clone)]
struct Proposal {
    command: Command,
    waiting: Option<usize>,
}

/// Returns the sequence to which a command of this script applies.
fn subject(command: &Command) -> Option<&SequenceName> {
    match command {
        Command::Sequences(SequenceCommand::GrantSegment { name, .. })
        | Command::Sequences(SequenceCommand::ReturnTail { name, .. })
        | Command::Sequences(SequenceCommand::Advance { name, .. })
        | Command::Sequences(SequenceCommand::Update { name, .. })
        | Command::Sequences(SequenceCommand::Delete { name, .. }) => Some(name),
        _ => None,
    }
}

#[derive(Debug)]
struct World {
    state: State,
    holdings: BTreeMap<(usize, SequenceName), Holding>,
    on_the_way: Vec<Proposal>,
    applied: Vec<Proposal>,
    used: BTreeMap<SequenceName, BTreeSet<u64>>,
    tokens: BTreeSet<GrantToken>,
    epochs: BTreeMap<SequenceName, Epoch>,
    marks: BTreeMap<SequenceName, Mark>,
    progression: Progression,
}

impl World {
    fn new(progression: Progression) -> Self {
        let mut world = Self {
            state: founded(),
            holdings: BTreeMap::new(),
            on_the_way: Vec::new(),
            applied: Vec::new(),
            used: BTreeMap::new(),
            tokens: BTreeSet::new(),
            epochs: BTreeMap::new(),
            marks: BTreeMap::new(),
            progression,
        };
        for text in NAMES {
            let (command, waiting) = (world.create(&name(text)), None);
            world.apply(vec![Proposal { command, waiting }], false);
        }
        world
    }

    fn create(&self, name: &SequenceName) -> Command {
        let definition = definition(SequenceMode::Segment, self.progression);
        create(name.clone(), definition)
    }

    /// Returns the progression of a sequence after all applied commands.
    fn latest(&self, name: &SequenceName) -> Progression {
        let record = self.state.sequence_or_deleted(name);
        record.map_or(self.progression, |it| it.definition.progression)
    }

    fn holding(&mut self, node: usize, name: &SequenceName) -> &mut Holding {
        self.holdings.entry((node, name.clone())).or_default()
    }

    fn propose(&mut self, command: Command, waiting: Option<usize>) {
        self.on_the_way.push(Proposal { command, waiting });
    }

    fn step(&mut self, name: &SequenceName, step: &Step) {
        match step {
            Step::Refill { node, size } => {
                let holding = self.holding(*node, name);
                // One refill in flight per sequence.
                if !std::mem::replace(&mut holding.refilling, true) {
                    let after = holding.latest.map(|grant| grant.token);
                    let (name, size) = (name.clone(), *size);
                    self.propose(grant(name, size, after), Some(*node));
                }
            }
            Step::Use { node, count } => {
                let taken = self.holding(*node, name).take(*count);
                let used = self.used.entry(name.clone()).or_default();
                for index in taken {
                    assert!(used.insert(index), "index {index} of {name} was used twice");
                }
            }
            Step::Return { node } => {
                let holding = std::mem::take(self.holding(*node, name));
                if let Some(latest) = holding.latest {
                    let (name, token) = (name.clone(), latest.token);
                    let first_unused = holding.first_unused_of_last_run(&latest);
                    self.propose(return_tail(name, token, first_unused), None);
                }
            }
            Step::Advance { by } => {
                let record = self.state.sequence(name);
                let next = record.and_then(|record| record.next_value());
                let to = next.unwrap_or(0).saturating_add(*by);
                self.propose(advance(name.clone(), to), None);
            }
            Step::Delete => self.propose(delete(name.clone(), None), None),
            Step::Create => self.propose(self.create(name), None),
            Step::Extend { by } => {
                let record = self.state.sequence(name);
                let now = record.map_or(self.progression, |it| it.definition.progression);
                let upwards = now.increment() > 0;
                let change = DefinitionChange {
                    max: upwards.then(|| now.max().saturating_add(*by)),
                    min: (!upwards).then(|| now.min().saturating_sub(*by)),
                    ..DefinitionChange::default()
                };
                self.propose(update(name.clone(), change, None), None);
            }
            Step::Apply {
                which,
                lose_replies,
            } => {
                let mut batch = Vec::new();
                for which in which {
                    if !self.on_the_way.is_empty() {
                        let at = which.index(self.on_the_way.len());
                        batch.push(self.on_the_way.remove(at));
                    }
                }
                self.apply(batch, *lose_replies);
            }
            Step::ApplyAgain { which } => {
                if !self.applied.is_empty() {
                    let proposal = self.applied[which.index(self.applied.len())].clone();
                    self.apply(
                        vec![Proposal {
                            waiting: None,
                            ..proposal
                        }],
                        false,
                    );
                }
            }
            Step::Crash { node } => {
                self.holdings.retain(|(of, _), _| of != node);
                for proposal in &mut self.on_the_way {
                    proposal.waiting = proposal.waiting.filter(|waiting| waiting != node);
                }
            }
            Step::Restart => self.state = State::from_rows(self.state.rows()).unwrap(),
        }
    }

    fn apply(&mut self, batch: Vec<Proposal>, lose_replies: bool) {
        let commands = batch
            .iter()
            .map(|proposal| proposal.command.clone())
            .collect();
        let outcomes = self.state.apply(
            &Entry {
                stamp: stamp(0, 0),
                commands,
            },
            None,
        );
        for (proposal, outcome) in batch.iter().zip(&outcomes) {
            if let Some(name) = subject(&proposal.command) {
                let mark = self.marks.entry(name.clone()).or_default();
                mark.follow(&proposal.command, outcome);
            }
            self.learn(proposal, outcome, lose_replies);
        }
        self.applied.extend(batch);
        for text in NAMES {
            let name = name(text);
            if let Some(record) = self.state.sequence(&name) {
                let epoch = self.epochs.entry(name).or_default();
                assert!(record.epoch >= *epoch, "an epoch never falls");
                *epoch = record.epoch;
            }
        }
    }

    fn learn(&mut self, proposal: &Proposal, outcome: &Outcome, lost: bool) {
        let Command::Sequences(SequenceCommand::GrantSegment { name, size, .. }) =
            &proposal.command
        else {
            return;
        };
        let grant = match outcome {
            Outcome::Sequences(SequenceOutcome::SegmentGranted(grant)) => Some(*grant),
            _ => None,
        };
        if let Some(grant) = grant {
            assert!(self.tokens.insert(grant.token), "a token was given twice");
            assert!((1..=*size).contains(&grant.count));
            let last_index = grant.first_index + grant.count - 1;
            for (index, value) in [(grant.first_index, grant.first), (last_index, grant.last)] {
                let first = self.progression.value_at(index);
                assert!(
                    first.is_none_or(|first| first == value),
                    "an index has another value since the sequence was extended"
                );
                assert_eq!(self.latest(name).value_at(index), Some(value));
            }
            assert_eq!(
                self.progression.pass_end(grant.first_index),
                self.progression.pass_end(last_index),
                "a grant never crosses the end of a pass"
            );
        }
        let Some(node) = proposal.waiting else {
            return;
        };
        let holding = self.holding(node, name);
        holding.refilling = false;
        if let Some(grant) = grant.filter(|_| !lost) {
            holding.ranges.push((grant.first_index, grant.count));
            holding.latest = Some(grant);
        }
    }
}

/// Progressions with passes of one to three values.
fn short_passes() -> impl Strategy<Value = Progression> {
    (1i64..4, prop::bool::ANY).prop_map(|(max, up)| {
        let increment = if up { 2 } else { -2 };
        Progression::new(0, increment, 0, max, true).unwrap()
    })
}

/// Returns the expected refusal of `count` strict values from an index on, if there is one.
fn refusal_of(progression: &Progression, next: u64, count: u64) -> Option<SequenceRefusal> {
    /// The maximum numbers of ranges in one response and of values in one request.
    const RANGES: u64 = 64;
    const VALUES: u64 = 1_000_000;
    if count == 0 {
        return Some(SequenceRefusal::CountOutOfRange {
            count,
            limit: VALUES,
        });
    }
    if let Some(remaining) = progression.remaining(next) {
        return (count > remaining).then(|| SequenceRefusal::SequenceExhausted {
            name: name("a"),
            asked: count,
            remaining,
        });
    }
    let end = (0..RANGES).fold(next, |from, _| progression.pass_end(from));
    let limit = end - next;
    (count > limit).then_some(SequenceRefusal::CountOutOfRange { count, limit })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_index_is_used_twice_under_any_script(
        steps in steps(),
        progression in prop_oneof![
            Just(Progression::with_defaults(None, None, None, None, false).unwrap()),
            scripts::progressions(),
        ],
    ) {
        let mut world = World::new(progression);
        for (which, step) in &steps {
            world.step(&name(NAMES[*which]), step);
        }
    }

    #[test]
    fn strict_values_are_the_next_ones_all_or_none(
        // Includes progressions whose passes are so short that a request would exceed the maximum
        // of ranges.
        progression in prop_oneof![3 => scripts::progressions(), 1 => short_passes()],
        requests in vec(vec(0u64..120, 1..5), 1..30),
    ) {
        let mut state = founded();
        let definition = definition(SequenceMode::Strict, progression);
        let create = create(name("a"), definition);
        apply_one(&mut state, stamp(0, 0), create);
        let mut next = 0;
        for counts in requests {
            let commands = counts.iter().map(|count| strict_next("a", *count)).collect();
            let entry = Entry { stamp: stamp(0, 0), commands };
            let outcomes = state.apply(&entry, None);
            prop_assert_eq!(outcomes.len(), counts.len());
            for (answer, count) in outcomes.iter().zip(counts) {
                let expected: Option<Vec<i64>> =
                    (next..next + count).map(|index| progression.value_at(index)).collect();
                let refusal = refusal_of(&progression, next, count);
                match answer {
                    Outcome::Sequences(SequenceOutcome::Next(grant)) => {
                        prop_assert_eq!(refusal, None, "{:?}", grant);
                        prop_assert_eq!((grant.first_index, grant.count), (next, count));
                        let values: Vec<i64> = grant
                            .ranges
                            .iter()
                            .flat_map(|range| {
                                (0..range.count).map(|n| range.first + grant.increment * n as i64)
                            })
                            .collect();
                        for range in &grant.ranges {
                            let steps = (range.count - 1) as i64;
                            prop_assert_eq!(range.last, range.first + grant.increment * steps);
                        }
                        prop_assert_eq!(Some(values), expected);
                        next += count;
                    }
                    Outcome::Refused(Refusal::Sequences(refused)) => {
                        prop_assert_eq!(refusal.as_ref(), Some(refused));
                    }
                    other => panic!("{other:?}"),
                }
            }
            let record = state.sequence(&name("a")).unwrap();
            prop_assert_eq!(record.next_index, next);
            prop_assert_eq!(record.next_value(), progression.value_at(next));
        }
    }
}
