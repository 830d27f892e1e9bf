//! The cluster's access tokens: create, list, revoke.

use std::sync::Arc;

use seqd_api::name::MAX_NAME_LEN;
use seqd_api::request::MAX_BODY_BYTES;
use seqd_api::{
    AccessCreated, AccessRevoked, AccessToken, CreateAccess, ListQuery, Page, Permission, Plan,
};
use seqd_idgen::{WallClock, WallMs};
use seqd_state::{
    AccessCommand, AccessId, AccessOutcome, AccessRecord, MAX_PERMISSIONS, MAX_PREFIX_BYTES,
    Outcome, State,
};
use tokio::time::Instant;

use super::confirm::unconfirmed;
use super::error::{RequestError, ServiceError, on_state, propose, read, try_out, unexpected};
use super::page::PageRequest;
use crate::access::{NewToken, scope_of_state};
use crate::replica::{Replica, peek};
use crate::times::rfc3339;

/// The longest life of a token, ten years. A token that should last longer is created without an
/// expiry.
const MAX_TTL_MS: u64 = 10 * 365 * 24 * 3_600_000;

// The limits of requests and of the state agree: the state accepts every value that a request may
// contain, and the largest token that the state accepts fits into a request.
const _: () = assert!(MAX_PREFIX_BYTES == seqd_api::scope::MAX_PREFIX_BYTES);
const _: () = assert!(MAX_PREFIX_BYTES >= MAX_NAME_LEN, "a name is a prefix too");
const _: () = assert!(MAX_PERMISSIONS * (MAX_PREFIX_BYTES + 16) < MAX_BODY_BYTES / 2);

pub(crate) struct AccessService {
    pub(crate) replica: Arc<dyn Replica>,
    pub(crate) clock: Arc<dyn WallClock>,
}

impl AccessService {
    /// The tokens ordered by ID, by a linearizable read.
    pub(crate) async fn list(
        &self,
        query: &ListQuery,
        deadline: Instant,
    ) -> Result<Page<AccessToken>, ServiceError> {
        let wanted = PageRequest::read(query.limit, query.cursor.as_deref())?;
        read(&*self.replica, deadline).await?;
        let (prefix, now) = (
            query.prefix.as_deref().unwrap_or_default(),
            self.clock.wall(),
        );
        on_state(&*self.replica, |state| {
            let all = state
                .tokens()
                .map(|(id, record)| (id.to_string(), to_api(id, record, now)));
            wanted.cut(all.filter(|(id, _)| id.starts_with(prefix)))
        })
    }

    /// Creates a token. Only the response contains its secret.
    pub(crate) async fn create(
        &self,
        wanted: CreateAccess,
        deadline: Instant,
    ) -> Result<AccessCreated, ServiceError> {
        let (drawn, command) = self.creation(wanted)?;
        self.propose(command.clone(), deadline).await?;
        // The token exists: if the reads that follow fail, the response must be sent all the same.
        let unconfirmed = unconfirmed(&*self.replica, deadline, || true).await;
        let now = self.clock.wall();
        let own = record_of(command, now);
        let applied = peek(&*self.replica, |state| state.access(drawn.id).cloned());
        let record = applied.flatten().or(own);
        let gone = || ServiceError::NoToken(drawn.id.to_string());
        Ok(AccessCreated {
            listed: to_api(drawn.id, &record.ok_or_else(gone)?, now),
            token: drawn.text,
            unconfirmed,
        })
    }

    pub(crate) async fn plan_create(
        &self,
        wanted: CreateAccess,
        deadline: Instant,
    ) -> Result<Plan, ServiceError> {
        let permissions = wanted.scopes.clone().unwrap_or_default();
        let (_, command) = self.creation(wanted)?;
        self.plan(&command, deadline).await?;
        let texts: Vec<String> = permissions.iter().map(ToString::to_string).collect();
        let effect = format!("makes a token that permits {}", texts.join(", "));
        Ok(Plan::new(effect, None))
    }

    /// Revokes a token. Each node refuses it once it has applied the revocation.
    pub(crate) async fn revoke(
        &self,
        id: &str,
        deadline: Instant,
    ) -> Result<AccessRevoked, ServiceError> {
        let id = read_id(id)?;
        self.propose(AccessCommand::Revoke { id }, deadline).await?;
        Ok(AccessRevoked {
            id: id.to_string(),
            revoked: true,
            unconfirmed: unconfirmed(&*self.replica, deadline, || true).await,
        })
    }

    pub(crate) async fn plan_revoke(
        &self,
        id: &str,
        deadline: Instant,
    ) -> Result<Plan, ServiceError> {
        let id = read_id(id)?;
        self.plan(&AccessCommand::Revoke { id }, deadline).await?;
        let described = peek(&*self.replica, |state| {
            state.access(id).map(|record| record.description.clone())
        });
        let described = described.flatten().filter(|text| !text.is_empty());
        let described = described.map_or_else(String::new, |text| format!(" ({text})"));
        let effect =
            format!("revokes the token {id}{described}: every node refuses it from then on");
        Ok(Plan::new(effect, None))
    }

    fn creation(&self, wanted: CreateAccess) -> Result<(NewToken, AccessCommand), ServiceError> {
        let invalid = |text: String| ServiceError::Request(RequestError::Invalid(text));
        let permissions = wanted.scopes.unwrap_or_default();
        if permissions.is_empty() {
            let rule = seqd_api::scope::PERMISSION_RULE;
            return Err(invalid(format!("scopes: at least one, each {rule}")));
        }
        let now = self.clock.wall();
        let expires_ms = match wanted.ttl_ms {
            None => None,
            Some(ttl_ms) if (1..=MAX_TTL_MS).contains(&ttl_ms) => Some(now.0 + ttl_ms),
            Some(_) => return Err(invalid(format!("ttl_ms is 1 to {MAX_TTL_MS} (ten years)"))),
        };
        let drawn = NewToken::draw().map_err(ServiceError::no_random)?;
        let command = AccessCommand::Create {
            id: drawn.id,
            hash: drawn.hash,
            permissions: permissions.into_iter().map(to_state).collect(),
            description: wanted.description.unwrap_or_default(),
            expires_ms,
            per_second: wanted.per_second,
        };
        Ok((drawn, command))
    }

    async fn plan(&self, command: &AccessCommand, deadline: Instant) -> Result<(), ServiceError> {
        let check = |state: &State| state.try_access(command);
        try_out(&*self.replica, deadline, check).await?;
        Ok(())
    }

    async fn propose(&self, command: AccessCommand, deadline: Instant) -> Result<(), ServiceError> {
        match propose(&*self.replica, command, deadline).await? {
            Outcome::Access(AccessOutcome::Created { .. } | AccessOutcome::Revoked { .. }) => {
                Ok(())
            }
            other => Err(unexpected(&other)),
        }
    }
}

/// The ID in a path. An invalid ID is reported as a missing token, without the text, which may be
/// the secret of a token.
fn read_id(text: &str) -> Result<AccessId, ServiceError> {
    let missing =
        || ServiceError::NoToken("with this ID: an ID has 16 hexadecimal digits".to_owned());
    AccessId::parse(text).ok_or_else(missing)
}

/// The record of a creation that this node has not applied yet.
fn record_of(command: AccessCommand, now: WallMs) -> Option<AccessRecord> {
    let AccessCommand::Create {
        id: _,
        hash,
        permissions,
        description,
        expires_ms,
        per_second,
    } = command
    else {
        return None;
    };
    Some(AccessRecord {
        hash,
        permissions,
        description,
        created: now,
        expires_ms,
        per_second,
    })
}

fn to_state(permission: Permission) -> seqd_state::Permission {
    seqd_state::Permission {
        scope: match permission.scope {
            seqd_api::Scope::Read => seqd_state::Scope::Read,
            seqd_api::Scope::Allocate => seqd_state::Scope::Allocate,
            seqd_api::Scope::Admin => seqd_state::Scope::Admin,
        },
        prefix: permission.prefix,
    }
}

fn to_api(id: AccessId, record: &AccessRecord, now: WallMs) -> AccessToken {
    let shown = record.permissions.iter().map(|permission| {
        let scope = scope_of_state(permission.scope);
        let prefix = permission.prefix.clone();
        Permission { scope, prefix }.to_string()
    });
    AccessToken {
        id: id.to_string(),
        scopes: shown.collect(),
        description: record.description.clone(),
        created: rfc3339(record.created),
        expires: record.expires_ms.map(|ms| rfc3339(WallMs(ms))),
        expired: record.is_expired(now),
        per_second: record.per_second,
    }
}
