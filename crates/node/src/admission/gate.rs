//! The admission of requests of protocols other than HTTP.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::FutureExt as _;
use seqd_api::{Need, Operation, Problem, Scope};
use seqd_state::Tenant;
use tokio::time::Instant;

use super::audit::Audit;
use super::closing::Closing;
use super::hold_back::hold_back;
use super::lanes::{self, Lanes, Slot};
use super::refusals::{check, confirm, has_place, recheck, refusal, without_names};
use super::sender::Sender;
use super::serving::Serving;
use crate::access::{Access, Caller, Right};

/// The parts that all ports of a node share.
#[derive(Clone)]
pub(crate) struct Admission {
    pub(crate) access: Access,
    pub(crate) closing: Closing,
    pub(crate) lanes: Lanes,
    /// The time limit of a request that specifies none.
    pub(crate) timeout: Duration,
}

/// A request of a protocol other than HTTP.
pub(crate) struct ProtocolRequest<'a> {
    /// The operation whose scope the request needs.
    pub(crate) operation: &'static Operation,
    /// The name of the object; empty if there is none.
    pub(crate) name: &'a str,
    /// The protocol and the command, for the audit log.
    pub(crate) logged: (&'static str, &'static str),
}

/// A request that was admitted.
pub(crate) struct Admitted {
    pub(crate) deadline: Instant,
    /// The tenant that is charged for its resources.
    pub(crate) tenant: Tenant,
    pub(crate) right: Right,
}

/// Returns whether each request for an operation is logged, because it changes the cluster or reads
/// all of it.
pub(crate) fn is_audited(operation: &Operation) -> bool {
    matches!(
        operation.need,
        Need::Named(Scope::Admin) | Need::Whole(Scope::Admin)
    )
}

impl Admission {
    /// Admits every caller, with this time limit.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            access: Access::default(),
            closing: Closing::default(),
            lanes: Lanes::default(),
            timeout,
        }
    }

    /// Serves a request of a caller that has presented its token, with the checks, limits and
    /// delays of an HTTP request.
    ///
    /// # Errors
    /// The refusal, or the error of `work`.
    pub(crate) async fn serve<T, E, F>(
        &self,
        asked: ProtocolRequest<'_>,
        sender: &Sender,
        work: impl FnOnce(Admitted) -> F,
    ) -> Result<T, Problem>
    where
        E: Into<Problem>,
        F: Future<Output = Result<T, E>>,
    {
        let (protocol, command) = asked.logged;
        let audit = is_audited(asked.operation)
            .then(|| Audit::of(&format!("{protocol} {command}"), asked.name, sender, "-"));
        let caller = sender.caller;
        let (served, is_let_in) = match self.enter(&asked, sender).await {
            Ok((admitted, slot)) => {
                let serving = Serving::new(admitted.tenant, sender.connection.clone());
                let work = work(admitted).map(|done| done.map_err(Into::into));
                let served = pin!(serving.with_slot(slot).scope(work));
                (while_let_in(&self.access, caller, served).await, true)
            }
            Err(problem) => (Err(problem), false),
        };
        if let Err(problem) = &served {
            let is_busy = !is_let_in && self.lanes.ask(sender.tenant());
            let is_delayed = is_busy || (!is_let_in && audit.is_some());
            let connection = sender.connection.as_ref();
            Box::pin(hold_back(&problem.code, is_delayed, connection)).await;
        }
        if let Some(audit) = audit {
            audit.answered(
                served
                    .as_ref()
                    .map_or_else(|problem| problem.status, |_| 200),
            );
        }
        served.map_err(|problem| without_names(&self.access, caller, problem))
    }

    async fn enter(
        &self,
        asked: &ProtocolRequest<'_>,
        sender: &Sender,
    ) -> Result<(Admitted, Option<Slot>), Problem> {
        self.closing.check()?;
        has_place(&self.access, sender)?;
        let (caller, tenant) = (sender.caller, sender.tenant());
        // The token may have expired or been revoked since its admission, for example while the
        // form of a foreign request was read.
        recheck(&self.access, caller)?;
        check(&self.access, caller, asked.operation.need, asked.name)?;
        let deadline = Instant::now() + self.timeout;
        if is_audited(asked.operation) {
            Box::pin(confirm(&self.access, caller, deadline)).await?;
            recheck(&self.access, caller)?;
        }
        let mut slot = None;
        if let Some(turn) = self.lanes.enter(tenant) {
            let connection = sender.connection.as_ref();
            slot = Box::pin(lanes::wait_for_slot(turn, connection, deadline)).await?;
            recheck(&self.access, caller)?;
        }
        let right = Right::new(&self.access, caller);
        let admitted = Admitted {
            deadline,
            tenant,
            right,
        };
        Ok((admitted, slot))
    }
}

/// Serves a request until its caller's token is revoked or expires. The work is then dropped as if
/// the client had disconnected: a wait ends, and a claim of a lock is withdrawn.
pub(crate) async fn while_let_in<T>(
    access: &Access,
    caller: Caller,
    served: Pin<&mut impl Future<Output = Result<T, Problem>>>,
) -> Result<T, Problem> {
    if !matches!(caller, Caller::Token(_)) {
        return served.await;
    }
    tokio::select! {
        biased;
        served = served => served,
        why = access.ended(caller) => Err(refusal(why)),
    }
}
