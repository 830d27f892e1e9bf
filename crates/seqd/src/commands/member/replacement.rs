//! The plan of `member replace`. It depends on the membership alone, so that an interrupted command
//! that is repeated with the same arguments continues where it stopped.
//!
//! Invariants:
//! - The old node is removed only while the new one votes and is ready.
//! - A node replaces only members with a smaller ID. Added members have IDs in the order of their
//!   addition; the IDs of founders have no order.
//! - The leader refuses each step that would cost the quorum.
//! - A run that finds the new node already a voter removes the old node only if the cluster can
//!   then lose as many nodes as before. An interrupted replacement of one of an odd number of
//!   voters leaves an even number, which satisfies this. Otherwise, the names are assumed to be
//!   wrong.

use seqd_client::api::{Cluster, Member, MemberState, Quorum, Role};

/// The arguments of the command.
#[derive(Debug, Clone)]
pub(super) struct Replacement {
    pub(super) old: String,
    pub(super) new: String,
    pub(super) peer: String,
}

/// The progress of a run before its next step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Progress {
    /// The run has observed that the new node was not a voter.
    pub(super) joins: bool,
    /// The removal of the old node was requested. The answering node may not have recorded it yet.
    pub(super) removes: bool,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Add the new node as a learner.
    Add,
    /// Wait until the new node is ready.
    Wait,
    /// Make the new node a voter.
    Promote,
    /// Remove the old node.
    Remove,
    /// The new node votes, and the old one is removed.
    Done,
}

/// The reason why a replacement does not fit the membership.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misfit {
    #[error("no member is named {old}; members: {members}")]
    NoOld { old: String, members: String },
    #[error("{old} is a learner; only a voter can be replaced")]
    OldLearns { old: String },
    #[error("{new} is a member at {at}, not at {peer}")]
    NewElsewhere {
        new: String,
        at: String,
        peer: String,
    },
    #[error("{new} was a member before {old} was added; name a new node")]
    NewIsOlder { new: String, old: String },
    #[error(
        "{new} is a voter already, so this would only remove {old}: of {} voters the cluster can \
         lose {}, of {} only {}; name a node that does not vote",
        before.voters,
        before.can_lose,
        after.voters,
        after.can_lose
    )]
    OnlyRemoves {
        new: String,
        old: String,
        before: Quorum,
        after: Quorum,
    },
}

impl Replacement {
    /// The next step of a run.
    pub(super) fn step(&self, cluster: &Cluster, seen: Progress) -> Result<Step, Misfit> {
        let old = cluster.member(&self.old);
        let Some(new) = cluster.member(&self.new) else {
            return match old {
                None => Err(self.no_old(cluster)),
                Some(old) if old.role == Role::Learner => Err(self.old_learns()),
                Some(_) => Ok(Step::Add),
            };
        };
        if new.peer != self.peer {
            return Err(Misfit::NewElsewhere {
                new: self.new.clone(),
                at: new.peer.clone(),
                peer: self.peer.clone(),
            });
        }
        let is_voter = new.role != Role::Learner;
        let Some(old) = old else {
            let was_removed = seen.removes || cluster.removed.contains(&self.old);
            return if is_voter && was_removed {
                Ok(Step::Done)
            } else {
                Err(self.no_old(cluster))
            };
        };
        if new.id < old.id {
            let (new, old) = (self.new.clone(), self.old.clone());
            return Err(Misfit::NewIsOlder { new, old });
        }
        if !is_voter && old.role == Role::Learner {
            return Err(self.old_learns());
        }
        if is_voter && old.role != Role::Learner && !seen.joins {
            self.check_removal(cluster)?;
        }
        Ok(match (is_voter, is_ready(new)) {
            (_, false) => Step::Wait,
            (false, true) => Step::Promote,
            (true, true) => Step::Remove,
        })
    }

    /// Refuses a removal that lowers the number of nodes that the cluster can lose when all nodes
    /// run.
    fn check_removal(&self, cluster: &Cluster) -> Result<(), Misfit> {
        let voters = cluster.members.iter().filter(|it| it.role != Role::Learner);
        let voters = u32::try_from(voters.count()).unwrap_or(u32::MAX);
        let all_run = |voters| Quorum::of(voters, voters);
        let (before, after) = (all_run(voters), all_run(voters.saturating_sub(1)));
        if after.can_lose >= before.can_lose {
            return Ok(());
        }
        Err(Misfit::OnlyRemoves {
            new: self.new.clone(),
            old: self.old.clone(),
            before,
            after,
        })
    }

    fn no_old(&self, cluster: &Cluster) -> Misfit {
        let names: Vec<&str> = cluster.members.iter().map(|it| it.name.as_str()).collect();
        Misfit::NoOld {
            old: self.old.clone(),
            members: names.join(", "),
        }
    }

    fn old_learns(&self) -> Misfit {
        let old = self.old.clone();
        Misfit::OldLearns { old }
    }

    /// The effect of the remaining steps, for people.
    pub(super) fn effect(&self, cluster: &Cluster) -> String {
        let Self { old, new, peer } = self;
        let (joins, leaves) = (Some(new.as_str()), Some(old.as_str()));
        let before = cluster.quorum;
        let (between, after) = (
            cluster.quorum_with(joins, None),
            cluster.quorum_with(joins, leaves),
        );
        let role = cluster.member(new).map(|new| new.role);
        let leads = if cluster.leader.as_ref() == Some(old) {
            "; it leads and transfers leadership first"
        } else {
            ""
        };
        let mut lines = vec![format!(
            "replaces {old} by {new} at {peer}: {}",
            before.change_to(after)
        )];
        if role.is_none() {
            lines.push(format!("adds {new} as a learner"));
        }
        if role.is_none_or(|role| role == Role::Learner) {
            lines.push(format!(
                "makes {new} a voter when it is ready: {}",
                before.change_to(between)
            ));
        }
        lines.push(format!(
            "permanently removes {old}{leads}: {}",
            between.change_to(after)
        ));
        lines.join("\n  ")
    }
}

fn is_ready(member: &Member) -> bool {
    member.state == MemberState::Ready
}

#[cfg(test)]
mod tests;
