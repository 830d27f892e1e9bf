//! Idempotency keys of users and of requests: begin, complete, abandon, read.
//!
//! This node's limits are checked when a key begins, so that a key that was begun can be completed.
//! Until then a key is charged [`RESERVED_RESULT_BYTES`] for its result. A user's larger result is
//! checked against the limits like a new key.

use std::sync::Arc;

use seqd_api::{
    AbandonKey, BeginKey, CompleteKey, GetKeyQuery, JsonText, Key, KeyBegun, KeyEnded, KeyState,
};
use seqd_guards::is_out;
use seqd_raft::Pool;
use seqd_state::codec::Bytes;
use seqd_state::{
    ClusterMs, KeyClaim, KeyCommand, KeyName, KeyOutcome, KeyRecord, KeyRefusal, KeySpace, Outcome,
    RESERVED_RESULT_BYTES, Tenant,
};
use tokio::time::Instant;

use super::error::{
    KeyError, RequestError, ServiceError, nonce_of, not_dots, on_state, propose, read, unexpected,
};
use super::key_admin::state_of;
use super::room::Resource;
use super::seals::{Seal, secret};
use crate::config::keys::LimitsSection;
use crate::replica::{ReadTime, Replica, peek};

/// The most attempts to begin a key that ends each time between the outcome and the read of its
/// result.
const MAX_BEGINS: usize = 3;

/// The most requests with a key that are served at the same time: as many as a node has
/// connections. Such requests continue when their clients disconnect.
const IN_FLIGHT: u64 = 4096;

/// The most bytes of responses that are being stored at the same time. A limit or a share may be
/// exceeded by this much, since room is checked before a response is proposed.
const KEEPING_BYTES: u64 = 8 << 20;

pub(crate) struct KeyService {
    pub(super) replica: Arc<dyn Replica>,
    pub(super) limits: LimitsSection,
    /// Places of requests with a key.
    pub(super) in_flight: Arc<Pool>,
    /// Bytes of responses that are being stored.
    pub(super) keeping: Arc<Pool>,
}

/// The result of beginning a key.
pub(super) enum Begun {
    First {
        claim: KeyClaim,
        attempt: u64,
        claim_ms: u64,
        ms: u64,
    },
    Done {
        record: Box<KeyRecord>,
        result: Bytes,
        time: ReadTime,
    },
}

pub(super) fn users(key: &str) -> KeyName {
    KeyName {
        space: KeySpace::Users,
        key: key.to_owned(),
    }
}

/// The name of a user's key, if keys may have it.
pub(super) fn valid(key: &str) -> Result<KeyName, ServiceError> {
    let name = users(key);
    let refused = || ServiceError::Refused(KeyRefusal::InvalidKey.into());
    name.is_valid().then_some(name).ok_or_else(refused)
}

/// The seal of a claim.
const SEAL: Seal = Seal(b"seqd key claim\0");

impl KeyService {
    pub(crate) fn new(replica: Arc<dyn Replica>, limits: LimitsSection) -> KeyService {
        KeyService {
            replica,
            in_flight: Pool::new(limits.tenant_share, IN_FLIGHT),
            keeping: Pool::new(limits.tenant_share, KEEPING_BYTES),
            limits,
        }
    }

    /// Begins a key. The first caller receives a claim, the others the state or the result of the
    /// key.
    pub(crate) async fn begin(
        &self,
        key: &str,
        wanted: BeginKey,
        tenant: Tenant,
        deadline: Instant,
    ) -> Result<KeyBegun, ServiceError> {
        not_dots(key)?;
        let begin = seqd_state::BeginKey {
            name: users(key),
            tenant,
            ttl_ms: wanted.ttl_ms.unwrap_or(BeginKey::DEFAULT_TTL_MS),
            claim_ttl_ms: wanted
                .claim_ttl_ms
                .unwrap_or(BeginKey::DEFAULT_CLAIM_TTL_MS),
            fingerprint: wanted.fingerprint.unwrap_or_default(),
            nonce: nonce_of(wanted.nonce)?,
        };
        // The secret is read before the claim is made: a claim that cannot be named could only
        // expire.
        let secret = secret(&*self.replica, deadline).await?;
        let key = key.to_owned();
        Ok(match self.begin_key(begin, deadline).await? {
            Begun::First {
                claim,
                attempt,
                claim_ms,
                ms,
            } => KeyBegun {
                claim: Some(SEAL.close_text(&secret, &[key.as_bytes()], claim.0)),
                token: Some(claim.0),
                key,
                state: KeyState::First,
                attempt,
                claim_expires_in_ms: Some(claim_ms),
                expires_in_ms: ms,
                result: None,
            },
            Begun::Done {
                record,
                result,
                time,
            } => KeyBegun {
                result: Some(json_of(&key, &result)?),
                key,
                state: KeyState::Done,
                claim: None,
                token: None,
                attempt: record.attempt,
                claim_expires_in_ms: None,
                expires_in_ms: time.left(record.until),
            },
        })
    }

    /// Completes a key with its result. `text` is the result as the request body contained it.
    pub(crate) async fn complete(
        &self,
        key: &str,
        wanted: CompleteKey,
        text: Option<JsonText>,
        deadline: Instant,
    ) -> Result<KeyEnded, ServiceError> {
        let claim = self.opened(key, wanted.claim, deadline).await?;
        let written = || wanted.result.unwrap_or_default().to_string();
        let text = text.map_or_else(written, |text| text.as_str().to_owned());
        self.check_result(&users(key), text.len())?;
        self.keep(users(key), claim, text.into_bytes().into(), deadline)
            .await?;
        Ok(KeyEnded {
            key: key.to_owned(),
            state: KeyState::Done,
        })
    }

    pub(crate) async fn abandon(
        &self,
        key: &str,
        wanted: AbandonKey,
        deadline: Instant,
    ) -> Result<KeyEnded, ServiceError> {
        let claim = self.opened(key, wanted.claim, deadline).await?;
        self.give_up(users(key), claim, deadline).await?;
        Ok(KeyEnded {
            key: key.to_owned(),
            state: KeyState::Abandoned,
        })
    }

    /// Returns the number of a claim. A claim that this cluster did not make for the key is refused
    /// with the same message as a lost claim.
    async fn opened(
        &self,
        key: &str,
        claim: Option<String>,
        deadline: Instant,
    ) -> Result<KeyClaim, ServiceError> {
        let missing = || RequestError::invalid("claim is missing: the response to begin has it");
        let claim = claim.ok_or_else(missing)?;
        let secret = secret(&*self.replica, deadline).await?;
        let opened = SEAL.open_text(&secret, &[key.as_bytes()], &claim);
        let lost = || KeyRefusal::ClaimLost { name: users(key) };
        opened
            .map(KeyClaim)
            .ok_or_else(|| ServiceError::Refused(lost().into()))
    }

    /// Returns a key, by a linearizable read or, with `stale`, as this node has applied it.
    pub(crate) async fn get(
        &self,
        key: &str,
        query: &GetKeyQuery,
        deadline: Instant,
    ) -> Result<Key, ServiceError> {
        let name = valid(key)?;
        let time = match query.stale.unwrap_or(false) {
            true => None,
            false => Some(read(&*self.replica, deadline).await?),
        };
        on_state(&*self.replica, |_| ())?;
        let found = self.look(&name);
        let (record, now, applied) = found.ok_or_else(|| KeyError::NotFound(key.to_owned()))?;
        let time = time.unwrap_or(applied);
        let result = record.result.as_ref();
        let state = state_of(&record, now);
        let claim_ms = time.left(record.claim_until);
        Ok(Key {
            result: result.map(|result| json_of(key, result)).transpose()?,
            key: name.key,
            state,
            attempt: record.attempt,
            fingerprint: record.fingerprint,
            expires_in_ms: time.left(record.until),
            claim_expires_in_ms: (state == KeyState::InProgress).then_some(claim_ms),
        })
    }

    /// Stores the result of a claim.
    pub(crate) async fn keep(
        &self,
        name: KeyName,
        claim: KeyClaim,
        result: Bytes,
        deadline: Instant,
    ) -> Result<(), ServiceError> {
        let complete = KeyCommand::Complete {
            name,
            claim,
            result,
        };
        match propose(&*self.replica, complete, deadline).await? {
            Outcome::Keys(KeyOutcome::Completed) => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn give_up(
        &self,
        name: KeyName,
        claim: KeyClaim,
        deadline: Instant,
    ) -> Result<(), ServiceError> {
        let abandon = KeyCommand::Abandon { name, claim };
        match propose(&*self.replica, abandon, deadline).await? {
            Outcome::Keys(KeyOutcome::Abandoned { .. }) => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Begins a key and reads its result. An outcome states only that there is a result, which is
    /// then read from the applied state: one message between nodes carries thousands of outcomes.
    pub(super) async fn begin_key(
        &self,
        begin: seqd_state::BeginKey,
        deadline: Instant,
    ) -> Result<Begun, ServiceError> {
        for _ in 0..MAX_BEGINS {
            self.check_room(&begin)?;
            let command = KeyCommand::Begin(begin.clone());
            let seems_free = is_out!(KeyDecidedByApply) && self.look(&begin.name).is_none();
            let key = || begin.name.key.clone();
            let outcome = match propose(&*self.replica, command, deadline).await? {
                Outcome::Keys(outcome) => outcome,
                other => return Err(unexpected(&other)),
            };
            match outcome {
                KeyOutcome::First {
                    claim,
                    attempt,
                    claim_until,
                    until,
                    now,
                } => {
                    return Ok(Begun::First {
                        claim,
                        attempt,
                        claim_ms: claim_until.left_at(now),
                        ms: until.left_at(now),
                    });
                }
                KeyOutcome::InProgress { attempt, .. } if seems_free => {
                    return Ok(Begun::First {
                        claim: KeyClaim(0),
                        attempt,
                        claim_ms: begin.claim_ttl_ms,
                        ms: begin.ttl_ms,
                    });
                }
                KeyOutcome::InProgress {
                    attempt,
                    claim_until,
                    now,
                } => {
                    let error = KeyError::InProgress {
                        key: key(),
                        claim_ms: claim_until.0.saturating_sub(now.0),
                        attempt,
                    };
                    return Err(error.into());
                }
                KeyOutcome::Mismatch => return Err(KeyError::Mismatch { key: key() }.into()),
                KeyOutcome::Done { .. } => {
                    if let Some(done) = self.done(&begin, deadline).await? {
                        return Ok(done);
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
        let error = KeyError::InProgress {
            key: begin.name.key,
            claim_ms: 1,
            attempt: 1,
        };
        Err(error.into())
    }

    /// Returns the result of a completed key, or `None` if the key has ended since.
    async fn done(
        &self,
        begin: &seqd_state::BeginKey,
        deadline: Instant,
    ) -> Result<Option<Begun>, ServiceError> {
        let time = read(&*self.replica, deadline).await?;
        let found = self.look(&begin.name);
        let found = found.filter(|(record, ..)| record.fingerprint == begin.fingerprint);
        Ok(found.and_then(|(record, ..)| {
            Some(Begun::Done {
                result: record.result.clone()?,
                record: Box::new(record),
                time,
            })
        }))
    }

    /// The key as this node has applied it, at its cluster time.
    pub(super) fn look(&self, name: &KeyName) -> Option<(KeyRecord, ClusterMs, ReadTime)> {
        let found = peek(&*self.replica, |state| {
            let record = state.key(name)?.clone();
            Some((record, state.cluster_ms(), ReadTime::of_applied(state)))
        });
        found.flatten()
    }

    /// Refuses a key that would exceed this node's limits or its tenant's share, if it is new or is
    /// taken over from another tenant.
    fn check_room(&self, begin: &seqd_state::BeginKey) -> Result<(), ServiceError> {
        let held = peek(&*self.replica, |state| {
            let now = state.cluster_ms();
            let is_charged = |key: &KeyRecord| {
                key.tenant == begin.tenant || key.result.is_some() || key.is_claimed(now)
            };
            let is_new = !state.key(&begin.name).is_some_and(is_charged);
            let held = state.keys_held();
            let undrained = state.undrained(begin.tenant);
            is_new.then(|| (held.of(begin.tenant), held.all(), undrained))
        });
        let Some((held, used, undrained)) = held.flatten() else {
            return Ok(());
        };
        let (share, keys) = (self.limits.tenant_share, self.limits.keys);
        let keys = Resource::new("idempotency keys", "keys", keys).behind(undrained);
        keys.check(share, begin.tenant, (held.count, used.count, 1))?;
        Ok(self
            .bytes()
            .check(share, begin.tenant, (held.bytes, used.bytes, 1))?)
    }

    /// Refuses a result that is larger than its reservation if there is no room for it, or if it
    /// would be too far ahead of the checkpoint.
    pub(super) fn check_result(&self, name: &KeyName, bytes: usize) -> Result<(), ServiceError> {
        let tenant = peek(&*self.replica, |state| {
            let open = state.key(name).filter(|key| key.result.is_none())?;
            Some(open.tenant)
        });
        match tenant.flatten() {
            Some(tenant) => self.check_answer(tenant, bytes as u64),
            None => Ok(()),
        }
    }

    /// Refuses a response of this size like [`Self::check_result`], before the request is served.
    pub(crate) fn check_answer(&self, tenant: Tenant, bytes: u64) -> Result<(), ServiceError> {
        let more = bytes.saturating_sub(RESERVED_RESULT_BYTES as u64);
        let held = peek(&*self.replica, |state| {
            let held = state.keys_held();
            (held.of(tenant), held.all(), state.undrained(tenant))
        });
        let Some((held, used, undrained)) = held.filter(|_| more > 0) else {
            return Ok(());
        };
        let share = self.limits.tenant_share;
        Ok(self
            .bytes()
            .behind(undrained)
            .check(share, tenant, (held.bytes, used.bytes, more))?)
    }

    fn bytes(&self) -> Resource {
        let limit = self.limits.key_bytes;
        Resource::new(
            "bytes of idempotency keys and their results",
            "key_bytes",
            limit,
        )
    }
}

fn json_of(key: &str, result: &Bytes) -> Result<JsonText, ServiceError> {
    let text = String::from_utf8(result.0.to_vec()).ok();
    let json = text.and_then(|text| JsonText::new(text).ok());
    let not_json = || KeyError::NotAnAnswer {
        key: key.to_owned(),
    };
    Ok(json.ok_or_else(not_json)?)
}
