//! Changes that are only checked: the server answers what each would do, as it would answer the
//! real one.

use seqd_api::{
    AddMember, AdvanceRequest, BreakLockRequest, CreateAccess, CreateLayout, KeysQuery, LeaderMove,
    Plan, SequenceSpec, TokensQuery,
};
use serde::Serialize;

use crate::changes;
use crate::client::{Call, Client};
use crate::error::Error;

/// A query that asks for the plan alone.
#[derive(Serialize)]
struct Dry {
    dry_run: u8,
}

/// The changes of a client without their effect.
#[derive(Debug, Clone, Copy)]
pub struct DryRun<'a>(&'a Client);

impl Client {
    /// The same changes, checked and not made.
    #[must_use]
    pub fn dry_run(&self) -> DryRun<'_> {
        DryRun(self)
    }
}

/// Each method fails with the [`Error`] that the change itself would fail with.
#[expect(
    clippy::missing_errors_doc,
    reason = "all of them fail in the same way, described above"
)]
impl DryRun<'_> {
    async fn plan(&self, call: Call) -> Result<Plan, Error> {
        self.0.answer(call.query(&Dry { dry_run: 1 })?).await
    }

    /// Of [`Client::create_sequence`].
    pub async fn create_sequence(&self, name: &str, spec: &SequenceSpec) -> Result<Plan, Error> {
        self.plan(changes::create_sequence(name, spec)?).await
    }

    /// Of [`Client::update_sequence`].
    pub async fn update_sequence(
        &self,
        name: &str,
        change: &SequenceSpec,
        revision: Option<u64>,
    ) -> Result<Plan, Error> {
        let call = changes::update_sequence(name, change, revision)?;
        self.plan(call).await
    }

    /// Of [`Client::delete_sequence`].
    pub async fn delete_sequence(&self, name: &str) -> Result<Plan, Error> {
        self.plan(changes::delete_sequence(name)).await
    }

    /// Of [`Client::advance`].
    pub async fn advance(&self, name: &str, request: &AdvanceRequest) -> Result<Plan, Error> {
        self.plan(changes::advance(name, request)?).await
    }

    /// Of [`Client::break_lock`].
    pub async fn break_lock(&self, name: &str, request: &BreakLockRequest) -> Result<Plan, Error> {
        self.plan(changes::break_lock(name, request)?).await
    }

    /// Of [`Client::delete_key`].
    pub async fn delete_key(&self, key: &str) -> Result<Plan, Error> {
        self.plan(changes::delete_key(key)).await
    }

    /// Of [`Client::delete_keys`].
    pub async fn delete_keys(&self, query: &KeysQuery) -> Result<Plan, Error> {
        self.plan(changes::delete_keys(query)?).await
    }

    /// Of [`Client::delete_one_time`].
    pub async fn delete_one_time(&self, id: &str) -> Result<Plan, Error> {
        self.plan(changes::delete_one_time(id)).await
    }

    /// Of [`Client::delete_all_one_time`].
    pub async fn delete_all_one_time(&self, query: &TokensQuery) -> Result<Plan, Error> {
        self.plan(changes::delete_all_one_time(query)?).await
    }

    /// Of [`Client::create_layout`].
    pub async fn create_layout(&self, request: &CreateLayout) -> Result<Plan, Error> {
        self.plan(changes::create_layout(request)?).await
    }

    /// Of [`Client::add_member`].
    pub async fn add_member(&self, request: &AddMember) -> Result<Plan, Error> {
        self.plan(changes::add_member(request)?).await
    }

    /// Of [`Client::promote_member`].
    pub async fn promote_member(&self, name: &str) -> Result<Plan, Error> {
        self.plan(changes::promote_member(name)?).await
    }

    /// Of [`Client::remove_member`].
    pub async fn remove_member(&self, name: &str) -> Result<Plan, Error> {
        self.plan(changes::remove_member(name)).await
    }

    /// Of [`Client::reset_workers`].
    pub async fn reset_workers(&self, name: &str) -> Result<Plan, Error> {
        self.plan(changes::reset_workers(name)?).await
    }

    /// Of [`Client::move_leader`].
    pub async fn move_leader(&self, request: &LeaderMove) -> Result<Plan, Error> {
        self.plan(changes::move_leader(request)?).await
    }

    /// Of [`Client::create_token`].
    pub async fn create_token(&self, request: &CreateAccess) -> Result<Plan, Error> {
        self.plan(changes::create_token(request)?).await
    }

    /// Of [`Client::revoke_token`].
    pub async fn revoke_token(&self, id: &str) -> Result<Plan, Error> {
        self.plan(changes::revoke_token(id)).await
    }
}
