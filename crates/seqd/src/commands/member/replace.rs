//! `seqd member replace`: executes the plan of [`super::replacement`], step by step.

use std::time::Duration;

use seqd_client::Error;
use seqd_client::api::address::check_host_port;
use seqd_client::api::{
    AddMember, Cluster, ErrorCode, MemberChange, Plan, UpdateMember, exit, validate_name,
};
use tokio::time::Instant;

use super::replacement::{Misfit, Progress, Replacement, Step};
use super::wait::{self, Goal, LOOK_EVERY, until};
use super::{ReplaceArgs, print};
use crate::failure::Failure;
use crate::session::{PATIENCE, Session};

/// The longest wait for the new node, which may receive a large snapshot over a slow link.
const READY_LIMIT: Duration = Duration::from_secs(600);

pub(super) async fn run(args: ReplaceArgs, session: &Session) -> Result<u8, Failure> {
    let ReplaceArgs {
        old,
        new,
        peer,
        http,
        wait: _,
    } = args;
    for name in [&old, &new] {
        validate_name(name).map_err(|error| Failure::usage(error.to_string()))?;
    }
    if old == new {
        let detail = format!("{old} cannot replace itself: give the new node a name of its own");
        return Err(Failure::usage(detail));
    }
    check_host_port("peer", &peer).map_err(Failure::usage)?;
    let mut run = Run {
        session,
        replacement: Replacement { old, new, peer },
        http,
        seen: Progress::default(),
    };
    let cluster = session.client.cluster_of_member().await?;
    let step = run.step(&cluster).await?;
    let plan = run.plan(&cluster, step).await?;
    if session.is_dry_run {
        return session.print_plan(&plan);
    }
    if step == Step::Done {
        session.note(&plan.effect);
    } else if !session.may_go_on(&plan.effect)? {
        return Ok(exit::OK);
    }
    let finished = run.finish().await;
    let Replacement { old, new, .. } = &run.replacement;
    if finished.is_err() {
        session.note(&format!(
            "the replacement of {old} by {new} is not complete; the same command continues it"
        ));
    }
    print(&finished?, &format!(" in place of {old}"), session)
}

/// One run of the command.
struct Run<'a> {
    session: &'a Session,
    replacement: Replacement,
    http: Option<String>,
    seen: Progress,
}

impl Run<'_> {
    /// The next step. The new node may have replaced the given address by that of its
    /// configuration. If the leader reaches the node at the given address too, the recorded address
    /// is used.
    async fn step(&mut self, cluster: &Cluster) -> Result<Step, Failure> {
        let planned = self.replacement.step(cluster, self.seen);
        if let Err(Misfit::NewElsewhere { new, at, peer }) = &planned
            // A leader cannot check its own address.
            && cluster.leader.as_ref() != Some(new)
        {
            let request = UpdateMember {
                peer: Some(peer.clone()),
                http: None,
            };
            let trial = self.session.client.dry_run();
            match trial.update_member(new, &request).await {
                Ok(_) => self.replacement.peer.clone_from(at),
                Err(Error::Problem(problem)) if !problem.retryable => {}
                Err(error) => return Err(error.into()),
            }
            return self.planned(self.replacement.step(cluster, self.seen));
        }
        self.planned(planned)
    }

    fn planned(&mut self, planned: Result<Step, Misfit>) -> Result<Step, Failure> {
        self.seen.joins |= matches!(planned, Ok(Step::Add | Step::Promote));
        planned.map_err(failure)
    }

    /// The effect, after the leader has checked the next step.
    async fn plan(&self, cluster: &Cluster, step: Step) -> Result<Plan, Failure> {
        let Replacement { old, new, .. } = &self.replacement;
        let trial = self.session.client.dry_run();
        match step {
            Step::Add => {
                let addition = self.addition();
                self.check(async || trial.add_member(&addition).await)
                    .await?;
            }
            Step::Promote => self.check(async || trial.promote_member(new).await).await?,
            Step::Remove => self.check(async || trial.remove_member(old).await).await?,
            Step::Wait => {}
            Step::Done => {
                let effect = format!("{new} has replaced {old} already; nothing changes");
                return Ok(Plan::new(effect, None));
            }
        }
        Ok(Plan::new(self.replacement.effect(cluster), None))
    }

    /// Lets the leader check a step. An interrupted run may have left a change under way.
    async fn check(&self, send: impl AsyncFn() -> Result<Plan, Error>) -> Result<(), Failure> {
        wait::repeat(send, self.session).await.map(drop)
    }

    fn addition(&self) -> AddMember {
        AddMember {
            name: self.replacement.new.clone(),
            peer: self.replacement.peer.clone(),
            http: self.http.clone(),
        }
    }

    /// Executes all remaining steps. Returns the new member.
    async fn finish(&mut self) -> Result<MemberChange, Failure> {
        let (mut last, mut begun) = (None, Instant::now());
        loop {
            let seen = self.session.client.cluster_of_member().await;
            let error = match seen {
                Ok(cluster) => {
                    let step = self.step(&cluster).await?;
                    if last.replace(step) != Some(step) {
                        begun = Instant::now();
                    }
                    match self.carry_out(step, cluster).await? {
                        Ok(Some(change)) => return Ok(change),
                        Ok(None) => continue,
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            if begun.elapsed() > patience(&error) {
                return Err(error.into());
            }
            self.session.verbose_note(&format!("repeating: {error}"));
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Executes one step. Returns the new member after the last one, or the error of a request that
    /// may be repeated.
    async fn carry_out(
        &mut self,
        step: Step,
        cluster: Cluster,
    ) -> Result<Result<Option<MemberChange>, Error>, Failure> {
        let client = &self.session.client;
        let Replacement { old, new, .. } = &self.replacement;
        let requested = match step {
            Step::Add => client.add_member(&self.addition()).await,
            Step::Promote => client.promote_member(new).await,
            Step::Remove => {
                self.seen.removes = true;
                client.remove_member(old).await
            }
            Step::Wait => {
                until(new, &Goal::Ready, READY_LIMIT, self.session).await?;
                return Ok(Ok(None));
            }
            Step::Done => return Ok(Ok(Some(self.outcome(cluster)))),
        };
        let change = match requested {
            Ok(change) => change,
            Err(error) => return Ok(Err(error)),
        };
        let (done, goal) = match step {
            Step::Add => ("is added as a learner", None),
            Step::Promote => ("is a voter", Some((new, Goal::Votes))),
            _ => ("is removed", Some((old, Goal::Gone))),
        };
        self.session.note(&format!("{} {done}", change.name));
        // The node that answers may not have applied the change yet.
        if let Some((name, goal)) = goal {
            until(name, &goal, wait::LIMIT, self.session).await?;
        }
        if step != Step::Remove {
            return Ok(Ok(None));
        }
        // The removed node may have been the only endpoint.
        let mut outcome = self.outcome(cluster);
        outcome.quorum = change.quorum;
        Ok(Ok(Some(outcome)))
    }

    fn outcome(&self, cluster: Cluster) -> MemberChange {
        let new = cluster.member(&self.replacement.new);
        MemberChange {
            name: self.replacement.new.clone(),
            id: new.map_or(0, |member| member.id),
            role: new.map(|member| member.role),
            quorum: cluster.quorum,
        }
    }
}

fn failure(misfit: Misfit) -> Failure {
    let (exit, code) = match misfit {
        Misfit::OnlyRemoves { .. } => (exit::CONFLICT, ErrorCode::UnsafeMemberRemoval),
        Misfit::NoOld { .. } => (exit::NOT_FOUND, ErrorCode::NotFound),
        Misfit::NewElsewhere { .. } => (exit::CONFLICT, ErrorCode::AlreadyExists),
        Misfit::OldLearns { .. } | Misfit::NewIsOlder { .. } => {
            (exit::CONFLICT, ErrorCode::PreconditionFailed)
        }
    };
    Failure::of(exit, code.as_str(), misfit.to_string())
}

/// The time for which a step is repeated after this error.
fn patience(error: &Error) -> Duration {
    match error {
        Error::Problem(problem) if problem.retryable => wait::LIMIT,
        // The answering node may not have applied the previous step yet, and a leader that has
        // just taken over may have no response from the others yet.
        Error::Problem(problem) if matches!(problem.status, 404 | 409) => PATIENCE,
        Error::OutcomeUnknown(_) | Error::Unreachable(_) | Error::NoAnswer(_) => wait::LIMIT,
        Error::Problem(problem) if *problem.code == *ErrorCode::OutcomeUnknown.as_str() => {
            wait::LIMIT
        }
        _ => Duration::ZERO,
    }
}
