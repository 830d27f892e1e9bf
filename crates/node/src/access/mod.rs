//! Controls access to the clients' port: by the operator's token, which may do everything, and by
//! the tokens in the replicated state, with their permissions.
//!
//! A token is looked up in the applied state at every request, so this node rejects a revoked token
//! as soon as it has applied the revocation. A node that has not had contact with its cluster for a
//! while, or has not had any yet, admits no caller by these tokens, because it may lack a
//! revocation. It admits them again after a linearizable read, which shows that it has applied
//! every earlier change: the first messages after a loss of contact may be old. A token expires by
//! this node's own clock.

mod operator;
mod rates;
mod reread;
#[cfg(test)]
mod tests;
mod tiny_id;
mod token;

use std::fmt;
use std::future::pending;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use seqd_api::{ErrorCode, Need, Scope};
use seqd_guards::is_out;
use seqd_idgen::{WallClock, WallMs};
use seqd_net::Lock;
use seqd_raft::ProposeError;
use seqd_state::{AccessId, AccessRecord, Permission, Tenant};
use tokio::time::{Instant, sleep};

pub(crate) use operator::TokenFile;
pub(crate) use tiny_id::TinyIdTokens;
pub(crate) use token::NewToken;
pub use token::new_secret;

use crate::config::{Config, ConfigError};
use crate::replica::{Replica, STATE_WAIT, peek};
use rates::Rates;

/// The interval between two checks of the contact with the cluster, short compared with any window.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Checks the tokens of callers. `None` admits every caller.
#[derive(Clone, Default)]
pub(crate) struct Access(Option<Arc<Guard>>);

struct Guard {
    operator: TokenFile,
    replica: Arc<dyn Replica>,
    clock: Arc<dyn WallClock>,
    rates: Rates,
    /// The time for which the table of tokens remains valid without contact with the cluster.
    counts_for: Duration,
    /// The last time at which this node had contact with its cluster. While it is longer ago than
    /// `counts_for`, only a linearizable read changes it.
    in_touch: Lock<Option<Instant>>,
}

/// Checks the files with tokens that `config` names.
///
/// # Errors
/// A file cannot be used.
pub fn check_tokens(config: &Config) -> Result<(), ConfigError> {
    TokenFile::load(config)?;
    TinyIdTokens::load(config)?;
    Ok(())
}

/// The sender of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The caller needs no token.
    #[default]
    Anyone,
    /// The caller presented the operator's token.
    Operator,
    /// The caller presented this token of the cluster.
    Token(AccessId),
}

impl Caller {
    /// The tenant that is charged for the caller's resources. A caller without a token and without
    /// an address, in the same process, is the operator.
    pub(crate) fn tenant(self, address: Option<IpAddr>) -> Tenant {
        match self {
            Self::Operator => Tenant::OPERATOR,
            Self::Token(id) => Tenant::of_token(id),
            Self::Anyone => address.map_or(Tenant::OPERATOR, Tenant::of_address),
        }
    }
}

/// The right of one request to continue. It may end while the request waits.
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

    /// See [`Access::ended`]. Never returns for a caller without a token of the cluster.
    pub(crate) async fn ended(&self) -> NotLetIn {
        match self.caller {
            Caller::Token(_) => self.access.ended(self.caller).await,
            Caller::Anyone | Caller::Operator => pending().await,
        }
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

/// The reason why a caller is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotLetIn {
    /// No token.
    Missing,
    /// A token that the cluster does not have, or no longer has.
    Unknown,
    /// A token of the cluster that has expired.
    Expired { id: AccessId, at: WallMs },
    /// This node has no contact with its cluster, so it may lack a token or a revocation.
    NotCurrent,
    /// The token's rate is used up.
    TooMany { per_second: u32, wait: Duration },
}

impl NotLetIn {
    pub(crate) fn code(self) -> ErrorCode {
        match self {
            Self::Missing | Self::Unknown | Self::Expired { .. } => ErrorCode::Unauthorized,
            Self::NotCurrent => ErrorCode::NoQuorum,
            Self::TooMany { .. } => ErrorCode::RateLimited,
        }
    }
}

impl Access {
    /// Admits callers with the operator's token or with a token of the cluster; without `operator`,
    /// every caller. The tokens of the cluster remain valid for `counts_for` without contact with
    /// it.
    pub(crate) fn new(
        operator: Option<TokenFile>,
        replica: Arc<dyn Replica>,
        clock: Arc<dyn WallClock>,
        counts_for: Duration,
    ) -> Self {
        Self(operator.map(|operator| {
            Arc::new(Guard {
                operator,
                replica,
                clock,
                rates: Rates::default(),
                counts_for,
                in_touch: Lock::default(),
            })
        }))
    }

    /// The fingerprint of the operator's token; `None` if callers need no token.
    pub(crate) fn operator_fingerprint(&self, cluster_id: &str) -> Option<String> {
        let guard = self.0.as_ref()?;
        Some(guard.operator.fingerprint(cluster_id))
    }

    /// Returns the caller that presents this token, and counts the request towards the token's
    /// rate.
    pub(crate) fn admit(&self, shown: Option<&[u8]>) -> Result<Caller, NotLetIn> {
        let (caller, per_second) = self.known(shown)?;
        if let (Some(guard), Caller::Token(id)) = (&self.0, caller)
            && let Some(per_second) = per_second.filter(|_| !is_out!(RateHeld))
        {
            let taken = guard.rates.take(id, per_second, Instant::now());
            taken.map_err(|wait| NotLetIn::TooMany { per_second, wait })?;
        }
        Ok(caller)
    }

    /// Returns the caller that presents this token, outside of a request.
    pub(crate) fn identify(&self, shown: Option<&[u8]>) -> Result<Caller, NotLetIn> {
        self.known(shown).map(|(caller, _)| caller)
    }

    /// The caller that presents this token, and the token's rate.
    fn known(&self, shown: Option<&[u8]>) -> Result<(Caller, Option<u32>), NotLetIn> {
        let Some(guard) = &self.0 else {
            return Ok((Caller::Anyone, None));
        };
        let shown = shown.ok_or(NotLetIn::Missing)?;
        if guard.operator.is(shown) {
            return Ok((Caller::Operator, None));
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
        Ok((Caller::Token(id), per_second))
    }

    /// Returns whether the caller may send a request with this need about this name.
    pub(crate) fn permits(&self, caller: Caller, need: Need, name: &str) -> bool {
        let (guard, id) = match (&self.0, caller) {
            (None, _) | (Some(_), Caller::Operator) => return true,
            (Some(_), Caller::Anyone) => return need == Need::Nothing,
            (Some(guard), Caller::Token(id)) => (guard, id),
        };
        let met = guard.on_token(id, |record| {
            need.is_met(record.permissions.iter().map(of_state), name) || is_out!(ScopesAsked)
        });
        // `None` if the token was revoked after its admission.
        met.unwrap_or(false)
    }

    /// Returns whether the caller may use a connection in a reserved place. The caller must be
    /// permitted to administer the cluster. If callers need no token, its address must have no
    /// other connection.
    pub(crate) fn may_use_reserve(&self, caller: Caller, is_first: bool) -> bool {
        let is_known = caller != Caller::Anyone || is_first;
        let is_operator = self.permits(caller, Need::Whole(Scope::Admin), "");
        (is_known && is_operator) || is_out!(ReserveKept)
    }

    /// If the caller presented a token of the cluster, waits until this node has applied every
    /// revocation that was acknowledged before this call.
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

    /// Checks whether an admitted caller would still be admitted: as far as this node has applied
    /// the state, its token is neither revoked nor expired. The permissions of a token never
    /// change.
    pub(crate) fn recheck(&self, caller: Caller) -> Result<(), NotLetIn> {
        match &self.0 {
            Some(guard) if matches!(caller, Caller::Token(_)) && !guard.is_current() => {
                Err(NotLetIn::NotCurrent)
            }
            _ => self.check_applied(caller),
        }
    }

    /// Waits until the caller's token is revoked or expires, as far as this node has applied the
    /// state, and returns the reason within a second. A loss of contact with the cluster does not
    /// end the wait: the token may still be valid, and the request may have proposed something whose
    /// outcome is then unknown. What a request gives out is checked by [`Access::recheck`].
    pub(crate) async fn ended(&self, caller: Caller) -> NotLetIn {
        loop {
            sleep(LOOK_EVERY).await;
            if let Err(why) = self.check_applied(caller)
                && !is_out!(ServedWhileAccess)
            {
                return why;
            }
        }
    }

    fn check_applied(&self, caller: Caller) -> Result<(), NotLetIn> {
        let (Some(guard), Caller::Token(id)) = (&self.0, caller) else {
            return Ok(());
        };
        let expires_ms = guard.on_token(id, |record| record.expires_ms);
        guard.check_end(id, expires_ms.ok_or(NotLetIn::Unknown)?)
    }

    /// The prefixes of the names that the caller may see, sorted. None of them begins with another.
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

    /// Returns whether this node admits callers by the tokens of the cluster.
    pub(crate) fn is_current(&self) -> bool {
        self.0.as_ref().is_none_or(|guard| guard.is_current())
    }

    /// Checks the contact with the cluster once.
    #[cfg(any(test, fuzzing))]
    pub(crate) async fn look(&self) {
        if let Some(guard) = &self.0 {
            guard.look().await;
        }
    }

    /// Rereads the operator's token and checks the contact with the cluster, for as long as the
    /// node runs.
    pub(crate) async fn keep_fresh(self) {
        let Some(guard) = self.0 else {
            return;
        };
        let looks = async {
            loop {
                guard.look().await;
                let next = if guard.is_current() {
                    LOOK_EVERY.min(guard.counts_for / 4)
                } else {
                    STATE_WAIT
                };
                sleep(next).await;
            }
        };
        tokio::join!(looks, guard.operator.keep_fresh());
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

    /// Returns whether the table of tokens that this node has applied is valid.
    fn is_current(&self) -> bool {
        let last = *self.in_touch.lock();
        last.is_some_and(|last| last.elapsed() < self.counts_for)
    }

    /// Records the time of contact if this node has contact with its cluster. If the table of
    /// tokens is no longer valid, a linearizable read must succeed first.
    async fn look(&self) {
        let begun = Instant::now();
        if !self.replica.is_in_touch() {
            return;
        }
        if !self.is_current() && !is_out!(RevocationsCaughtUp) {
            let read = self.replica.read(begun + LOOK_EVERY).await;
            if read.is_err() {
                return;
            }
        }
        *self.in_touch.lock() = Some(begun);
    }

    fn on_token<R>(&self, id: AccessId, read: impl FnOnce(&AccessRecord) -> R) -> Option<R> {
        peek(&*self.replica, |state| state.access(id).map(read)).flatten()
    }
}

/// The prefixes that do not begin with another one, sorted.
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
