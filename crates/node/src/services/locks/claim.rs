//! A claim that this node proposed for a client, until the client has its response.
//!
//! If the client disconnects first, its claim is withdrawn as soon as this node detects that, unless
//! its owner may find it by a later request. The withdrawal is proposed after the claim's proposal
//! has ended, so that it does not precede the claim in the log.

use std::sync::Arc;
use std::time::Duration;

use seqd_raft::{Pool, ProposeError};
use seqd_state::{
    AcquireLock, Attempt, Command, FencingToken, LockCommand, LockName, Nonce, Outcome, Tenant,
};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::admission::Serving;
use crate::replica::{Replica, propose_last, propose_one};

/// The time for which a withdrawal is retried: longer than an election. After that the claim ends
/// at its deadline.
const WITHDRAW_FOR: Duration = Duration::from_secs(10);

/// The pause between two attempts.
const WITHDRAW_AGAIN: Duration = Duration::from_millis(200);

/// A request's part in a claim. If it is dropped before it was kept, the claim is withdrawn.
pub(super) struct ClaimGuard {
    replica: Arc<dyn Replica>,
    withdrawals: Arc<Pool>,
    tenant: Tenant,
    name: LockName,
    nonce: Nonce,
    attempt: Attempt,
    proposing: Option<JoinHandle<Result<Outcome, ProposeError>>>,
    /// True if the claim remains when this guard is dropped.
    is_kept: bool,
}

impl ClaimGuard {
    /// Proposes the claim, after the end of the hold with the token `replaced` in the same entry.
    pub(super) fn propose(
        replica: &Arc<dyn Replica>,
        withdrawals: &Arc<Pool>,
        (asked, replaced): (AcquireLock, Option<FencingToken>),
        is_kept: bool,
        deadline: Instant,
    ) -> Self {
        let (name, nonce, attempt) = (asked.name.clone(), asked.nonce, asked.attempt);
        let tenant = asked.tenant;
        let proposer = Arc::clone(replica);
        let proposing = tokio::spawn(Serving::current().scope(async move {
            let ending = replaced.map(|token| LockCommand::Break {
                name: asked.name.clone(),
                token: Some(token),
            });
            let commands = ending.into_iter().chain([LockCommand::Acquire(asked)]);
            let commands = commands.map(Command::Locks).collect();
            propose_last(&*proposer, commands, deadline).await
        }));
        Self {
            replica: Arc::clone(replica),
            withdrawals: Arc::clone(withdrawals),
            tenant,
            name,
            nonce,
            attempt,
            proposing: Some(proposing),
            is_kept,
        }
    }

    /// Waits for the outcome of the proposal.
    pub(super) async fn outcome(&mut self) -> Result<Outcome, ProposeError> {
        let ended = match &mut self.proposing {
            Some(proposing) => proposing.await.ok(),
            None => None,
        };
        self.proposing = None;
        ended.unwrap_or_else(|| {
            let detail = "the proposal ended without an outcome".to_owned();
            Err(ProposeError::OutcomeUnknown { detail })
        })
    }

    /// Prevents the withdrawal: the client receives a response that it holds the lock, or there is
    /// no claim.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }

    /// Withdraws the claim and waits for the outcome.
    pub(super) async fn withdraw(mut self, deadline: Instant) -> Result<(), ProposeError> {
        let withdrawn = propose_one(&*self.replica, self.command(), deadline).await;
        self.is_kept = withdrawn.is_ok();
        withdrawn.map(|_| ())
    }

    fn command(&self) -> Command {
        Command::Locks(LockCommand::Withdraw {
            name: self.name.clone(),
            nonce: self.nonce,
            attempt: self.attempt,
        })
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let Some(place) = self.withdrawals.take(self.tenant, 1) else {
            tracing::warn!(
                lock = self.name.as_str(),
                "the lock claim was not withdrawn; it expires at its deadline"
            );
            return;
        };
        let (replica, command) = (Arc::clone(&self.replica), self.command());
        let proposing = self.proposing.take();
        let withdrawing = async move {
            let _place = place;
            if let Some(proposing) = proposing {
                let _ = proposing.await;
            }
            let until = Instant::now() + WITHDRAW_FOR;
            while Instant::now() < until {
                // A repeated withdrawal does no harm: it ends only what it already ended.
                match propose_one(&*replica, command.clone(), until).await {
                    Ok(_) | Err(ProposeError::NodeRemoved | ProposeError::Stopping) => return,
                    Err(_) => sleep(WITHDRAW_AGAIN).await,
                }
            }
        };
        // Without a runtime the process is ending, and the claim ends at its deadline.
        if let Ok(runtime) = Handle::try_current() {
            // The withdrawal is charged to the tenant, although the tenant's connection has ended.
            runtime.spawn(Serving::new(self.tenant, None).scope(withdrawing));
        }
    }
}
