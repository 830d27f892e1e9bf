//! Checks of the group: its members, its quorum, and the links between the nodes.

use std::collections::{BTreeMap, BTreeSet};

use seqd_client::api::advice::LOST_MAJORITY;
use seqd_client::api::{Facts, LinkFacts, Member, MemberState, NodeFacts, Role};

use super::check::{Check, Finding, fail, warn};
use super::settings::election_ms;
use super::{alone, answering};

/// A member that lags by more entries than this needs time before it can replace another.
const LAGS: u64 = 10_000;

/// The observed changes of the leader within ten minutes from which the leader is unstable. A
/// rolling restart makes a few.
const FLAPPING: u64 = 10;

pub(super) fn members(facts: &Facts) -> Check {
    let members = &facts.cluster.members;
    let answers = |name: &str| facts.nodes.iter().any(|node| node.name == name);
    let mut findings: Vec<Finding> = members.iter().filter_map(|it| member(facts, it)).collect();
    if members.is_empty() {
        let why = own(facts).and_then(|node| node.not_ready.clone());
        let remedy = match facts.cluster.cluster_id {
            None => "start the other founders, or add this node: seqd member add NAME HOST:7401"
                .to_owned(),
            Some(_) => format!("start the other members; {LOST_MAJORITY}"),
        };
        let standing = facts.cluster.standing();
        findings.push(fail(
            format!("{standing}: {}", why.unwrap_or_default()),
            remedy,
        ));
    }
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let count = names.iter().filter(|name| answers(name)).count();
    let drains = members
        .iter()
        .filter(|it| it.state == MemberState::Draining);
    let why = if findings.is_empty() || findings.len() > drains.count() {
        "a member that is down does not count towards the quorum, and clients lose an endpoint"
    } else {
        "a draining member votes and serves requests, and balancers send it none"
    };
    Check::of(
        "members",
        why,
        findings,
        format!("all {count} answer: {}", names.join(", ")),
    )
}

fn member(facts: &Facts, member: &Member) -> Option<Finding> {
    let name = &member.name;
    let missing = facts.missing.iter().find(|missing| missing.name == *name);
    if member.state == MemberState::Unreachable {
        let why = missing.map_or("no answer", |missing| missing.reason.as_str());
        return Some(fail(
            format!("{name} is unreachable from {}: {why}", facts.node),
            format!(
                "on {name}: check that seqd runs and why it stopped (the last line of its log has \
                 the code); check the network and the firewall to {}",
                member.peer
            ),
        ));
    }
    if let Some(missing) = missing {
        return Some(fail(
            format!("{name} did not send its facts: {}", missing.reason),
            format!("upgrade {name} if its program is older, or check its log"),
        ));
    }
    (member.state == MemberState::Draining).then(|| {
        warn(
            format!("{name} is draining"),
            format!("after the maintenance: start {name} again, or resume it"),
        )
    })
}

fn own(facts: &Facts) -> Option<&NodeFacts> {
    facts.nodes.iter().find(|node| node.name == facts.node)
}

pub(super) fn quorum(facts: &Facts) -> Check {
    let quorum = facts.cluster.quorum;
    let (voters, reachable) = (quorum.voters, quorum.reachable);
    let needed = voters / 2 + 1;
    let learner = facts.cluster.members.iter().find_map(|member| {
        let waits = member.role == Role::Learner && member.state == MemberState::Ready;
        let name = &member.name;
        waits.then(|| format!("make the learner {name} a voter: seqd member promote {name} --wait"))
    });
    let finding = if voters > 0 && reachable < needed {
        Some(fail(
            format!("quorum LOST: {reachable} of {voters} voters, {needed} are needed"),
            format!(
                "start the voters that are down, or repair the network to them (issued IDs stay \
                 valid); {LOST_MAJORITY}"
            ),
        ))
    } else if quorum.can_lose == 0 && voters > 0 {
        let other = if reachable < voters {
            "start the voters that are down before any other maintenance"
        } else {
            "add nodes until there are three voters: seqd member add, then seqd member promote"
        };
        let remedy = learner.as_deref().filter(|_| reachable == voters);
        let remedy = remedy.unwrap_or(other);
        let text = format!("{reachable} of {voters} voters, can lose 0 nodes");
        Some(warn(text, remedy))
    } else if voters.is_multiple_of(2) && voters > 0 {
        Some(warn(
            format!(
                "{voters} voters can lose as many nodes as {} can",
                voters - 1
            ),
            learner
                .as_deref()
                .unwrap_or("use an odd number of voters: add and promote another, or demote one"),
        ))
    } else {
        None
    };
    let change = facts.cluster.voter_change_needs().map(|needed| {
        fail(
            format!("a change of voters is under way and needs {needed}"),
            "start these voters, or repair the network to them; see the page RECOVERY of the \
             documentation, A change of voters that is stuck",
        )
    });
    Check::of(
        "quorum",
        "without a majority of the voters nothing is written: no sequences, no locks, no new \
         windows of IDs",
        finding.into_iter().chain(change),
        format!(
            "{reachable} of {voters} voters, can lose {}",
            quorum.can_lose
        ),
    )
    .unless((voters == 0).then(|| facts.cluster.standing()))
}

pub(super) fn leader(facts: &Facts) -> Check {
    let mut findings = Vec::new();
    let leaders: BTreeSet<&str> = facts
        .nodes
        .iter()
        .filter_map(|node| node.leader.as_deref())
        .collect();
    if leaders.is_empty() {
        findings.push(fail(
            "no leader",
            "see quorum, links and clock; with a quorum in contact an election takes a second",
        ));
    }
    // A follower notices up to a heartbeat later that its leader has lost the quorum.
    let leads = |name: &str| {
        let mut nodes = facts.nodes.iter();
        let node = nodes.find(|node| node.name == name);
        node.is_none_or(|node| node.leader.is_some())
    };
    if let Some(name) = leaders.iter().find(|name| !leads(name)) {
        findings.push(fail(
            format!("{name}, the leader, has no contact with a quorum"),
            "see quorum, members and links; run the command again if an election is under way",
        ));
    }
    if leaders.len() > 1 {
        let names: Vec<&str> = leaders.iter().copied().collect();
        findings.push(warn(
            format!("the nodes follow different leaders: {}", names.join(", ")),
            "run the command again: this is normal for a second after an election",
        ));
    }
    let changes = facts.nodes.iter().map(|node| node.leader_changes).max();
    if let Some(changes) = changes.filter(|changes| *changes >= FLAPPING) {
        findings.push(warn(
            format!("{changes} leader changes in ten minutes"),
            "see fsync and links: a slow disk or a lossy network causes elections",
        ));
    }
    let name = leaders.first().copied().unwrap_or_default();
    Check::of(
        "leader",
        "the leader commits every write; without one, only IDs within a window are issued",
        findings,
        format!("{name} leads, term {}", facts.cluster.term),
    )
}

pub(super) fn readiness(facts: &Facts) -> Check {
    // The check of the members names the draining ones, which serve.
    let drains = |name: &str| {
        let member = facts.cluster.member(name);
        member.is_some_and(|member| member.state == MemberState::Draining)
    };
    let nodes = facts.nodes.iter().filter(|node| !drains(&node.name));
    let unready = nodes.filter_map(|node| {
        let why = node.not_ready.as_deref()?;
        Some(fail(
            format!("{} is not ready: {why}", node.name),
            format!(
                "see the other checks; /readyz?verbose at {} lists its own",
                node.name
            ),
        ))
    });
    Check::of(
        "readiness",
        "a node that is not ready refuses requests, and balancers send it none",
        unready,
        "every node that answers is ready",
    )
}

pub(super) fn replication(facts: &Facts) -> Check {
    let lagging = facts.cluster.members.iter().filter_map(|member| {
        let lag = member.lag_entries.filter(|lag| *lag > LAGS)?;
        let role = match member.role {
            Role::Learner => "learner",
            _ => "voter",
        };
        Some(warn(
            format!("{role} {} lags by {lag} entries", member.name),
            format!(
                "wait until it has caught up before you restart another voter; if the lag grows, \
                 compare the disk and the network of {} with the others",
                member.name
            ),
        ))
    });
    let members = facts.cluster.members.iter();
    let has_no_leader = facts.nodes.iter().all(|node| node.leader.is_none());
    let most = members.filter_map(|member| member.lag_entries).max();
    Check::of(
        "replication",
        "a voter that lags cannot replace a failed one at once, and a learner that lags cannot be \
         promoted",
        lagging,
        format!("the largest lag is {} entries", most.unwrap_or(0)),
    )
    .unless(alone(facts).or_else(|| has_no_leader.then(|| "no leader".to_owned())))
}

/// The two directions between each pair of nodes.
pub(super) fn links(facts: &Facts) -> Check {
    let names: Vec<&str> = facts.cluster.members.iter().map(|m| &*m.name).collect();
    let nodes: BTreeMap<&str, &NodeFacts> = facts.nodes.iter().map(|it| (&*it.name, it)).collect();
    let links = Links { nodes: &nodes };
    let mut findings = Vec::new();
    for (at, one) in names.iter().enumerate() {
        for other in &names[at + 1..] {
            findings.extend(links.pair(one, other));
        }
    }
    for node in &facts.nodes {
        let limit = election_ms(&node.config) / 4.0;
        let slow = node.links.iter().filter_map(|link| {
            let round_trip = link.round_trip_ms.filter(|ms| *ms > limit)?;
            Some(warn(
                format!(
                    "{} to {}: {round_trip:.0} ms round trip",
                    node.name, link.name
                ),
                format!(
                    "place the nodes closer together, or raise raft.election on every node: more \
                     than {limit:.0} ms delays elections"
                ),
            ))
        });
        findings.extend(slow);
    }
    let all = facts.nodes.iter().flat_map(|node| &node.links);
    let worst = all
        .filter_map(|link| link.round_trip_ms)
        .fold(0.0, f64::max);
    let pairs = match facts.missing.is_empty() {
        true => "every pair".to_owned(),
        false => format!("every pair of {}", answering(facts)),
    };
    Check::of(
        "links",
        "Raft needs every pair of nodes to connect in both directions; behind a one-way \
         partition, a node may vote for a leader that it cannot follow, or its responses may be lost",
        findings,
        format!("{pairs} connects both ways, at most {worst:.1} ms"),
    )
    .unless(alone(facts))
}

struct Links<'a> {
    nodes: &'a BTreeMap<&'a str, &'a NodeFacts>,
}

impl Links<'_> {
    fn link(&self, from: &str, to: &str) -> Option<&LinkFacts> {
        let node = self.nodes.get(from)?;
        node.links.iter().find(|link| link.name == to)
    }

    fn answered(&self, from: &str, to: &str) -> bool {
        let link = self.link(from, to);
        link.is_some_and(|link| link.round_trip_ms.is_some())
    }

    /// Returns whether messages of `from` arrive at `to`, according to either node.
    fn arrives(&self, from: &str, to: &str) -> bool {
        self.answered(from, to) || self.link(to, from).is_some_and(|link| link.receives)
    }

    /// Returns whether any node reaches this member, or the member sent its facts.
    fn is_up(&self, name: &str) -> bool {
        self.nodes.contains_key(name) || self.nodes.keys().any(|from| self.answered(from, name))
    }

    fn pair(&self, one: &str, other: &str) -> Option<Finding> {
        if self.link(one, other).is_none() && self.link(other, one).is_none() {
            return None;
        }
        let (to, from) = (self.arrives(one, other), self.arrives(other, one));
        match (to, from) {
            (true, true) => None,
            (false, true) => Some(self.one_way(one, other)),
            (true, false) => Some(self.one_way(other, one)),
            (false, false) => (self.is_up(one) && self.is_up(other)).then(|| {
                fail(
                    format!(
                        "{one} and {other} do not reach each other, although both run: a cut link, or \
                         a one-way partition that loses the packets of one direction"
                    ),
                    format!(
                        "check the network and the firewalls between {one} and {other} (port 7401)"
                    ),
                )
            }),
        }
    }

    fn one_way(&self, from: &str, to: &str) -> Finding {
        let error = self.link(from, to).and_then(|link| link.error.as_deref());
        let error = error.map_or_else(String::new, |error| format!(": {error}"));
        fail(
            format!(
                "one-way partition: {from} does not reach {to}, although {to} reaches {from}{error}"
            ),
            format!(
                "check the route and the firewall from {from} to {to}'s peer port (7401), and that \
                 {from} resolves {to}'s name to the right address"
            ),
        )
    }
}
