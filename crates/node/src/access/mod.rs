//! Who may use the clients' port, and for what: the operator's token, which may do everything, and
//! the tokens of the replicated state with their permissions.
//!
//! A token is looked up in the applied state at every request, so that a revoked one is refused
//! from the moment on at which this node has applied that. A node that has not been in touch with
//! its cluster for a while, or not yet, lets nobody in by them: it may lack a revocation. When one
//! expires is judged by this node's own clock.

mod operator;
mod rates;
#[cfg(test)]
mod tests;
mod token;

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seqd_api::{ErrorCode, Need, Scope};
use seqd_guards::is_out;
use seqd_idgen::{WallClock, WallMs};
use seqd_raft::ProposeError;
use seqd_state::{AccessId, AccessRecord, Permission, Tenant};
use tokio::time::{Instant, interval, sleep};

pub use operator::TokenFile;
pub(crate) use token::Drawn;
pub use token::new_secret;

use crate::replica::{Replica, peek};
use rates::Rates;

/// How often the contact with the cluster is looked after: many times within any window.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Whether callers need a token, and which. Without it everybody is let in.
#[derive(Clone, Default)]
pub(crate) struct Access(Option<Arc<Guard>>);

struct Guard {
    operator: Arc<TokenFile>,
    replica: Arc<dyn Replica>,
    clock: Arc<dyn WallClock>,
    rates: Rates,
    /// How long the table of tokens counts without contact with the cluster.
    counts_for: Duration,
    /// When this node was last seen to be in touch with its cluster.
    in_touch: Mutex<Option<Instant>>,
}

/// Who sends a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Callers need no token.
    #[default]
    Anyone,
    /// Showed the operator's token.
    Operator,
    /// Showed this token of the cluster.
    Token(AccessId),
}

impl Caller {
    /// Whom the resources that this caller uses are charged to. A caller without a token and
    /// without an address, in a process of its own, is the operator.
    pub(crate) fn tenant(self, address: Option<IpAddr>) -> Tenant {
        match self {
            Self::Operator => Tenant::OPERATOR,
            Self::Token(id) => Tenant::of_token(id),
            Self::Anyone => address.map_or(Tenant::OPERATOR, Tenant::of_address),
        }
    }
}

/// The right of one request to go on, which may end while it waits.
#[derive(Clone, Default)]
pub(crate) struct Right {
    access: Access,
    caller: Caller,
}

impl Right {
    pub(crate) fn new(access: &Access, caller: Caller) -> Self {
        Self {
            access: access.clone(),
            caller,
        }
    }

    /// See [`Access::recheck`].
    pub(crate) fn check(&self) -> Result<(), NotLetIn> {
        self.access.recheck(self.caller)
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anyone => out.write_str("anyone"),
            Self::Operator => out.write_str("operator"),
            Self::Token(id) => write!(out, "token {id}"),
        }
    }
}

/// Why nobody is let in with what was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotLetIn {
    /// No token, or none that this node knows.
    Unknown,
    /// A token of the cluster, past its end.
    Expired { id: AccessId, at: WallMs },
    /// This node is not in touch with its cluster, so it may lack a token or a revocation.
    NotCurrent,
    /// Its rate is used up.
    TooMany { per_second: u32, wait: Duration },
}

impl NotLetIn {
    pub(crate) fn code(self) -> ErrorCode {
        match self {
            Self::Unknown | Self::Expired { .. } => ErrorCode::Unauthorized,
            Self::NotCurrent => ErrorCode::NoQuorum,
            Self::TooMany { .. } => ErrorCode::RateLimited,
        }
    }
}

impl Access {
    /// Lets in who shows the operator's token or one of the cluster's; without the file everybody.
    /// The cluster's count for so long without contact with it.
    pub(crate) fn new(
        operator: Option<TokenFile>,
        replica: Arc<dyn Replica>,
        clock: Arc<dyn WallClock>,
        counts_for: Duration,
    ) -> Self {
        Self(operator.map(|operator| {
            Arc::new(Guard {
                operator: Arc::new(operator),
                replica,
                clock,
                rates: Rates::default(),
                counts_for,
                in_touch: Mutex::default(),
            })
        }))
    }

    /// Who shows this token; it counts for its rate.
    pub(crate) fn admit(&self, shown: Option<&[u8]>) -> Result<Caller, NotLetIn> {
        let Some(guard) = &self.0 else {
            return Ok(Caller::Anyone);
        };
        let shown = shown.ok_or(NotLetIn::Unknown)?;
        if guard.operator.is(shown) {
            return Ok(Caller::Operator);
        }
        let (id, secret) = token::parts(shown).ok_or(NotLetIn::Unknown)?;
        if !guard.is_current() && !is_out!(TokensCurrent) {
            return Err(NotLetIn::NotCurrent);
        }
        let kept = guard.on_token(id, |record| {
            (record.hash, record.expires_ms, record.per_second)
        });
        let (kept, expires_ms, per_second) = kept.ok_or(NotLetIn::Unknown)?;
        if !token::is_equal(token::hash(secret), kept) && !is_out!(SecretCompared) {
            return Err(NotLetIn::Unknown);
        }
        guard.check_end(id, expires_ms)?;
        if let Some(per_second) = per_second.filter(|_| !is_out!(RateHeld)) {
            let taken = guard.rates.take(id, per_second, Instant::now());
            taken.map_err(|wait| NotLetIn::TooMany { per_second, wait })?;
        }
        Ok(Caller::Token(id))
    }

    /// Whether the caller may send a request that needs this, about this name.
    pub(crate) fn permits(&self, caller: Caller, need: Need, name: &str) -> bool {
        let (guard, id) = match (&self.0, caller) {
            (None, _) | (Some(_), Caller::Operator) => return true,
            (Some(_), Caller::Anyone) => return need == Need::Nothing,
            (Some(guard), Caller::Token(id)) => (guard, id),
        };
        let met = guard.on_token(id, |record| {
            need.is_met(record.permissions.iter().map(of_state), name) || is_out!(ScopesAsked)
        });
        // Revoked a moment ago.
        met.unwrap_or(false)
    }

    /// Whether the caller is served on a connection in a reserved place: one that may administer the
    /// cluster, and, where callers need no token, one whose address has no other connection.
    pub(crate) fn may_use_reserve(&self, caller: Caller, is_first: bool) -> bool {
        let is_known = caller != Caller::Anyone || is_first;
        let is_operator = self.permits(caller, Need::Whole(Scope::Admin), "");
        (is_known && is_operator) || is_out!(ReserveKept)
    }

    /// Waits until this node has applied every revocation that was acknowledged before this call,
    /// where the caller showed a token of the cluster.
    pub(crate) async fn confirm(
        &self,
        caller: Caller,
        deadline: Instant,
    ) -> Result<(), ProposeError> {
        match (&self.0, caller) {
            (Some(guard), Caller::Token(_)) => guard.replica.read(deadline).await.map(drop),
            _ => Ok(()),
        }
    }

    /// Whether a caller that was let in would still be: its token was neither revoked nor expired,
    /// as far as this node has applied it. The permissions of a token never change.
    pub(crate) fn recheck(&self, caller: Caller) -> Result<(), NotLetIn> {
        let (Some(guard), Caller::Token(id)) = (&self.0, caller) else {
            return Ok(());
        };
        if !guard.is_current() {
            return Err(NotLetIn::NotCurrent);
        }
        let expires_ms = guard.on_token(id, |record| record.expires_ms);
        guard.check_end(id, expires_ms.ok_or(NotLetIn::Unknown)?)
    }

    /// Returns when the caller would be let in no more, within a second.
    pub(crate) async fn ended(&self, caller: Caller) -> NotLetIn {
        loop {
            sleep(LOOK_EVERY).await;
            if let Err(why) = self.recheck(caller)
                && !is_out!(ServedWhileAccess)
            {
                return why;
            }
        }
    }

    /// The prefixes of the names that the caller may see: sorted, and none within another.
    pub(crate) fn prefixes(&self, caller: Caller) -> Vec<String> {
        let (Caller::Token(id), Some(guard)) = (caller, &self.0) else {
            return vec![String::new()];
        };
        let prefixes = guard.on_token(id, |record| {
            let each = record.permissions.iter();
            each.map(|permission| permission.prefix.clone()).collect()
        });
        outermost(prefixes.unwrap_or_default())
    }

    /// Reads the operator's token again, and looks after the contact with the cluster, while the
    /// node runs.
    pub(crate) async fn keep_fresh(self) {
        let Some(guard) = self.0 else {
            return;
        };
        let looks = async {
            let mut ticks = interval(LOOK_EVERY);
            loop {
                ticks.tick().await;
                guard.look();
            }
        };
        tokio::join!(looks, TokenFile::keep_fresh(Arc::clone(&guard.operator)));
    }
}

impl Guard {
    fn check_end(&self, id: AccessId, expires_ms: Option<u64>) -> Result<(), NotLetIn> {
        let now = self.clock.wall();
        let over = expires_ms.map(WallMs).filter(|at| now >= *at);
        match over.filter(|_| !is_out!(TokenEnds)) {
            Some(at) => Err(NotLetIn::Expired { id, at }),
            None => Ok(()),
        }
    }

    /// Whether the table of tokens that this node has applied counts.
    fn is_current(&self) -> bool {
        let last = *self.in_touch.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| last.elapsed() < self.counts_for) || self.look()
    }

    /// Looks whether this node is in touch with its cluster.
    fn look(&self) -> bool {
        let is_in_touch = self.replica.is_in_touch();
        if is_in_touch {
            let mut last = self.in_touch.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some(Instant::now());
        }
        is_in_touch
    }

    fn on_token<R>(&self, id: AccessId, read: impl FnOnce(&AccessRecord) -> R) -> Option<R> {
        peek(&*self.replica, |state| state.access(id).map(read)).flatten()
    }
}

/// The prefixes that begin with no other one, sorted.
fn outermost(mut prefixes: Vec<String>) -> Vec<String> {
    prefixes.sort();
    let mut kept: Vec<String> = Vec::new();
    for prefix in prefixes {
        if kept.last().is_none_or(|last| !prefix.starts_with(last)) {
            kept.push(prefix);
        }
    }
    kept
}

fn of_state(permission: &Permission) -> (Scope, &str) {
    (scope_of_state(permission.scope), &permission.prefix)
}

pub(crate) fn scope_of_state(scope: seqd_state::Scope) -> Scope {
    match scope {
        seqd_state::Scope::Read => Scope::Read,
        seqd_state::Scope::Allocate => Scope::Allocate,
        seqd_state::Scope::Admin => Scope::Admin,
    }
}
