//! Lists and deletes one-time tokens for an operator.
//!
//! A request scans a bounded number of tokens; a longer query continues with a cursor.

use std::ops::Bound;

use seqd_api::{DeletedPage, ListedToken, Page, Plan, TokenDeleted, TokensQuery};
use seqd_state::{
    OneTimeCommand, OneTimeId, OneTimeOutcome, OneTimeRecord, Outcome, State, Tenant,
};
use tokio::time::Instant;

use super::error::{OneTimeError, RequestError, ServiceError, on_state, propose, read, unexpected};
use super::key_admin::tenant_of;
use super::one_time::OneTimeService;
use super::one_time_text::{id_text, read_id};
use super::page::{self, PageDeletion, PageRequest};
use crate::replica::ReadTime;

/// The tokens that a query selects.
struct Wanted {
    tenant: Option<Tenant>,
    limit: usize,
    after: Option<OneTimeId>,
}

impl Wanted {
    fn read(query: &TokensQuery) -> Result<Wanted, RequestError> {
        let page = PageRequest::read(query.limit, query.cursor.as_deref())?;
        let foreign = || RequestError::invalid("cursor does not belong to this list");
        let after = page.after.as_deref();
        let after = after.map(|text| read_id(text).ok_or_else(foreign));
        Ok(Wanted {
            tenant: tenant_of(query.tenant.as_deref())?,
            limit: page.limit,
            after: after.transpose()?,
        })
    }

    /// The selected tokens that have not ended, and the cursor after them.
    fn collect<T>(
        &self,
        state: &State,
        limit: usize,
        take: impl Fn(OneTimeId, &OneTimeRecord) -> T,
    ) -> (Vec<T>, Option<String>) {
        let now = state.cluster_ms();
        let from = self.after.map_or(Bound::Unbounded, Bound::Excluded);
        let (kept, last) = page::collect(state.one_time_from(from), limit, |id, record| {
            let is_wanted =
                record.until > now && self.tenant.is_none_or(|tenant| tenant == record.tenant);
            is_wanted.then(|| take(*id, record))
        });
        (kept, last.map(|id| page::behind(&id_text(id))))
    }
}

fn listed(id: OneTimeId, record: &OneTimeRecord, time: ReadTime) -> ListedToken {
    ListedToken {
        id: id_text(id),
        used: record.used.is_some(),
        tenant: record.tenant.to_string(),
        expires_in_ms: time.left(record.until),
    }
}

impl OneTimeService {
    /// One page of the tokens, by a linearizable read.
    pub(crate) async fn list(
        &self,
        query: &TokensQuery,
        deadline: Instant,
    ) -> Result<Page<ListedToken>, ServiceError> {
        let wanted = Wanted::read(query)?;
        let time = read(&*self.replica, deadline).await?;
        let (items, next_cursor) = on_state(&*self.replica, |state| {
            wanted.collect(state, wanted.limit, |id, record| listed(id, record, time))
        })?;
        Ok(Page { items, next_cursor })
    }

    /// Deletes one page of a tenant's tokens.
    pub(crate) async fn delete_matching(
        &self,
        query: &TokensQuery,
        deadline: Instant,
    ) -> Result<DeletedPage, ServiceError> {
        let wanted = which(query)?;
        read(&*self.replica, deadline).await?;
        let (ids, next_cursor) = on_state(&*self.replica, |state| {
            wanted.collect(state, wanted.limit, |id, _| id)
        })?;
        let deleted = match ids.is_empty() {
            true => 0,
            false => self.remove(ids, deadline).await?,
        };
        Ok(DeletedPage {
            deleted,
            next_cursor,
        })
    }

    /// The effect that [`OneTimeService::delete_matching`] would have.
    pub(crate) async fn plan_delete_matching(
        &self,
        query: &TokensQuery,
        deadline: Instant,
    ) -> Result<Plan, ServiceError> {
        let wanted = which(query)?;
        read(&*self.replica, deadline).await?;
        let (found, next) = on_state(&*self.replica, |state| {
            wanted.collect(state, usize::MAX, |_, record| record.used.is_none())
        })?;
        let page = PageDeletion {
            found,
            limit: wanted.limit,
            is_cut: next.is_some(),
        };
        let consequence = "deleted tokens can no longer be consumed";
        Ok(page.plan("one-time token", "unused", consequence))
    }

    /// Deletes the token with this ID.
    pub(crate) async fn delete(
        &self,
        text: &str,
        deadline: Instant,
    ) -> Result<TokenDeleted, ServiceError> {
        let id = read_id(text).ok_or(OneTimeError::NotFound)?;
        match self.remove(vec![id], deadline).await? {
            0 => Err(OneTimeError::NotFound.into()),
            _ => Ok(TokenDeleted {
                id: id_text(id),
                deleted: true,
            }),
        }
    }

    /// The effect that [`OneTimeService::delete`] would have.
    pub(crate) async fn plan_delete(
        &self,
        text: &str,
        deadline: Instant,
    ) -> Result<Plan, ServiceError> {
        let id = read_id(text).ok_or(OneTimeError::NotFound)?;
        let time = read(&*self.replica, deadline).await?;
        let record = on_state(&*self.replica, |state| state.one_time(id).cloned())?;
        let record = record.ok_or(OneTimeError::NotFound)?;
        let used = if record.used.is_some() {
            "used"
        } else {
            "unused"
        };
        let ms = time.left(record.until);
        let effect = format!("deletes the one-time token {text} ({used}, for another {ms} ms)");
        Ok(Plan::new(effect, None))
    }

    async fn remove(&self, ids: Vec<OneTimeId>, deadline: Instant) -> Result<u64, ServiceError> {
        let remove = OneTimeCommand::Remove { ids };
        match propose(&*self.replica, remove, deadline).await? {
            Outcome::OneTime(OneTimeOutcome::Removed { count }) => Ok(count),
            other => Err(unexpected(&other)),
        }
    }
}

/// The tokens to delete: never those of all tenants.
fn which(query: &TokensQuery) -> Result<Wanted, RequestError> {
    if query.tenant.is_none() {
        return Err(RequestError::invalid(
            "tenant is missing: it selects the tokens to delete",
        ));
    }
    Wanted::read(query)
}
