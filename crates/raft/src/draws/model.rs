//! A model check of draws: stateright explores every order of arrivals, confirmations, elections,
//! restarts and grants of three voters.
//!
//! Windows and confirmations are the code that runs, on the real state. The model adds the rest in
//! small: votes, which consensus stores and sends, and a log that a leader extends while a majority
//! has voted for no later term. A [`Fault`] is planted in this part, to prove that the check detects
//! it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use seqd_state::idgen::WallMs;
use seqd_state::{
    ClusterMs, Draw, DrawFrom, DrawResult, Entry, SequenceMode, SequenceName, Stamp, State, Windows,
};
use seqd_store::testing::{create_sequence, found_cluster};
use stateright::{Checker, Model, Property};

use crate::quorum::Confirmations;

const NODES: usize = 3;
const ORDER: &str = "order";
const STAMP: Stamp = Stamp {
    wall_ms: WallMs(0),
    cluster_ms: ClusterMs(0),
};
const TIMES: (WallMs, ClusterMs) = (STAMP.wall_ms, STAMP.cluster_ms);

/// A mistake in the model's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// No voter is asked.
    Unconfirmed,
    /// A request joins a round that has already asked the voters.
    JoinsARound,
    /// A promise is registered after the vote was sent.
    RegisteredLate,
    /// A restart loses the promise.
    PromiseForgotten,
    /// The leader counts itself although it has voted for another candidate.
    OwnPromiseIgnored,
    /// A follower sends the promise that it had before the request arrived.
    SenderCached,
}

/// A request of a client: a value that was answered before it arrived is smaller than its own.
#[derive(Clone, Debug, PartialEq, Hash)]
struct Request {
    answered: i64,
}

/// A round at a leader. The promises of its voters arrive one by one.
#[derive(Clone, Debug, PartialEq, Hash)]
struct Round {
    request: Request,
    promises: Vec<(u64, u64)>,
}

/// A request that a follower sends to a leader, with its promise.
#[derive(Clone, Debug, PartialEq, Hash)]
struct Group {
    from: usize,
    to: usize,
    request: Request,
    promised: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Hash)]
struct Node {
    /// The term of the vote on its disk, and the term that it registered.
    voted: u64,
    promised: u64,
    /// Its own candidacy, and the voters that support it.
    runs: Option<(u64, Vec<usize>)>,
    leads: Option<u64>,
    windows: Windows,
    /// The end of what its applied log has granted. Only an election brings a node up to date.
    applied: u64,
    round: Option<Round>,
}

#[derive(Clone, Debug, PartialEq, Hash)]
struct World {
    nodes: [Node; NODES],
    groups: Vec<Group>,
    /// The end of what the committed log has granted.
    granted: u64,
    /// The largest value that was answered.
    answered: i64,
    is_out_of_order: bool,
    requests: usize,
    elections: u64,
    restarts: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// A request arrives at a leader, and its round begins.
    Arrives(usize),
    /// A voter's promise reaches a leader that asks.
    Promises {
        voter: usize,
        leader: usize,
    },
    /// A leader draws for its round.
    Draws(usize),
    /// A request arrives at a follower, which sends it on.
    ArrivesFar {
        follower: usize,
        leader: usize,
    },
    /// The oldest group reaches its leader, or is lost.
    Delivered,
    Lost,
    Runs(usize),
    Registers {
        voter: usize,
        candidate: usize,
    },
    Votes {
        voter: usize,
        candidate: usize,
    },
    Wins(usize),
    Restarts(usize),
}

struct Check {
    fault: Option<Fault>,
    requests: usize,
    restarts: usize,
    /// The applied logs by the end of what they have granted. All states share them.
    logs: Mutex<BTreeMap<u64, Arc<State>>>,
}

fn order() -> SequenceName {
    ORDER.parse().expect("a name")
}

fn granted(log: &State) -> u64 {
    log.sequence(&order()).map_or(0, |order| order.next_index)
}

impl Check {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn log(&self, granted: u64) -> Arc<State> {
        Arc::clone(&self.logs.lock().expect("no check has failed")[&granted])
    }

    fn keep(&self, log: State) -> Arc<State> {
        let mut logs = self.logs.lock().expect("no check has failed");
        Arc::clone(logs.entry(granted(&log)).or_insert_with(|| Arc::new(log)))
    }

    /// The promise that a leader counts as its own.
    fn own(&self, node: &Node, term: u64) -> u64 {
        if self.has(Fault::OwnPromiseIgnored) {
            term
        } else {
            node.promised
        }
    }

    fn confirms(&self, term: u64, promises: &[(u64, u64)]) -> bool {
        let mut confirmations = Confirmations::new(term, vec![(0..NODES as u64).collect()]);
        for (voter, promised) in promises {
            confirmations.count(*voter, *promised);
        }
        confirmations.is_complete() || self.has(Fault::Unconfirmed)
    }

    /// Draws one value at a leader and answers the request. A window that is short is extended
    /// first, if a majority still accepts the leader's entries.
    fn draw(&self, world: &mut World, at: usize, term: u64, request: &Request) -> bool {
        let from = DrawFrom::Sequence(order());
        let draw = Draw { from, count: 1 };
        let accepting = world.nodes.iter().filter(|node| node.voted <= term).count();
        let node = &mut world.nodes[at];
        if !node.windows.begin(term) {
            return false;
        }
        let mut log = self.log(node.applied);
        if let Some(command) = node.windows.wanted(&log, &draw, TIMES) {
            if accepting <= NODES / 2 {
                return false;
            }
            let commands = vec![command];
            let entry = Entry {
                stamp: STAMP,
                commands,
            };
            let mut next = State::clone(&log);
            let outcomes = next.apply(&entry, None);
            (node.windows).granted(term, &entry.commands[0], &outcomes[0], STAMP.cluster_ms);
            log = self.keep(next);
            node.applied = granted(&log);
            world.granted = node.applied;
        }
        let Ok(DrawResult::Drawn(drawn)) = node.windows.draw(&log, &draw, STAMP.wall_ms) else {
            return false;
        };
        let value = drawn.range.first;
        world.is_out_of_order |= value <= request.answered;
        world.answered = world.answered.max(value);
        true
    }

    fn step(&self, world: &mut World, event: Event) -> bool {
        let answered = world.answered;
        match event {
            Event::Arrives(at) => {
                world.requests -= 1;
                let node = &mut world.nodes[at];
                let is_joined = node.round.is_some();
                if is_joined && !self.has(Fault::JoinsARound) {
                    return false;
                }
                let own = self.own(node, node.leads.unwrap_or_default());
                let round = node.round.get_or_insert(Round {
                    request: Request { answered },
                    promises: vec![(at as u64, own)],
                });
                round.request.answered = answered;
                true
            }
            Event::Promises { voter, leader } => {
                let promised = world.nodes[voter].promised;
                let Some(round) = &mut world.nodes[leader].round else {
                    return false;
                };
                // Each voter is asked once in a round.
                let is_new = round.promises.iter().all(|(id, _)| *id != voter as u64);
                round.promises.push((voter as u64, promised));
                is_new
            }
            Event::Draws(at) => {
                let node = &mut world.nodes[at];
                let (Some(round), Some(term)) = (node.round.take(), node.leads) else {
                    return false;
                };
                self.confirms(term, &round.promises) && self.draw(world, at, term, &round.request)
            }
            Event::ArrivesFar { follower, leader } => {
                world.requests -= 1;
                let node = &world.nodes[follower];
                let promised = if self.has(Fault::SenderCached) {
                    1
                } else {
                    node.promised
                };
                world.groups.push(Group {
                    from: follower,
                    to: leader,
                    request: Request { answered },
                    promised,
                });
                true
            }
            Event::Delivered => {
                let group = world.groups.remove(0);
                let node = &world.nodes[group.to];
                let Some(term) = node.leads else {
                    return false;
                };
                let own = (group.to as u64, self.own(node, term));
                self.confirms(term, &[own, (group.from as u64, group.promised)])
                    && self.draw(world, group.to, term, &group.request)
            }
            Event::Lost => {
                world.groups.remove(0);
                true
            }
            event => self.elect(world, event),
        }
    }

    /// The events of consensus.
    fn elect(&self, world: &mut World, event: Event) -> bool {
        match event {
            Event::Runs(at) => {
                world.elections -= 1;
                let node = &mut world.nodes[at];
                let term = node.voted.max(node.promised) + 1;
                (node.promised, node.voted) = (term, term);
                node.runs = Some((term, vec![at]));
                true
            }
            Event::Registers { voter, candidate } => {
                let term = world.nodes[candidate]
                    .runs
                    .as_ref()
                    .map_or(0, |runs| runs.0);
                let node = &mut world.nodes[voter];
                let is_due = !self.has(Fault::RegisteredLate) || node.voted >= term;
                let is_new = node.promised < term;
                node.promised = node.promised.max(term);
                is_due && is_new
            }
            Event::Votes { voter, candidate } => {
                let Some((term, _)) = world.nodes[candidate].runs else {
                    return false;
                };
                let node = &mut world.nodes[voter];
                let is_registered = node.promised == term || self.has(Fault::RegisteredLate);
                if node.voted >= term || !is_registered {
                    return false;
                }
                node.voted = term;
                if let Some((_, votes)) = &mut world.nodes[candidate].runs {
                    votes.push(voter);
                }
                true
            }
            Event::Wins(at) => {
                let node = &mut world.nodes[at];
                let Some((term, votes)) = node.runs.take() else {
                    return false;
                };
                node.leads = Some(term);
                node.applied = world.granted;
                node.round = None;
                votes.len() > NODES / 2
            }
            Event::Restarts(at) => {
                world.restarts -= 1;
                let node = &mut world.nodes[at];
                let voted = node.voted;
                let promised = if self.has(Fault::PromiseForgotten) {
                    0
                } else {
                    voted
                };
                *node = Node {
                    voted,
                    promised,
                    applied: node.applied,
                    ..Node::default()
                };
                true
            }
            _ => false,
        }
    }
}

impl Model for Check {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        let mut log = State::default();
        let commands = vec![
            found_cluster("model", NODES as u64),
            create_sequence(ORDER, SequenceMode::Ordered, ""),
        ];
        let entry = Entry {
            stamp: STAMP,
            commands,
        };
        log.apply(&entry, None);
        let begin = granted(&self.keep(log));
        let mut nodes: [Node; NODES] = Default::default();
        for node in &mut nodes {
            (node.voted, node.promised, node.applied) = (1, 1, begin);
        }
        nodes[0].leads = Some(1);
        let mut world = World {
            nodes,
            groups: Vec::new(),
            granted: begin,
            answered: 0,
            is_out_of_order: false,
            requests: self.requests,
            elections: 2,
            restarts: self.restarts,
        };
        // The first leader has a window.
        assert!(self.draw(&mut world, 0, 1, &Request { answered: 0 }));
        vec![world]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        let leads = |at: usize| world.nodes[at].leads.is_some();
        for at in 0..NODES {
            if world.requests > 0 && leads(at) {
                events.push(Event::Arrives(at));
            }
            if world.nodes[at].round.is_some() {
                events.push(Event::Draws(at));
            }
            // Node 1 runs, and then node 0 again. The third node has the deciding vote.
            if world.elections == at as u64 + 1 {
                events.push(Event::Runs(at));
            }
            if world.nodes[at].runs.is_some() {
                events.push(Event::Wins(at));
            }
            if world.restarts > 0 && at == 2 {
                events.push(Event::Restarts(at));
            }
            for other in (0..NODES).filter(|other| *other != at) {
                if world.nodes[other].round.is_some() {
                    let (voter, leader) = (at, other);
                    events.push(Event::Promises { voter, leader });
                }
                if world.requests > 0 && !leads(at) && leads(other) && world.groups.is_empty() {
                    let (follower, leader) = (at, other);
                    events.push(Event::ArrivesFar { follower, leader });
                }
                if world.nodes[other].runs.is_some() {
                    let (voter, candidate) = (at, other);
                    events.push(Event::Registers { voter, candidate });
                    events.push(Event::Votes { voter, candidate });
                }
            }
        }
        if !world.groups.is_empty() {
            events.extend([Event::Delivered, Event::Lost]);
        }
    }

    fn next_state(&self, before: &World, event: Event) -> Option<World> {
        let mut after = before.clone();
        self.step(&mut after, event).then_some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("order", |_, world: &World| !world.is_out_of_order),
            Property::sometimes("two leaders have answered", |_, world: &World| {
                world.answered > 1024
            }),
        ]
    }
}

/// Explores every state. Returns whether the order holds in all of them.
fn explore(fault: Option<Fault>, requests: usize, restarts: usize) -> bool {
    let check = Check {
        fault,
        requests,
        restarts,
        logs: Mutex::default(),
    };
    let checker = check.checker().spawn_bfs().join();
    let sight = checker.discovery("two leaders have answered");
    assert!(
        sight.is_some() || fault.is_some(),
        "no second leader answered"
    );
    println!("{fault:?}: {} states", checker.unique_state_count());
    checker.discovery("order").is_none()
}

#[test]
fn values_increase_in_every_order_of_events() {
    assert!(explore(None, 3, 0));
    assert!(explore(None, 2, 1));
}

#[test]
fn each_planted_fault_is_found() {
    use Fault::{
        JoinsARound, OwnPromiseIgnored, PromiseForgotten, RegisteredLate, SenderCached, Unconfirmed,
    };
    for fault in [
        Unconfirmed,
        JoinsARound,
        RegisteredLate,
        PromiseForgotten,
        OwnPromiseIgnored,
        SenderCached,
    ] {
        assert!(!explore(Some(fault), 3, 1), "{fault:?} is not found");
    }
}
