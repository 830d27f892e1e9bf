//! `--wait`: polls the cluster until a change is complete. Shows the progress by a bar on a
//! terminal, and otherwise by a line every few seconds.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use seqd_client::Error;
use seqd_client::api::{
    Cluster, ErrorCode, Member, MemberState, Problem, Role, UpdateMember, exit,
};
use tokio::time::Instant;

use crate::failure::Failure;
use crate::progress::Progress;
use crate::session::{PATIENCE, Session};

/// The time limit of `--wait`. A learner of a large cluster receives a snapshot and the log in far
/// less time.
pub(super) const LIMIT: Duration = Duration::from_secs(120);

/// The polling interval, too short for a person to notice.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The length of the progress bar.
const WHOLE: u64 = 1_000;

/// The condition for which `--wait` waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Goal {
    /// The member serves everything.
    Ready,
    /// The learner has become a voter.
    Votes,
    /// The voter has become a learner.
    Learns,
    /// The member is removed.
    Gone,
    /// The member has these addresses and is reachable.
    Addresses(UpdateMember),
}

impl Goal {
    /// Returns whether the goal is reached for the member of that name, as `seen` shows.
    fn is_reached(&self, seen: &Result<Cluster, Error>, name: &str) -> bool {
        let cluster = match seen {
            Ok(cluster) => cluster,
            // The removal was acknowledged, and the only reachable endpoint was the removed node.
            Err(Error::Unreachable(_)) => return *self == Self::Gone,
            Err(_) => return false,
        };
        let Some(member) = cluster.member(name) else {
            return *self == Self::Gone;
        };
        match self {
            Self::Ready => member.state == MemberState::Ready,
            Self::Votes => member.role != Role::Learner,
            Self::Learns => member.role == Role::Learner,
            Self::Gone => false,
            Self::Addresses(UpdateMember { peer, http }) => {
                let has_peer = peer.as_ref().is_none_or(|peer| *peer == member.peer);
                let has_http = http.is_none() || *http == member.http;
                has_peer && has_http && member.state != MemberState::Unreachable
            }
        }
    }

    const fn as_str(&self) -> &'static str {
        match self {
            Self::Ready => "is not ready",
            Self::Votes => "is not a voter",
            Self::Learns => "is not a learner",
            Self::Gone => "is not removed",
            Self::Addresses(_) => "does not respond at its new addresses",
        }
    }
}

/// The state that a member has yet to reach.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Awaited {
    /// Entries of the log that it has yet to apply.
    Entries {
        role: Role,
        lag: u64,
    },
    /// The beginning of its window of IDs: a worker's earlier holder may mint until then.
    Window {
        role: Role,
        at: String,
    },
    Other(String),
}

impl Awaited {
    fn of(seen: &Result<Cluster, Error>, name: &str) -> Self {
        let cluster = match seen {
            Ok(cluster) => cluster,
            Err(error) => return Self::Other(error.to_string()),
        };
        match cluster.member(name) {
            Some(member) => Self::of_member(member),
            None => Self::Other("the node is not a member".to_owned()),
        }
    }

    fn of_member(member: &Member) -> Self {
        let role = member.role;
        match (member.state, &member.ids_from, member.lag_entries) {
            (MemberState::Waiting, Some(at), _) => Self::Window {
                role,
                at: at.clone(),
            },
            (MemberState::CatchingUp | MemberState::Waiting, _, Some(lag)) if lag > 0 => {
                Self::Entries { role, lag }
            }
            (state, ..) => Self::Other(format!(
                "the node is a {}, {}",
                role.as_str(),
                state.as_str()
            )),
        }
    }

    /// The remaining amount, in entries or milliseconds.
    fn remaining(&self, now: Timestamp) -> Option<u64> {
        match self {
            Self::Entries { lag, .. } => Some(*lag),
            Self::Window { at, .. } => {
                let at: Timestamp = at.parse().ok()?;
                u64::try_from(at.duration_since(now).as_millis()).ok()
            }
            Self::Other(_) => None,
        }
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entries { role, lag } => {
                let role = role.as_str();
                write!(
                    f,
                    "the node is a {role} and is catching up, {lag} entries behind"
                )
            }
            Self::Window { role, at } => {
                let role = role.as_str();
                write!(
                    f,
                    "the node is a {role} and waits for a window of IDs until {at}"
                )
            }
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// The bar of one wait. Its length is the largest remaining amount that was seen of one kind.
struct Bar {
    progress: Progress,
    kind: Option<std::mem::Discriminant<Awaited>>,
    largest: u64,
}

impl Bar {
    fn new(session: &Session) -> Self {
        Self {
            progress: Progress::of_time(WHOLE, session.is_quiet),
            kind: None,
            largest: 0,
        }
    }

    fn show(&mut self, name: &str, awaited: &Awaited) {
        let kind = std::mem::discriminant(awaited);
        if self.kind.replace(kind) != Some(kind) {
            self.largest = 0;
        }
        let remaining = awaited.remaining(Timestamp::now()).unwrap_or_default();
        self.largest = self.largest.max(remaining).max(1);
        let done = (self.largest - remaining).saturating_mul(WHOLE) / self.largest;
        self.progress.at(done);
        self.progress.words(format!("{name}: {awaited}"));
    }
}

/// Polls the cluster until the goal is reached. Retries a failed request, since a change of leader
/// may be in progress.
pub(super) async fn until(
    name: &str,
    goal: &Goal,
    limit: Duration,
    session: &Session,
) -> Result<Option<Cluster>, Failure> {
    let begun = Instant::now();
    let deadline = begun + limit;
    let mut next_note = begun + PATIENCE;
    let mut bar = Bar::new(session);
    let (goal_text, all) = (goal.as_str(), limit.as_secs());
    loop {
        let seen = session.client.cluster_of_member().await;
        if goal.is_reached(&seen, name) {
            return Ok(seen.ok());
        }
        let awaited = Awaited::of(&seen, name);
        if Instant::now() >= deadline {
            let detail = format!("{name} {goal_text} after {all} s: {awaited}");
            return Err(Failure::of(exit::UNHEALTHY, "not-yet", detail));
        }
        bar.show(name, &awaited);
        if bar.progress.is_hidden() && Instant::now() >= next_note {
            let waited = begun.elapsed().as_secs();
            session.note(&format!(
                "{name} {goal_text} yet: {awaited} ({waited} s of {all} s)"
            ));
            next_note = Instant::now() + PATIENCE;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Sends a change of the members. Repeats the request while another change is under way, such as
/// that of an interrupted command, and while a learner has not caught up.
pub(super) async fn repeat<T>(
    send: impl AsyncFn() -> Result<T, Error>,
    session: &Session,
) -> Result<T, Failure> {
    let begun = Instant::now();
    let mut next_note = begun + PATIENCE;
    loop {
        let problem = match send().await {
            Err(Error::Problem(problem)) if is_passing(&problem) => problem,
            result => return Ok(result?),
        };
        if begun.elapsed() >= LIMIT {
            return Err(Error::Problem(problem).into());
        }
        if Instant::now() >= next_note {
            let (waited, all) = (begun.elapsed().as_secs(), LIMIT.as_secs());
            session.note(&format!("{} ({waited} s of {all} s)", problem.detail));
            next_note = Instant::now() + PATIENCE;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn is_passing(problem: &Problem) -> bool {
    problem.is(ErrorCode::LearnerLagging) || problem.is(ErrorCode::MembershipChangeInProgress)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(states: [&str; 3]) -> Cluster {
        let members: Vec<_> = ["n1", "n2", "n3"]
            .iter()
            .zip(states)
            .map(|(name, state)| {
                let role = if *name == "n1" { "leader" } else { "follower" };
                serde_json::json!({"name": name, "id": "1", "role": role, "state": state,
                    "http": null, "peer": "a:1"})
            })
            .collect();
        let reachable = states.iter().filter(|state| **state == "ready").count();
        serde_json::from_value(
            serde_json::json!({"cluster_id": "c", "node": "n1", "applied": 1,
            "digest": "", "leader": "n1", "term": 1, "members": members,
            "quorum": {"voters": 3, "reachable": reachable, "can_lose": 0}}),
        )
        .unwrap()
    }

    #[test]
    fn a_change_that_can_succeed_later_is_repeated() {
        for (code, expected) in [
            (ErrorCode::MembershipChangeInProgress, true),
            (ErrorCode::LearnerLagging, true),
            (ErrorCode::UnsafeMemberRemoval, false),
            (ErrorCode::NoQuorum, false),
        ] {
            assert_eq!(is_passing(&Problem::new(code, "")), expected, "{code:?}");
        }
    }

    #[test]
    fn a_wait_reports_what_the_member_lacks() {
        let mut seen = cluster(["ready", "catching-up", "unreachable"]);
        seen.members[1].lag_entries = Some(12);
        let text = |seen: &Cluster, name| Awaited::of(&Ok(seen.clone()), name).to_string();
        assert_eq!(
            text(&seen, "n2"),
            "the node is a follower and is catching up, 12 entries behind"
        );
        // A restored cluster grants windows only after its recorded beginning.
        seen.members[1].state = MemberState::Waiting;
        seen.members[1].lag_entries = Some(3);
        seen.members[1].ids_from = Some("2026-11-21T02:26:41.118Z".to_owned());
        assert_eq!(
            text(&seen, "n2"),
            "the node is a follower and waits for a window of IDs until 2026-11-21T02:26:41.118Z"
        );
        assert_eq!(text(&seen, "n3"), "the node is a follower, unreachable");
        assert_eq!(text(&seen, "n9"), "the node is not a member");
    }

    #[test]
    fn the_remaining_amount_is_in_entries_or_in_milliseconds() {
        let role = Role::Learner;
        let at = "2026-11-21T02:26:41.118Z".to_owned();
        let now: Timestamp = "2026-11-21T02:26:40Z".parse().unwrap();
        assert_eq!(Awaited::Window { role, at }.remaining(now), Some(1118));
        assert_eq!(Awaited::Entries { role, lag: 7 }.remaining(now), Some(7));
        assert_eq!(Awaited::Other(String::new()).remaining(now), None);
    }

    #[test]
    fn a_goal_is_seen_in_the_cluster() {
        let seen = Ok(cluster(["ready", "waiting", "ready"]));
        assert!(Goal::Ready.is_reached(&seen, "n1"));
        assert!(!Goal::Ready.is_reached(&seen, "n2"));
        assert!(Goal::Votes.is_reached(&seen, "n2"));
        assert!(!Goal::Learns.is_reached(&seen, "n2"));
        assert!(!Goal::Gone.is_reached(&seen, "n2") && Goal::Gone.is_reached(&seen, "n4"));
        let moved = |peer: &str| {
            Goal::Addresses(UpdateMember {
                peer: Some(peer.to_owned()),
                http: None,
            })
        };
        assert!(moved("a:1").is_reached(&seen, "n1"));
        assert!(!moved("a:2").is_reached(&seen, "n1"));
        let nobody = Err(Error::Unreachable(Vec::new()));
        assert!(Goal::Gone.is_reached(&nobody, "n1") && !Goal::Votes.is_reached(&nobody, "n1"));
    }
}
