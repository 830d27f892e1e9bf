//! Changes that are only checked: the server answers what each would do, as it would answer the real one.

use reqwest::Method;
use seqd_api::{AddMember, AdvanceRequest, LeaderMove, NoFields, Plan, SequenceSpec, paths};
use serde::Serialize;

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
        let path = paths::fill(paths::SEQUENCE, name);
        self.plan(Call::change(Method::PUT, path).body(spec)?).await
    }

    /// Of [`Client::delete_sequence`].
    pub async fn delete_sequence(&self, name: &str) -> Result<Plan, Error> {
        let path = paths::fill(paths::SEQUENCE, name);
        self.plan(Call::change(Method::DELETE, path)).await
    }

    /// Of [`Client::advance`].
    pub async fn advance(&self, name: &str, request: &AdvanceRequest) -> Result<Plan, Error> {
        let path = paths::fill(paths::SEQUENCE_ADVANCE, name);
        self.plan(Call::change(Method::POST, path).body(request)?)
            .await
    }

    /// Of [`Client::add_member`].
    pub async fn add_member(&self, request: &AddMember) -> Result<Plan, Error> {
        self.plan(Call::change(Method::POST, paths::MEMBERS).body(request)?)
            .await
    }

    /// Of [`Client::promote_member`].
    pub async fn promote_member(&self, name: &str) -> Result<Plan, Error> {
        let path = paths::fill(paths::MEMBER_PROMOTE, name);
        self.plan(Call::change(Method::POST, path).body(&NoFields {})?)
            .await
    }

    /// Of [`Client::remove_member`].
    pub async fn remove_member(&self, name: &str) -> Result<Plan, Error> {
        let path = paths::fill(paths::MEMBER, name);
        self.plan(Call::change(Method::DELETE, path)).await
    }

    /// Of [`Client::move_leader`].
    pub async fn move_leader(&self, request: &LeaderMove) -> Result<Plan, Error> {
        self.plan(Call::change(Method::POST, paths::LEADER).body(request)?)
            .await
    }
}
