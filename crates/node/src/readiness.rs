//! Whether this node can serve, check by check, each with the code that requests meet.

use seqd_api::{Check, ErrorCode, MemberState};
use seqd_raft::{Phase, StopReason};

use crate::app::App;
use crate::minting::Trouble;
use crate::times::rfc3339;

/// What `/readyz` finds.
#[derive(Debug)]
pub(crate) struct Readiness {
    /// Each check.
    pub(crate) checks: Vec<Check>,
    /// Until when IDs are given at least, RFC 3339.
    pub(crate) ids_until: Option<String>,
    /// Why no ID is given.
    pub(crate) ids_trouble: Option<Trouble>,
}

impl Readiness {
    /// Looks at everything; at minting alone if `only_ids`.
    pub(crate) fn of(app: &App, only_ids: bool) -> Readiness {
        let mut checks = vec![serving(app)];
        if !only_ids {
            checks.extend(consensus(app));
        }
        let (ids, ids_until, ids_trouble) = ids(app);
        checks.push(ids);
        Readiness {
            checks,
            ids_until,
            ids_trouble,
        }
    }

    /// The first check that is not well.
    pub(crate) fn failed(&self) -> Option<&Check> {
        self.checks.iter().find(|check| !check.ok)
    }

    /// Whether all is well.
    pub(crate) fn is_ready(&self) -> bool {
        self.failed().is_none()
    }
}

fn check(name: &str, failed: Option<ErrorCode>, detail: impl Into<String>) -> Check {
    Check {
        name: name.to_owned(),
        ok: failed.is_none(),
        code: failed.map(|code| code.as_str().to_owned()),
        detail: detail.into(),
        until: None,
    }
}

fn serving(app: &App) -> Check {
    let failed = match app.phase() {
        Phase::Stopped(stop) if stop.reason == StopReason::NodeRemoved => {
            Some(ErrorCode::NodeRemoved)
        }
        Phase::Stopped(_) => Some(ErrorCode::Draining),
        _ if app.is_stopping() => Some(ErrorCode::Draining),
        _ => None,
    };
    let detail = if failed.is_none() {
        "this node serves"
    } else {
        "this node is stopping"
    };
    check("serving", failed, detail)
}

fn consensus(app: &App) -> Vec<Check> {
    if let Phase::Waiting { reason } = app.phase() {
        return vec![check("cluster", Some(ErrorCode::NoQuorum), reason)];
    }
    let status = app.raft.status();
    let leader = status
        .leader
        .and_then(|id| status.members.iter().find(|member| member.id == id));
    let voters = format!("{} of {} voters reachable", status.reachable, status.voters);
    let leader = match leader {
        Some(leader) if status.has_quorum_contact => {
            check("leader", None, format!("{} leads; {voters}", leader.name))
        }
        _ => {
            let detail = format!("no leader with contact to a quorum; {voters}");
            check("leader", Some(ErrorCode::NoQuorum), detail)
        }
    };
    let behind = (!status.caught_up).then_some(ErrorCode::NoQuorum);
    let applied = format!("applied {} of {} entries", status.applied, status.last_log);
    let hangs = status.disk_hangs.then_some(ErrorCode::Overloaded);
    let disk = if status.disk_hangs {
        "the disk hangs: a write of the log has not returned; this node does not lead meanwhile"
    } else {
        "the disk answers"
    };
    vec![
        leader,
        check("caught-up", behind, applied),
        check("disk", hangs, disk),
    ]
}

fn ids(app: &App) -> (Check, Option<String>, Option<Trouble>) {
    match app.minters.default().check(&app.clock) {
        Ok(window) => {
            let until = rfc3339(window.ends);
            let detail = format!("worker {} mints until {until} at least", window.worker.0);
            let mut check = check("ids", None, detail);
            check.until = Some(until.clone());
            (check, Some(until), None)
        }
        Err(trouble) => {
            let problem = trouble.problem();
            let code = problem.error_code().unwrap_or(ErrorCode::Internal);
            (
                check("ids", Some(code), problem.detail),
                None,
                Some(trouble),
            )
        }
    }
}

/// This node's own state in the table of members.
pub(crate) fn own_state(app: &App) -> MemberState {
    let is_caught_up = app.raft.status().caught_up;
    match Readiness::of(app, false) {
        _ if app.is_stopping() => MemberState::Draining,
        ready if ready.is_ready() => MemberState::Ready,
        _ if !is_caught_up => MemberState::CatchingUp,
        _ => MemberState::Waiting,
    }
}
