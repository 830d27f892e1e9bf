//! One-time tokens: issued by the answering node, consumed once in the cluster.

use std::sync::Arc;

use seqd_api::{BeginKey, ConsumeToken, IssueTokens, TokenConsumed, TokensIssued};
use seqd_state::{MAX_ISSUED, OneTimeCommand, OneTimeId, OneTimeOutcome, Outcome, Tenant};
use tokio::time::{Instant, timeout_at};

use super::error::{OneTimeError, ServiceError, count_within, nonce_of, propose, unexpected};
use super::one_time_text::{OneTimeText, draw};
use super::room::Resource;
use crate::config::keys::LimitsSection;
use crate::minting::{ClockWatch, Minters};
use crate::places::Places;
use crate::replica::{Replica, peek};

/// The most tokens that a node issues at the same time. A checkpoint with more rows would need too
/// much memory.
pub(super) const MOST_AT_ONCE: usize = 1000;

pub(crate) struct OneTimeService {
    pub(crate) replica: Arc<dyn Replica>,
    pub(crate) minters: Arc<Minters>,
    pub(crate) clock: Arc<ClockWatch>,
    pub(crate) limits: LimitsSection,
    /// A place for each token that is being issued.
    pub(crate) issuing: Arc<Places>,
}

impl OneTimeService {
    /// Issues tokens. If the response is lost, no client has them.
    pub(crate) async fn issue(
        &self,
        wanted: &IssueTokens,
        tenant: Tenant,
        deadline: Instant,
    ) -> Result<TokensIssued, ServiceError> {
        let count = count_within(wanted.count, MAX_ISSUED as u64)?;
        let ttl_ms = wanted.ttl_ms.unwrap_or(BeginKey::DEFAULT_TTL_MS);
        let many = u32::try_from(count).unwrap_or(MOST_AT_ONCE as u32);
        // Checked before the wait, and again after it, since other tokens may have been issued
        // meanwhile.
        self.check_room(tenant, count)?;
        let place = timeout_at(deadline, self.issuing.take(tenant, many as usize)).await;
        let _place =
            place.map_err(|_| ServiceError::overloaded("other tokens are being issued", 100))?;
        self.check_room(tenant, count)?;
        let minter = self.minters.default();
        let minted = minter.mint(&self.clock, many, deadline).await?;
        let mut texts = Vec::with_capacity(minted.len());
        let mut tokens = Vec::with_capacity(minted.len());
        for id in minted.ids() {
            let drawn = draw(id).map_err(ServiceError::no_random)?;
            tokens.push((OneTimeId(id), drawn.hash));
            texts.push(drawn.text);
        }
        let issue = OneTimeCommand::Issue {
            tokens,
            ttl_ms,
            tenant,
        };
        match propose(&*self.replica, issue, deadline).await? {
            Outcome::OneTime(OneTimeOutcome::Issued { .. }) => {}
            other => return Err(unexpected(&other)),
        }
        let (token, tokens) = match wanted.count {
            None => (texts.pop(), None),
            Some(_) => (None, Some(texts)),
        };
        Ok(TokensIssued {
            token,
            tokens,
            expires_in_ms: ttl_ms,
        })
    }

    /// Consumes a token once. A retry with the same nonce succeeds.
    pub(crate) async fn consume(
        &self,
        token: &str,
        wanted: ConsumeToken,
        deadline: Instant,
    ) -> Result<TokenConsumed, ServiceError> {
        let OneTimeText { id, hash } = OneTimeText::read(token).ok_or(OneTimeError::NotFound)?;
        let nonce = nonce_of(wanted.nonce)?;
        let consume = OneTimeCommand::Consume { id, hash, nonce };
        match propose(&*self.replica, consume, deadline).await? {
            Outcome::OneTime(OneTimeOutcome::First) => Ok(TokenConsumed { consumed: true }),
            Outcome::OneTime(OneTimeOutcome::Used) => Err(OneTimeError::Used.into()),
            Outcome::OneTime(OneTimeOutcome::Unknown) => Err(OneTimeError::NotFound.into()),
            other => Err(unexpected(&other)),
        }
    }

    fn check_room(&self, tenant: Tenant, more: u64) -> Result<(), ServiceError> {
        let held = peek(&*self.replica, |state| {
            let held = state.one_time_held();
            let (held, used) = (held.of(tenant).count, held.all().count);
            (held, used, state.undrained(tenant))
        });
        let Some((held, used, undrained)) = held else {
            return Ok(());
        };
        let tokens = Resource::new("one-time tokens", "tokens", self.limits.tokens);
        let tokens = tokens.behind(undrained);
        Ok(tokens.check(self.limits.tenant_share, tenant, (held, used, more))?)
    }
}
