//! `seqd member`: the members of the cluster.

use std::time::Duration;

use clap::Subcommand;
use seqd_client::Error;
use seqd_client::api::{AddMember, Cluster, MemberChange, MemberState, Role, exit, validate_name};
use tokio::time::Instant;

use crate::failure::Failure;
use crate::output::Report;
use crate::session::{PATIENCE, Session};

/// The time limit of `--wait`. A learner of a large cluster receives a snapshot and the log in far
/// less time.
const WAIT: Duration = Duration::from_secs(120);

/// The polling interval of `--wait`, too short for a person to notice.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The operations on members.
#[derive(Debug, Subcommand)]
pub(crate) enum MemberCommand {
    /// List all members
    List,
    /// Add a node as a learner
    Add {
        /// Name of the node
        name: String,
        /// Address for other nodes, HOST:7401
        #[arg(value_name = "HOST:PORT")]
        peer: String,
        /// URL for clients, http://HOST:7400
        #[arg(long, value_name = "URL")]
        http: Option<String>,
        /// Wait until the node has caught up, at most 2 minutes
        #[arg(long)]
        wait: bool,
    },
    /// Make a learner a voter
    Promote {
        /// Name of the learner
        name: String,
        /// Wait until the node is a voter, at most 2 minutes
        #[arg(long)]
        wait: bool,
    },
    /// Remove a member for good; a leader transfers leadership first
    Remove {
        /// Name of the member
        name: String,
        /// Wait until the member is removed, at most 2 minutes
        #[arg(long)]
        wait: bool,
    },
}

pub(crate) async fn run(command: MemberCommand, session: &Session) -> Result<u8, Failure> {
    match command {
        MemberCommand::List => list(session).await,
        MemberCommand::Add {
            name,
            peer,
            http,
            wait,
        } => {
            validate_name(&name).map_err(|error| Failure::usage(error.to_string()))?;
            let request = AddMember { name, peer, http };
            if session.is_dry_run {
                let trial = session.client.dry_run();
                return session.print_plan(&trial.add_member(&request).await?);
            }
            let change = session.client.add_member(&request).await?;
            finish(change, wait.then_some(Goal::CaughtUp), session).await
        }
        MemberCommand::Promote { name, wait } => {
            if session.is_dry_run {
                let trial = session.client.dry_run();
                return session.print_plan(&trial.promote_member(&name).await?);
            }
            let change = session.client.promote_member(&name).await?;
            finish(change, wait.then_some(Goal::Votes), session).await
        }
        MemberCommand::Remove { name, wait } => {
            let plan = session.client.dry_run().remove_member(&name).await?;
            if session.is_dry_run {
                return session.print_plan(&plan);
            }
            if !session.may_go_on(&plan.effect)? {
                return Ok(exit::OK);
            }
            let change = session.client.remove_member(&name).await?;
            finish(change, wait.then_some(Goal::Gone), session).await
        }
    }
}

async fn list(session: &Session) -> Result<u8, Failure> {
    let cluster = session.client.cluster().await?;
    let dash = || "-".to_owned();
    let columns = [
        "name", "id", "role", "state", "peer", "http", "applied", "lag", "version",
    ];
    let mut report = Report::list(&cluster.members)?.with_columns(&columns);
    for member in cluster.members {
        report.row(vec![
            member.name,
            member.id.to_string(),
            member.role.as_str().to_owned(),
            member.state.as_str().to_owned(),
            member.peer,
            member.http.unwrap_or_else(dash),
            member.applied.map_or_else(dash, |index| index.to_string()),
            member
                .lag_entries
                .map_or_else(dash, |entries| entries.to_string()),
            member.version.unwrap_or_else(dash),
        ]);
    }
    report.print(session.format)?;
    Ok(exit::OK)
}

/// The condition for which `--wait` waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// The learner has caught up with the leader.
    CaughtUp,
    /// The learner has become a voter.
    Votes,
    /// The member is removed.
    Gone,
}

impl Goal {
    /// Returns whether the goal is reached for the member of that name, as `seen` shows.
    fn is_reached(self, seen: &Result<Cluster, Error>, name: &str) -> bool {
        match seen {
            Ok(cluster) => {
                let member = cluster.members.iter().find(|member| member.name == name);
                match self {
                    Self::CaughtUp => member.is_some_and(|m| m.state == MemberState::Ready),
                    Self::Votes => member.is_some_and(|m| m.role != Role::Learner),
                    Self::Gone => member.is_none(),
                }
            }
            // The removal was acknowledged, and the only reachable endpoint was the removed node.
            Err(Error::Unreachable(_)) => self == Self::Gone,
            Err(_) => false,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::CaughtUp => "caught up",
            Self::Votes => "become a voter",
            Self::Gone => "gone",
        }
    }
}

/// Prints the change. With `--wait`, first polls the cluster until the change is complete.
async fn finish(
    mut change: MemberChange,
    goal: Option<Goal>,
    session: &Session,
) -> Result<u8, Failure> {
    if let Some(goal) = goal
        && let Some(cluster) = until(&change.name, goal, session).await?
    {
        change.quorum = cluster.quorum;
    }
    let role = change.role.map_or("removed", Role::as_str);
    let people = format!(
        "{} {role}, quorum of {} voters\n",
        change.name, change.quorum.voters
    );
    let mut report = Report::new(&change)?
        .with_columns(&["name", "id", "role", "voters", "can_lose"])
        .with_people(people);
    report.row(vec![
        change.name.clone(),
        change.id.to_string(),
        role.to_owned(),
        change.quorum.voters.to_string(),
        change.quorum.can_lose.to_string(),
    ]);
    report.print(session.format)?;
    Ok(exit::OK)
}

/// Polls the cluster until the goal is reached. Retries a failed request, since a change of leader
/// may be in progress.
async fn until(name: &str, goal: Goal, session: &Session) -> Result<Option<Cluster>, Failure> {
    let begun = Instant::now();
    let deadline = begun + WAIT;
    let mut next_note = begun + PATIENCE;
    loop {
        let seen = session.client.cluster().await;
        if goal.is_reached(&seen, name) {
            return Ok(seen.ok());
        }
        if Instant::now() >= deadline {
            let detail = format!(
                "{name} has not {} within {} s",
                goal.as_str(),
                WAIT.as_secs()
            );
            return Err(Failure::of(exit::UNHEALTHY, "not-yet", detail));
        }
        if Instant::now() >= next_note {
            let (why, goal) = (standing(&seen, name), goal.as_str());
            let (waited, all) = (begun.elapsed().as_secs(), WAIT.as_secs());
            session.note(&format!(
                "{name} has not {goal} yet: {why} ({waited} s of {all} s)"
            ));
            next_note = Instant::now() + PATIENCE;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The state of the member, for the progress line of `--wait`.
fn standing(seen: &Result<Cluster, Error>, name: &str) -> String {
    let cluster = match seen {
        Ok(cluster) => cluster,
        Err(error) => return error.to_string(),
    };
    let Some(member) = cluster.members.iter().find(|member| member.name == name) else {
        return "the node is not a member".to_owned();
    };
    let (role, state) = (member.role.as_str(), member.state.as_str());
    match member.lag_entries {
        Some(lag) if lag > 0 => format!("the node is a {role}, {state}, {lag} entries behind"),
        _ => format!("the node is a {role}, {state}"),
    }
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
    fn a_wait_reports_the_state_of_the_member() {
        let mut seen = cluster(["ready", "waiting", "ready"]);
        seen.members[1].lag_entries = Some(12);
        let seen = Ok(seen);
        assert_eq!(
            standing(&seen, "n2"),
            "the node is a follower, waiting, 12 entries behind"
        );
        assert_eq!(standing(&seen, "n3"), "the node is a follower, ready");
        assert_eq!(standing(&seen, "n9"), "the node is not a member");
    }

    #[test]
    fn a_goal_is_seen_in_the_cluster() {
        let seen = Ok(cluster(["ready", "waiting", "ready"]));
        assert!(Goal::CaughtUp.is_reached(&seen, "n1"));
        assert!(!Goal::CaughtUp.is_reached(&seen, "n2"));
        assert!(Goal::Votes.is_reached(&seen, "n2"));
        assert!(!Goal::Gone.is_reached(&seen, "n2") && Goal::Gone.is_reached(&seen, "n4"));
        let nobody = Err(Error::Unreachable(Vec::new()));
        assert!(Goal::Gone.is_reached(&nobody, "n1") && !Goal::Votes.is_reached(&nobody, "n1"));
    }
}
