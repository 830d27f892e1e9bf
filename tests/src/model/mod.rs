//! A model check of minting and sequences: stateright explores every order of events in small
//! worlds.
//!
//! The model calls the product's own code: [`seqd_state::State::apply`] applies the log with the
//! commands that nodes propose, and [`seqd_state::State::restore`] turns a backup into a cluster.
//! IDs come from [`seqd_idgen::Generator`]s, which the model drives like a node's keeper. The model
//! adds the environment: processes that start, stop, are killed and are copied, clocks, and
//! messages that are lost, late and repeated. The total order of the log is assumed; consensus has
//! its own tests.
//!
//! A [scene](Scene) bounds a world: its participants, its number of ticks, and the number of each
//! kind of event. Every state within these bounds is visited. A [`Fault`] is planted in the model's
//! part, to prove that the check detects it. Guards in the real code are removed as
//! `docs/internals/GUARDS.md` describes.

mod action;
mod ask;
mod ledger;
mod minting;
mod properties;
mod scene;
mod sights;
mod starts;
mod step;
mod world;

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::{Duration, Instant};

use seqd_idgen::{Layout, Progression, WallMs};
use seqd_state::{
    ClusterCommand, ClusterMs, Entry, NodeId, SegmentSizes, SequenceCommand, SequenceDefinition,
    SequenceMode, SequenceName, Stamp, State,
};
use stateright::{Checker, HasDiscoveries, Model, Path, Property};

pub use action::Action;
pub use ledger::Violation;
pub use scene::{Left, Scene, scenes};
pub use sights::Sight;
pub use world::World;

use action::Event;
use ask::Origin;
use ledger::Ledger;
use scene::{SEGMENT, SEQUENCE, WINDOW_MS};
use world::{Process, Replicated};

/// A fault of a holder that removing guards of the real code cannot produce, because the code is in
/// the node or in the program that holds a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A fence is used before it is committed.
    FenceBeforeCommit,
    /// A start continues with the lease that it finds on its disk.
    HolderKept,
    /// The last tick is read before the generator is closed.
    LastTickBeforeClose,
    /// An answer that arrives twice creates two generators for one lease.
    GrantInstalledTwice,
    /// A segment is used while the return of its tail is in flight.
    TailKept,
}

/// A scene, and the fault in it.
#[derive(Clone, Debug)]
pub struct Check {
    scene: Scene,
    fault: Option<Fault>,
    layout: Layout,
}

/// The result of a check.
#[derive(Debug)]
pub struct Found {
    pub states: usize,
    pub unique: usize,
    /// The length of the longest path of events.
    pub depth: usize,
    pub took: Duration,
    pub violation: Option<Counterexample>,
    /// The sights that did not occur. Empty after a violation, because the check ends there.
    pub unseen: Vec<Sight>,
}

/// A rule, and a minimal list of events that breaks it.
#[derive(Debug)]
pub struct Counterexample {
    pub violation: Violation,
    pub events: Vec<String>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            states,
            unique,
            depth,
            ..
        } = self;
        let seconds = self.took.as_secs_f64();
        write!(
            f,
            "{states} states, {unique} of them unique, depth {depth}, {seconds:.1} s"
        )
    }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "violated: {}", self.violation.rule())?;
        for (at, event) in self.events.iter().enumerate() {
            writeln!(f, "{:>4}. {event}", at + 1)?;
        }
        Ok(())
    }
}

impl Check {
    #[must_use]
    pub fn new(scene: Scene, fault: Option<Fault>) -> Self {
        let layout = scene.layout();
        Self {
            scene,
            fault,
            layout,
        }
    }

    /// Visits every state of the scene, or those up to the first violation.
    #[must_use]
    pub fn run(self, threads: usize) -> Found {
        let began = Instant::now();
        let violations = Violation::ALL.map(Violation::rule);
        let checker = self.clone().checker().threads(threads);
        let checker = checker.finish_when(HasDiscoveries::AnyOf(violations.into()));
        let checker = checker.spawn_bfs().join();
        let discoveries = checker.discoveries();
        let mut violated = Violation::ALL.into_iter();
        let violated = violated.find(|violation| discoveries.contains_key(violation.rule()));
        let violation = violated.map(|violation| Counterexample {
            violation,
            events: self
                .narrative(self.shortened(discoveries[violation.rule()].clone(), violation)),
        });
        let sights = self.scene.sights.iter().copied();
        let unseen = sights.filter(|sight| !discoveries.contains_key(sight.words()));
        Found {
            states: checker.state_count(),
            unique: checker.unique_state_count(),
            depth: checker.max_depth(),
            took: began.elapsed(),
            unseen: unseen.filter(|_| violation.is_none()).collect(),
            violation,
        }
    }

    /// Removes the events of a path that are not needed for the violation at its end.
    fn shortened(&self, path: Path<World, Action>, violation: Violation) -> (World, Vec<Event>) {
        let steps = path.into_vec();
        let beginning = steps[0].0.clone();
        let actions = steps.into_iter().filter_map(|(_, action)| action);
        let mut events: Vec<Event> = actions.map(|Action(event)| event).collect();
        for at in (0..events.len()).rev() {
            let mut fewer = events.clone();
            fewer.remove(at);
            if self.leads_to(&beginning, &fewer, violation) {
                events = fewer;
            }
        }
        (beginning, events)
    }

    fn leads_to(&self, beginning: &World, events: &[Event], violation: Violation) -> bool {
        let mut world = beginning.clone();
        for event in events {
            if !self.events(&world).contains(event) || !self.step(&mut world, event, &mut |_| {}) {
                return false;
            }
        }
        world.ledger.broken == Some(violation)
    }

    /// The events as sentences.
    fn narrative(&self, (mut world, events): (World, Vec<Event>)) -> Vec<String> {
        let line = |event| {
            let now = world.now;
            let mut sentences: Vec<String> = Vec::new();
            self.step(&mut world, event, &mut |sentence| {
                sentences.push(sentence.to_string());
            });
            format!("at {now} ms: {}", sentences.join("; "))
        };
        events.iter().map(line).collect()
    }

    fn beginning(&self, external_off_ms: i64) -> World {
        let nodes = (1..=self.scene.nodes as u64).map(NodeId);
        let mut state = State::new();
        let found = ClusterCommand::Found(seqd_state::Found {
            cluster_id: "model".to_owned(),
            window_ms: WINDOW_MS,
            max_peer_skew_ms: self.scene.skew_ms,
            founders: [1, 2].map(|id| (NodeId(id), format!("n{id}"))).into(),
        });
        let mut commands = vec![found.into()];
        if self.scene.left.grants > 0 {
            commands.push(create_sequence().into());
        }
        let mut ledger = Ledger::default();
        let mut processes = Vec::new();
        for (nonce, node) in (1..).zip(nodes) {
            let boot = 1;
            commands.push(ClusterCommand::RegisterStart { node, boot, nonce }.into());
            ledger.starts.insert(node, (boot, nonce));
            let node = Some(node);
            let mut process = Process::new(Origin { node, boot, nonce });
            process.started = true;
            processes.push(process);
        }
        if self.scene.external {
            let mut process = Process::new(Origin {
                node: None,
                boot: 0,
                nonce: 0,
            });
            process.off_ms = external_off_ms;
            processes.push(process);
        }
        let stamp = Stamp {
            wall_ms: WallMs(0),
            cluster_ms: ClusterMs(0),
        };
        state.apply(&Entry { stamp, commands }, None);
        let state = state.with_layout(self.layout.clone());
        World {
            now: 0,
            replicated: Replicated::new(state, self.scene.left.backups > 0),
            backup: None,
            nonces: processes.len() as u64,
            processes,
            strays: Vec::new(),
            ledger,
            left: self.scene.left,
        }
    }
}

fn create_sequence() -> SequenceCommand {
    let progression = Progression::with_defaults(None, None, None, None, false);
    SequenceCommand::Create {
        tenant: seqd_state::Tenant::OPERATOR,
        name: SequenceName::new(SEQUENCE).expect("a name"),
        definition: SequenceDefinition {
            mode: SequenceMode::Segment,
            progression: progression.expect("the defaults"),
            segment: SegmentSizes {
                target_ms: 1_000,
                min: SEGMENT,
                max: SEGMENT,
            },
            description: String::new(),
        },
    }
}

impl Model for Check {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let offs = self.scene.external_off_ms.iter();
        offs.map(|off_ms| self.beginning(*off_ms)).collect()
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.extend(self.events(world).into_iter().map(Action));
    }

    fn next_state(&self, before: &World, Action(event): Action) -> Option<World> {
        let mut after = before.clone();
        if !self.step(&mut after, &event, &mut |_| {}) {
            return None;
        }
        // An event that changes only the remaining counts leads to no state that is not reachable
        // from this one.
        let left = std::mem::replace(&mut after.left, before.left);
        let changes = after != *before;
        after.left = left;
        changes.then_some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::properties(self)
    }
}
