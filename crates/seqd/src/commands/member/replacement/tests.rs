//! Checks every interruption of a replacement with a model of the cluster. A command that is killed
//! before or after any request, or that reads an outdated membership, and is then repeated, reaches
//! the same membership and never leaves fewer reachable voters than a quorum.

use std::collections::{BTreeMap, BTreeSet};

use seqd_client::api::Cluster;
use serde_json::json;

use super::*;

const PEER: &str = "n9.example:7401";

fn replacement() -> Replacement {
    Replacement {
        old: "n1".to_owned(),
        new: "n9".to_owned(),
        peer: PEER.to_owned(),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    id: u64,
    votes: bool,
    answers: bool,
    is_ready: bool,
}

/// A cluster and the leader's checks of a change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    nodes: BTreeMap<String, Node>,
    removed: Vec<String>,
}

impl World {
    /// Voters n1 to nN, of which these answer.
    fn of(voters: u64, answers: impl Fn(u64) -> bool) -> Self {
        let node = |id| Node {
            id,
            votes: true,
            answers: answers(id),
            is_ready: answers(id),
        };
        Self {
            nodes: (1..=voters)
                .map(|id| (format!("n{id}"), node(id)))
                .collect(),
            removed: Vec::new(),
        }
    }

    fn counts(&self) -> (usize, usize) {
        let voters: Vec<&Node> = self.nodes.values().filter(|node| node.votes).collect();
        let answering = voters.iter().filter(|node| node.answers).count();
        (answering, voters.len())
    }

    fn has_quorum(&self) -> bool {
        let (answering, voters) = self.counts();
        answering > voters / 2
    }

    fn view(&self) -> Cluster {
        let member = |(name, node): (&String, &Node)| {
            let state = match (node.answers, node.is_ready) {
                (false, _) => "unreachable",
                (true, false) => "catching-up",
                (true, true) => "ready",
            };
            let peer = format!("{name}.example:7401");
            json!({"name": name, "id": node.id.to_string(), "state": state, "http": null,
                "peer": peer, "role": if node.votes { "follower" } else { "learner" }})
        };
        let members: Vec<_> = self.nodes.iter().map(member).collect();
        let (reachable, voters) = self.counts();
        let can_lose = reachable.saturating_sub(voters / 2 + 1);
        serde_json::from_value(
            json!({"cluster_id": "c", "node": "n2", "applied": 1, "digest": "",
            "leader": null, "term": 1, "members": members, "removed": self.removed,
            "quorum": {"voters": voters, "reachable": reachable, "can_lose": can_lose}}),
        )
        .unwrap()
    }

    /// Executes a step as the leader would. A step that was executed before has no effect.
    fn carry_out(&mut self, step: Step) {
        let before = self.clone();
        let replacement = replacement();
        match step {
            Step::Add => {
                let id = 1 + self.nodes.values().map(|node| node.id).max().unwrap();
                self.nodes.entry(replacement.new).or_insert(Node {
                    id,
                    votes: false,
                    answers: true,
                    is_ready: false,
                });
            }
            Step::Wait => self.nodes.get_mut("n9").unwrap().is_ready = true,
            Step::Promote => self.nodes.get_mut("n9").unwrap().votes = true,
            Step::Remove => {
                assert!(self.nodes["n9"].votes && self.nodes["n9"].is_ready);
                if self.nodes.remove(&replacement.old).is_some() {
                    self.removed.push(replacement.old);
                }
            }
            Step::Done => {}
        }
        assert!(self.has_quorum(), "{step:?} of {before:?}");
    }
}

/// The fate of the command at one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Carried,
    /// The command is killed before the request takes effect.
    KilledBefore,
    /// The command is killed after the request took effect.
    KilledAfter,
}

/// A moment of a run: the cluster, the membership that a lagging node would return, and the
/// progress of the running command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    now: World,
    before: World,
    seen: Progress,
}

/// The explored moments, each with the number of faults that were still permitted.
#[derive(Default)]
struct Explored {
    moments: BTreeSet<(Moment, u32)>,
    /// The number of moments in which the replacement was found to be complete.
    ends: usize,
}

impl Explored {
    /// Explores every continuation with at most `faults` kills and outdated views.
    fn explore(&mut self, moment: &Moment, faults: u32, expected: &[&str]) {
        if !self.moments.insert((moment.clone(), faults)) {
            return;
        }
        for (shown, cost) in [(&moment.now, 0), (&moment.before, 1)] {
            let Some(faults) = faults.checked_sub(cost) else {
                continue;
            };
            let step = match replacement().step(&shown.view(), moment.seen) {
                Ok(step) => step,
                // With an even number of voters, the added voter could be one of them.
                Err(Misfit::OnlyRemoves { .. }) if expected.len().is_multiple_of(2) => {
                    assert_eq!(shown.counts().1, expected.len() + 1);
                    continue;
                }
                Err(misfit) => panic!("{misfit} in {moment:?}"),
            };
            if step == Step::Done {
                let voters: Vec<&str> = moment.now.nodes.keys().map(String::as_str).collect();
                assert_eq!(voters, expected);
                assert!(moment.now.nodes.values().all(|node| node.votes));
                self.ends += 1;
                continue;
            }
            for fate in [Fate::Carried, Fate::KilledBefore, Fate::KilledAfter] {
                let is_killed = fate != Fate::Carried;
                let Some(faults) = faults.checked_sub(u32::from(is_killed)) else {
                    continue;
                };
                let mut next = moment.clone();
                next.before.clone_from(&moment.now);
                if fate != Fate::KilledBefore {
                    next.now.carry_out(step);
                }
                next.seen = match is_killed {
                    true => Progress::default(),
                    false => Progress {
                        joins: moment.seen.joins || matches!(step, Step::Add | Step::Promote),
                        removes: moment.seen.removes || step == Step::Remove,
                    },
                };
                self.explore(&next, faults, expected);
            }
        }
    }
}

#[test]
fn every_interrupted_replacement_reaches_the_same_membership_and_keeps_the_quorum() {
    let mut explored = Explored::default();
    for (voters, expected) in [
        (1, &["n9"][..]),
        (2, &["n2", "n9"]),
        (3, &["n2", "n3", "n9"]),
        (4, &["n2", "n3", "n4", "n9"]),
        (5, &["n2", "n3", "n4", "n5", "n9"]),
    ] {
        let all = World::of(voters, |_| true);
        let without_old = World::of(voters, |id| id != 1);
        let with_two_lost = World::of(voters, |id| id > 2);
        for now in [all, without_old, with_two_lost] {
            if now.has_quorum() {
                let before = now.clone();
                let seen = Progress::default();
                let begin = Moment { now, before, seen };
                explored.explore(&begin, 4, expected);
            }
        }
    }
    assert!(explored.ends > 100, "{} complete runs", explored.ends);
}

fn refused(world: &World, replacement: &Replacement) -> String {
    let step = replacement.step(&world.view(), Progress::default());
    step.unwrap_err().to_string()
}

#[test]
fn a_replacement_that_does_not_fit_is_refused() {
    let world = World::of(3, |_| true);
    let named = |old: &str, new: &str, peer: &str| Replacement {
        old: old.to_owned(),
        new: new.to_owned(),
        peer: peer.to_owned(),
    };
    let unknown = refused(&world, &named("n7", "n9", PEER));
    assert_eq!(unknown, "no member is named n7; members: n1, n2, n3");
    // An existing voter is not a replacement, whether the old name is a typing error or not.
    let typing_error = refused(&world, &named("n11", "n2", "n2.example:7401"));
    assert_eq!(typing_error, "no member is named n11; members: n1, n2, n3");
    let older = refused(&world, &named("n3", "n2", "n2.example:7401"));
    assert_eq!(
        older,
        "n2 was a member before n3 was added; name a new node"
    );
    let elsewhere = refused(&world, &named("n1", "n2", "other:7401"));
    assert_eq!(
        elsewhere,
        "n2 is a member at n2.example:7401, not at other:7401"
    );

    let mut learning = world.clone();
    learning.carry_out(Step::Add);
    learning.nodes.get_mut("n1").unwrap().votes = false;
    let learner = refused(&learning, &replacement());
    assert_eq!(learner, "n1 is a learner; only a voter can be replaced");
    // The old node was removed by hand while the new node is still a learner.
    learning.nodes.remove("n1");
    learning.removed.push("n1".to_owned());
    let gone = refused(&learning, &replacement());
    assert_eq!(gone, "no member is named n1; members: n2, n3, n9");
}

/// A first run of `replace n1 nN`, where both nodes vote, is refused for an odd number of voters.
#[test]
fn a_voter_of_an_odd_number_is_no_replacement() {
    for (voters, is_refused) in [(2, false), (3, true), (4, false), (5, true), (6, false)] {
        let replacement = Replacement {
            old: "n1".to_owned(),
            new: format!("n{voters}"),
            peer: format!("n{voters}.example:7401"),
        };
        let mut world = World::of(voters, |_| true);
        for old_runs in [true, false] {
            world.nodes.get_mut("n1").unwrap().answers = old_runs;
            let step = replacement.step(&world.view(), Progress::default());
            assert_eq!(step.is_err(), is_refused, "{voters} voters: {step:?}");
        }
    }
    let slip = Replacement {
        old: "n1".to_owned(),
        new: "n3".to_owned(),
        peer: "n3.example:7401".to_owned(),
    };
    assert_eq!(
        refused(&World::of(3, |_| true), &slip),
        "n3 is a voter already, so this would only remove n1: of 3 voters the cluster can lose 1, \
         of 2 only 0; name a node that does not vote"
    );
}

#[test]
fn a_removal_that_stopped_half_way_is_completed() {
    let mut world = World::of(3, |_| true);
    for step in [Step::Add, Step::Wait, Step::Promote] {
        assert_eq!(
            replacement().step(&world.view(), Progress::default()),
            Ok(step)
        );
        world.carry_out(step);
    }
    // The leader ended after the old node had lost its vote.
    world.nodes.get_mut("n1").unwrap().votes = false;
    assert_eq!(
        replacement().step(&world.view(), Progress::default()),
        Ok(Step::Remove)
    );
    // A new node that stopped after its promotion delays the removal.
    world.nodes.get_mut("n9").unwrap().answers = false;
    assert_eq!(
        replacement().step(&world.view(), Progress::default()),
        Ok(Step::Wait)
    );
}

#[test]
fn the_effect_lists_the_remaining_steps() {
    let mut world = World::of(3, |id| id != 1);
    assert_eq!(
        replacement().effect(&world.view()),
        "replaces n1 by n9 at n9.example:7401: quorum 2/3 -> 3/3, can lose 1 node\n  \
         adds n9 as a learner\n  \
         makes n9 a voter when it is ready: quorum 2/3 -> 3/4, can lose 0 nodes\n  \
         permanently removes n1: quorum 3/4 -> 3/3, can lose 1 node"
    );
    for step in [Step::Add, Step::Wait, Step::Promote] {
        world.carry_out(step);
    }
    assert_eq!(
        replacement().effect(&world.view()),
        "replaces n1 by n9 at n9.example:7401: quorum 3/4 -> 3/3, can lose 1 node\n  \
         permanently removes n1: quorum 3/4 -> 3/3, can lose 1 node"
    );
}
