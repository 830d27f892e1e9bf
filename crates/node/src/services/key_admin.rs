//! Lists and deletes idempotency keys for an operator.
//!
//! A request scans a bounded number of keys; a longer query continues with a cursor.

use std::ops::Bound;

use seqd_api::{DeletedPage, KeyDeleted, KeyState, KeysQuery, ListedKey, Page, Plan};
use seqd_state::{
    ClusterMs, KeyCommand, KeyName, KeyOutcome, KeyRecord, KeySpace, Outcome, State, Tenant,
};
use tokio::time::Instant;

use super::error::{KeyError, RequestError, ServiceError, on_state, propose, read, unexpected};
use super::keys::{KeyService, users, valid};
use super::page::{self, PageDeletion, PageRequest};
use crate::replica::ReadTime;

/// The keys that a query selects.
struct Wanted {
    prefix: String,
    tenant: Option<Tenant>,
    /// Selects the keys of requests in place of users' keys.
    of_requests: bool,
    limit: usize,
    after: Option<KeyName>,
}

/// Reads the tenant of a query.
pub(super) fn tenant_of(text: Option<&str>) -> Result<Option<Tenant>, RequestError> {
    let read = |text: &str| {
        Tenant::parse(text).ok_or_else(|| {
            RequestError::invalid(
                "tenant must be `operator`, `token:` and an ID from `seqd access list`, or \
                 `address:` and an address",
            )
        })
    };
    text.map(read).transpose()
}

impl Wanted {
    fn read(query: &KeysQuery) -> Result<Wanted, RequestError> {
        let page = PageRequest::read(query.limit, query.cursor.as_deref())?;
        let of_requests = query.requests.unwrap_or(false);
        let after = page.after.as_deref().map(|text| match of_requests {
            true => of_request(text),
            false => Ok(users(text)),
        });
        Ok(Wanted {
            prefix: query.prefix.clone().unwrap_or_default(),
            tenant: tenant_of(query.tenant.as_deref())?,
            of_requests,
            limit: page.limit,
            after: after.transpose()?,
        })
    }

    /// The selected keys that have not ended, and the cursor after them.
    fn collect<T>(
        &self,
        state: &State,
        limit: usize,
        take: impl Fn(&KeyName, &KeyRecord) -> T,
    ) -> (Vec<T>, Option<String>) {
        let now = state.cluster_ms();
        let first = || match self.of_requests {
            true => KeyName {
                space: KeySpace::Requests { access: 0 },
                key: String::new(),
            },
            false => users(&self.prefix),
        };
        let from = match self.after.clone() {
            Some(after) if after >= first() => Bound::Excluded(after),
            _ => Bound::Included(first()),
        };
        let matching = state.keys_from(from).take_while(|(name, _)| {
            self.of_requests
                || (name.space == KeySpace::Users && name.key.starts_with(&self.prefix))
        });
        let (kept, last) = page::collect(matching, limit, |name, record| {
            let is_wanted = record.until > now
                && name.key.starts_with(&self.prefix)
                && self.tenant.is_none_or(|tenant| tenant == record.tenant);
            is_wanted.then(|| take(name, record))
        });
        (kept, last.map(|name| page::behind(&text_of(name))))
    }
}

/// The form of a key in a cursor.
fn text_of(name: &KeyName) -> String {
    match name.space {
        KeySpace::Users => name.key.clone(),
        KeySpace::Requests { access } => format!("{access:016x}{}", name.key),
    }
}

fn of_request(text: &str) -> Result<KeyName, RequestError> {
    let parts = text.split_at_checked(16);
    let read = parts.and_then(|(access, key)| {
        let access = u64::from_str_radix(access, 16).ok()?;
        let key = key.to_owned();
        let space = KeySpace::Requests { access };
        Some(KeyName { space, key })
    });
    read.ok_or_else(|| RequestError::invalid("cursor does not belong to this list"))
}

/// The state of a key at this time.
pub(super) fn state_of(record: &KeyRecord, now: ClusterMs) -> KeyState {
    match &record.result {
        Some(_) => KeyState::Done,
        None if record.is_claimed(now) => KeyState::InProgress,
        None => KeyState::Abandoned,
    }
}

fn listed(name: &KeyName, record: &KeyRecord, now: ClusterMs, time: ReadTime) -> ListedKey {
    ListedKey {
        key: name.key.clone(),
        state: state_of(record, now),
        tenant: record.tenant.to_string(),
        attempt: record.attempt,
        bytes: record.cost(name),
        expires_in_ms: time.left(record.until),
    }
}

impl KeyService {
    /// One page of the keys, by a linearizable read.
    pub(crate) async fn list(
        &self,
        query: &KeysQuery,
        deadline: Instant,
    ) -> Result<Page<ListedKey>, ServiceError> {
        let wanted = Wanted::read(query)?;
        let time = read(&*self.replica, deadline).await?;
        let (items, next_cursor) = on_state(&*self.replica, |state| {
            let now = state.cluster_ms();
            let take = |name: &KeyName, record: &KeyRecord| listed(name, record, now, time);
            wanted.collect(state, wanted.limit, take)
        })?;
        Ok(Page { items, next_cursor })
    }

    /// Deletes one page of the keys.
    pub(crate) async fn delete_matching(
        &self,
        query: &KeysQuery,
        deadline: Instant,
    ) -> Result<DeletedPage, ServiceError> {
        let wanted = which(query)?;
        read(&*self.replica, deadline).await?;
        let (names, next_cursor) = on_state(&*self.replica, |state| {
            wanted.collect(state, wanted.limit, |name, _| name.clone())
        })?;
        let deleted = match names.is_empty() {
            true => 0,
            false => self.remove(names, deadline).await?,
        };
        Ok(DeletedPage {
            deleted,
            next_cursor,
        })
    }

    /// The effect that [`KeyService::delete_matching`] would have.
    pub(crate) async fn plan_delete_matching(
        &self,
        query: &KeysQuery,
        deadline: Instant,
    ) -> Result<Plan, ServiceError> {
        let wanted = which(query)?;
        read(&*self.replica, deadline).await?;
        let (found, next) = on_state(&*self.replica, |state| {
            wanted.collect(state, usize::MAX, |_, record| record.result.is_none())
        })?;
        let page = PageDeletion {
            found,
            limit: wanted.limit,
            is_cut: next.is_some(),
        };
        let consequence = "a caller that begins a deleted key again gets a claim, even if the work \
            was already done";
        Ok(page.plan("key", "without a result", consequence))
    }

    /// Deletes a user's key.
    pub(crate) async fn delete(
        &self,
        key: &str,
        deadline: Instant,
    ) -> Result<KeyDeleted, ServiceError> {
        match self.remove(vec![users(key)], deadline).await? {
            0 => Err(KeyError::NotFound(key.to_owned()).into()),
            _ => Ok(KeyDeleted {
                key: key.to_owned(),
                deleted: true,
            }),
        }
    }

    /// The effect that [`KeyService::delete`] would have.
    pub(crate) async fn plan_delete(
        &self,
        key: &str,
        deadline: Instant,
    ) -> Result<Plan, ServiceError> {
        let name = valid(key)?;
        let time = read(&*self.replica, deadline).await?;
        let (record, now, _) = self
            .look(&name)
            .ok_or_else(|| KeyError::NotFound(key.to_owned()))?;
        let effect = format!(
            "deletes the key {key} ({}, for another {} ms): a caller that begins it again gets a \
             claim",
            state_of(&record, now).as_str(),
            time.left(record.until),
        );
        Ok(Plan::new(effect, None))
    }

    async fn remove(&self, names: Vec<KeyName>, deadline: Instant) -> Result<u64, ServiceError> {
        let remove = KeyCommand::Remove { names };
        match propose(&*self.replica, remove, deadline).await? {
            Outcome::Keys(KeyOutcome::Removed { count }) => Ok(count),
            other => Err(unexpected(&other)),
        }
    }
}

/// The keys to delete: never all of them by default.
fn which(query: &KeysQuery) -> Result<Wanted, RequestError> {
    if query.prefix.is_none() && query.tenant.is_none() {
        return Err(RequestError::invalid(
            "prefix or tenant is missing: it selects the keys to delete; an empty prefix= selects \
             all keys",
        ));
    }
    Wanted::read(query)
}
