//! Readiness of this node: its checks, each with the error code that requests receive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seqd_api::{ErrorCode, MemberState};
use seqd_raft::{MAY_BE_BEHIND, Phase, Raft, StopReason};

use crate::access::Access;
use crate::minting::{ClockWatch, MintError, Minters};
use crate::replica::lost_for_long;
use crate::times::rfc3339;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unready {
    Removed,
    Stopping,
    Draining,
    /// Not a running member yet.
    Waiting,
    NoLeader,
    /// The node has not applied all entries that were committed before its start, or lags by too
    /// many later entries.
    Behind,
    DiskHangs,
    /// Only the reserve of the disk remains.
    DiskLow,
    Minting(MintError),
}

impl Unready {
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Unready::Removed => ErrorCode::NodeRemoved,
            Unready::Stopping | Unready::Draining => ErrorCode::Draining,
            Unready::Waiting | Unready::NoLeader | Unready::Behind => ErrorCode::NoQuorum,
            Unready::DiskHangs | Unready::DiskLow => ErrorCode::Overloaded,
            Unready::Minting(error) => error.code(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) failed: Option<Unready>,
    pub(crate) detail: String,
    /// The earliest end of this result, RFC 3339.
    pub(crate) until: Option<String>,
}

impl Check {
    fn new(name: &'static str, failed: Option<Unready>, detail: impl Into<String>) -> Check {
        Check {
            name,
            failed,
            detail: detail.into(),
            until: None,
        }
    }
}

/// The results of a node's checks of itself.
#[derive(Debug)]
pub(crate) struct Readiness {
    pub(crate) checks: Vec<Check>,
    /// The earliest time at which this node may stop minting IDs, RFC 3339.
    pub(crate) ids_until: Option<String>,
}

impl Readiness {
    pub(crate) fn failed(&self) -> Option<(&Check, &Unready)> {
        let mut failed = self.checks.iter();
        failed.find_map(|check| Some((check, check.failed.as_ref()?)))
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.failed().is_none()
    }
}

pub(crate) struct HealthService {
    pub(crate) raft: Raft,
    pub(crate) access: Access,
    pub(crate) minters: Arc<Minters>,
    pub(crate) clock: Arc<ClockWatch>,
    pub(super) stopping: AtomicBool,
}

impl HealthService {
    pub(crate) fn phase(&self) -> Phase {
        self.raft.phase().borrow().clone()
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Returns whether balancers should send this node no requests, because it is stopping or being
    /// drained.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_stopping() || self.raft.draining().borrow().is_some()
    }

    pub(crate) fn readiness(&self) -> Readiness {
        let mut checks = vec![self.serving()];
        checks.extend(self.consensus());
        self.with_ids(checks)
    }

    /// Checks the conditions for minting IDs.
    pub(crate) fn readiness_for_ids(&self) -> Readiness {
        self.with_ids(vec![self.serving()])
    }

    pub(crate) fn own_state(&self) -> MemberState {
        if self.is_draining() {
            return MemberState::Draining;
        }
        let readiness = self.readiness();
        let code = readiness.failed().map(|(_, why)| why.code());
        if code.is_none() {
            MemberState::Ready
        } else if code == Some(ErrorCode::ClockSkewed) {
            MemberState::Skewed
        } else if self.raft.status().caught_up {
            MemberState::Waiting
        } else {
            MemberState::CatchingUp
        }
    }

    fn serving(&self) -> Check {
        let failed = match self.phase() {
            Phase::Stopped(stop) if stop.reason == StopReason::NodeRemoved => {
                Some(Unready::Removed)
            }
            Phase::Stopped(_) => Some(Unready::Stopping),
            _ if self.is_stopping() => Some(Unready::Stopping),
            _ if self.is_draining() => Some(Unready::Draining),
            _ => None,
        };
        let detail = match failed {
            None => "this node serves",
            Some(Unready::Draining) => {
                "this node is being drained: it serves requests until it stops; `seqd resume` ends \
                 the drain"
            }
            Some(_) => "this node is stopping",
        };
        Check::new("serving", failed, detail)
    }

    fn consensus(&self) -> Vec<Check> {
        if let Phase::Waiting { reason } = self.phase() {
            return vec![Check::new("cluster", Some(Unready::Waiting), reason)];
        }
        let status = self.raft.status();
        let voters = format!("{} of {} voters reachable", status.reachable, status.voters);
        let leader = match status.leader_member() {
            Some(leader) if status.has_quorum_contact && status.reaches_leader => {
                Check::new("leader", None, format!("{} leads; {voters}", leader.name))
            }
            Some(leader) if status.has_quorum_contact => {
                let detail = format!(
                    "this node does not reach the leader {}; {voters}",
                    leader.name
                );
                Check::new("leader", Some(Unready::NoLeader), detail)
            }
            _ => {
                let lost = lost_for_long(&status);
                let detail = format!("no leader has contact with a quorum; {voters}{lost}");
                Check::new("leader", Some(Unready::NoLeader), detail)
            }
        };
        // A node that may lack a revocation refuses access tokens.
        let is_current = status.caught_up && self.access.is_current();
        let behind = (!is_current).then_some(Unready::Behind);
        let applied = format!(
            "applied entry {} of {} committed, {} behind; {MAY_BE_BEHIND} are allowed",
            status.applied,
            status.committed,
            status.behind()
        );
        let (unfit, disk) = if status.disk_hangs {
            let why = "the disk hangs: a write of the log has not returned; this node does not \
                lead until it returns";
            (Some(Unready::DiskHangs), why)
        } else if status.disk_low {
            let why = "the disk is nearly full: only the reserve is left, writes are refused";
            (Some(Unready::DiskLow), why)
        } else {
            (None, "the disk answers")
        };
        vec![
            leader,
            Check::new("caught-up", behind, applied),
            Check::new("disk", unfit, disk),
        ]
    }

    fn with_ids(&self, mut checks: Vec<Check>) -> Readiness {
        let mut ids_until = None;
        checks.push(match self.minters.default().check(&self.clock) {
            Ok(window) => {
                let until = rfc3339(window.ends);
                let detail = format!("worker {} mints until {until} at least", window.worker.0);
                ids_until = Some(until.clone());
                Check {
                    until: Some(until),
                    ..Check::new("ids", None, detail)
                }
            }
            Err(error) => {
                let detail = error.to_string();
                Check::new("ids", Some(Unready::Minting(error)), detail)
            }
        });
        Readiness { checks, ids_until }
    }
}
