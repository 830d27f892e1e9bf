//! Every operation of the surface, one method each.

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use seqd_api::{
    AbandonKey, AccessCreated, AccessRevoked, AccessToken, AddMember, AdvanceRequest, Advanced,
    BeginKey, Cluster, CodePage, ConfigEntries, ConsumeToken, CreateAccess, CreateLayout, Deleted,
    DeletedPage, EncodeRequest, Encoded, GetKeyQuery, Grant, GrantRequest, IDEMPOTENCY_KEY_HEADER,
    Id, IdParts, IdPartsQuery, IdQuery, Ids, IssueTokens, JsonText, Key, KeyBegun, KeyDeleted,
    KeyEnded, KeysQuery, Layout, LayoutQuery, LeaderMove, LeaderMoved, Lease, LeaseRequest,
    ListQuery, ListedKey, ListedToken, Live, Member, MemberChange, Next, NextRequest, Page, Ready,
    ReleaseRequest, Released, RenewRequest, ReturnRequest, Returned, Sequence, SequenceSpec,
    TokenConsumed, TokenDeleted, TokensIssued, TokensQuery, Uuid, UuidQuery, Uuids, Version,
    Worker, WorkersQuery, WorkersReset, paths,
};
use serde::Serialize;

use crate::changes;
use crate::client::{Call, Client};
use crate::error::Error;

/// Whether a PUT made something or found it made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Whether it is new; otherwise an equal one was there.
    pub new: bool,
    /// What is there.
    pub sequence: Sequence,
}

/// Each method fails with an [`Error`]: what was answered, or why no answer came.
#[expect(
    clippy::missing_errors_doc,
    reason = "all of them fail in the same way, described above"
)]
impl Client {
    /// One ID, minted by the node that answers.
    pub async fn id(&self, query: &IdQuery) -> Result<Id, Error> {
        self.answer(Call::get(paths::ID).query(query)?).await
    }

    /// Many IDs, strictly increasing, minted by the node that answers.
    pub async fn ids(&self, query: &IdQuery) -> Result<Ids, Error> {
        self.answer(Call::get(paths::IDS).query(query)?).await
    }

    /// What an ID is made of and who held its worker.
    pub async fn id_parts(&self, id: &str, query: &IdPartsQuery) -> Result<IdParts, Error> {
        self.answer(Call::get(paths::fill(paths::ID_PARTS, id)).query(query)?)
            .await
    }

    /// One UUID.
    pub async fn uuid(&self, query: &UuidQuery) -> Result<Uuid, Error> {
        self.answer(Call::get(paths::UUID).query(query)?).await
    }

    /// Many UUIDs.
    pub async fn uuids(&self, query: &UuidQuery) -> Result<Uuids, Error> {
        self.answer(Call::get(paths::UUIDS).query(query)?).await
    }

    /// One page of the layouts.
    pub async fn layouts(&self, query: &ListQuery) -> Result<Page<Layout>, Error> {
        self.answer(Call::get(paths::LAYOUTS).query(query)?).await
    }

    /// One layout, with the spread of its IDs if a rate or a modulus is given.
    pub async fn layout(&self, name: &str, query: &LayoutQuery) -> Result<Layout, Error> {
        let path = paths::fill(paths::LAYOUT, name);
        self.answer(Call::get(path).query(query)?).await
    }

    /// Makes a layout; harmless where an equal one is there. Whether it is new, and the layout.
    pub async fn create_layout(&self, request: &CreateLayout) -> Result<(bool, Layout), Error> {
        let (status, layout) = self.send(changes::create_layout(request)?).await?;
        Ok((status == StatusCode::CREATED, layout))
    }

    /// The ID of a time, a worker and a sequence: computed, and allocated to nobody.
    pub async fn encode_id(&self, layout: &str, parts: &EncodeRequest) -> Result<Encoded, Error> {
        let path = paths::fill(paths::LAYOUT_ENCODE, layout);
        self.answer(Call::get(path).method(Method::POST).body(parts)?)
            .await
    }

    /// One page of the sequences.
    pub async fn sequences(&self, query: &ListQuery) -> Result<Page<Sequence>, Error> {
        self.answer(Call::get(paths::SEQUENCES).query(query)?).await
    }

    /// One sequence, linearizable.
    pub async fn sequence(&self, name: &str) -> Result<Sequence, Error> {
        self.answer(Call::get(paths::fill(paths::SEQUENCE, name)))
            .await
    }

    /// Makes a sequence; harmless where an equal one is there.
    pub async fn create_sequence(&self, name: &str, spec: &SequenceSpec) -> Result<Created, Error> {
        let (status, sequence) = self.send(changes::create_sequence(name, spec)?).await?;
        Ok(Created {
            new: status == StatusCode::CREATED,
            sequence,
        })
    }

    /// Changes what may change of a sequence that is in use: what is given of its description, its
    /// segments and the bound that it runs to. With a revision only while the definition has it.
    pub async fn update_sequence(
        &self,
        name: &str,
        change: &SequenceSpec,
        revision: Option<u64>,
    ) -> Result<Sequence, Error> {
        let call = changes::update_sequence(name, change, revision)?;
        self.answer(call).await
    }

    /// Deletes a sequence; its definition and mark are kept.
    pub async fn delete_sequence(&self, name: &str) -> Result<Deleted, Error> {
        self.answer(changes::delete_sequence(name)).await
    }

    /// The next values of a sequence.
    pub async fn next(&self, name: &str, request: &NextRequest) -> Result<Next, Error> {
        let path = paths::fill(paths::SEQUENCE_NEXT, name);
        self.answer(Call::change(Method::POST, path).body(request)?)
            .await
    }

    /// The next values of a sequence, once for this key: it may be repeated after a lost answer, and
    /// is then given the same values. At most 1000.
    pub async fn next_once(
        &self,
        name: &str,
        request: &NextRequest,
        key: &str,
    ) -> Result<Next, Error> {
        let path = paths::fill(paths::SEQUENCE_NEXT, name);
        let key = HeaderValue::from_str(key).map_err(Error::setup)?;
        let call = Call::get(path).method(Method::POST).body(request)?;
        let header = HeaderName::from_static(IDEMPOTENCY_KEY_HEADER);
        self.answer(call.header(header, key)).await
    }

    /// Moves a sequence forward.
    pub async fn advance(&self, name: &str, request: &AdvanceRequest) -> Result<Advanced, Error> {
        self.answer(changes::advance(name, request)?).await
    }

    /// Takes a range of a segment sequence for an allocator of one's own.
    pub async fn grant_segment(&self, name: &str, request: &GrantRequest) -> Result<Grant, Error> {
        let path = paths::fill(paths::SEGMENTS, name);
        self.answer(Call::change(Method::POST, path).body(request)?)
            .await
    }

    /// Gives the unused end of a range back.
    pub async fn return_segment(
        &self,
        name: &str,
        grant: u128,
        request: &ReturnRequest,
    ) -> Result<Returned, Error> {
        let path = paths::fill(&paths::fill(paths::SEGMENT, name), &grant.to_string());
        self.answer(Call::change(Method::DELETE, path).body(request)?)
            .await
    }

    /// Asks to be told to go on with a key, or what came of it. With a nonce it may be repeated after a
    /// lost answer.
    pub async fn begin_key(&self, key: &str, request: &BeginKey) -> Result<KeyBegun, Error> {
        let path = paths::fill(paths::KEY_BEGIN, key);
        let call = once_for(request.nonce.as_deref(), path);
        self.answer(call.body(request)?).await
    }

    /// Keeps what came of it: any JSON, given back as it was written. It may be repeated.
    pub async fn complete_key(
        &self,
        key: &str,
        claim: &str,
        result: &JsonText,
    ) -> Result<KeyEnded, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            claim: &'a str,
            result: &'a JsonText,
        }
        let path = paths::fill(paths::KEY_COMPLETE, key);
        let call = Call::get(path).method(Method::POST);
        self.answer(call.body(&Body { claim, result })?).await
    }

    /// Ends a claim without a result: the next caller goes on at once.
    pub async fn abandon_key(&self, key: &str, claim: &str) -> Result<KeyEnded, Error> {
        let request = AbandonKey {
            claim: Some(claim.to_owned()),
        };
        let path = paths::fill(paths::KEY_ABANDON, key);
        self.answer(Call::change(Method::POST, path).body(&request)?)
            .await
    }

    /// A key as it stands, linearizable unless `stale`.
    pub async fn key(&self, key: &str, query: &GetKeyQuery) -> Result<Key, Error> {
        self.answer(Call::get(paths::fill(paths::KEY, key)).query(query)?)
            .await
    }

    /// One page of the keys, for an operator.
    pub async fn keys(&self, query: &KeysQuery) -> Result<Page<ListedKey>, Error> {
        self.answer(Call::get(paths::KEYS).query(query)?).await
    }

    /// Deletes a key: it can be begun anew, also where it was done.
    pub async fn delete_key(&self, key: &str) -> Result<KeyDeleted, Error> {
        self.answer(changes::delete_key(key)).await
    }

    /// Deletes a page of the keys that a query names: by prefix, by tenant or both.
    pub async fn delete_keys(&self, query: &KeysQuery) -> Result<DeletedPage, Error> {
        self.answer(changes::delete_keys(query)?).await
    }

    /// One page of the one-time tokens, for an operator.
    pub async fn one_time_tokens(&self, query: &TokensQuery) -> Result<Page<ListedToken>, Error> {
        self.answer(Call::get(paths::ONE_TIME).query(query)?).await
    }

    /// Deletes a one-time token by its ID, the first 11 characters.
    pub async fn delete_one_time(&self, id: &str) -> Result<TokenDeleted, Error> {
        self.answer(changes::delete_one_time(id)).await
    }

    /// Deletes a page of the one-time tokens of a tenant.
    pub async fn delete_all_one_time(&self, query: &TokensQuery) -> Result<DeletedPage, Error> {
        self.answer(changes::delete_all_one_time(query)?).await
    }

    /// Issues one-time tokens. A lost answer leaves some that nobody has.
    pub async fn issue_tokens(&self, request: &IssueTokens) -> Result<TokensIssued, Error> {
        let call = Call::get(paths::ONE_TIME).method(Method::POST);
        self.answer(call.body(request)?).await
    }

    /// Consumes a one-time token. With a nonce it may be repeated after a lost answer.
    pub async fn consume_token(
        &self,
        token: &str,
        request: &ConsumeToken,
    ) -> Result<TokenConsumed, Error> {
        let path = paths::fill(paths::ONE_TIME_CONSUME, token);
        let call = once_for(request.nonce.as_deref(), path);
        self.answer(call.body(request)?).await
    }

    /// One page of the worker leases.
    pub async fn workers(&self, query: &WorkersQuery) -> Result<Page<Worker>, Error> {
        self.answer(Call::get(paths::WORKERS).query(query)?).await
    }

    /// Takes a worker for a generator of one's own. A lost answer costs a worker for one window.
    pub async fn lease_worker(&self, request: &LeaseRequest) -> Result<Lease, Error> {
        self.answer(Call::change(Method::POST, paths::WORKERS).body(request)?)
            .await
    }

    /// Raises the fence of a lease. It may be repeated: a fence never falls by it.
    pub async fn renew_worker(
        &self,
        layout: &str,
        worker: u32,
        request: &RenewRequest,
    ) -> Result<Lease, Error> {
        let call = Call::get(lease_path(layout, worker)).method(Method::PUT);
        self.answer(call.body(request)?).await
    }

    /// Gives a worker back.
    pub async fn release_worker(
        &self,
        layout: &str,
        worker: u32,
        request: &ReleaseRequest,
    ) -> Result<Released, Error> {
        let call = Call::change(Method::DELETE, lease_path(layout, worker));
        self.answer(call.query(request)?).await
    }

    /// The cluster as the node that answers sees it.
    pub async fn cluster(&self) -> Result<Cluster, Error> {
        self.answer(Call::get(paths::CLUSTER)).await
    }

    /// One page of the members as the node that answers sees them.
    pub async fn members(&self, query: &ListQuery) -> Result<Page<Member>, Error> {
        self.answer(Call::get(paths::MEMBERS).query(query)?).await
    }

    /// Adds a node as a learner.
    pub async fn add_member(&self, request: &AddMember) -> Result<MemberChange, Error> {
        self.answer(changes::add_member(request)?).await
    }

    /// Makes a learner a voter.
    pub async fn promote_member(&self, name: &str) -> Result<MemberChange, Error> {
        self.answer(changes::promote_member(name)?).await
    }

    /// Removes a member for good.
    pub async fn remove_member(&self, name: &str) -> Result<MemberChange, Error> {
        self.answer(changes::remove_member(name)).await
    }

    /// Has a node give up what it minted ahead of the clock.
    pub async fn reset_workers(&self, name: &str) -> Result<WorkersReset, Error> {
        self.answer(changes::reset_workers(name)?).await
    }

    /// Moves the leadership.
    pub async fn move_leader(&self, request: &LeaderMove) -> Result<LeaderMoved, Error> {
        self.answer(changes::move_leader(request)?).await
    }

    /// One page of the tokens.
    pub async fn tokens(&self, query: &ListQuery) -> Result<Page<AccessToken>, Error> {
        self.answer(Call::get(paths::ACCESS).query(query)?).await
    }

    /// Makes a token. The answer alone shows it.
    pub async fn create_token(&self, request: &CreateAccess) -> Result<AccessCreated, Error> {
        self.answer(changes::create_token(request)?).await
    }

    /// Revokes a token.
    pub async fn revoke_token(&self, id: &str) -> Result<AccessRevoked, Error> {
        self.answer(changes::revoke_token(id)).await
    }

    /// The configuration of the node that answers.
    pub async fn config(&self) -> Result<ConfigEntries, Error> {
        self.answer(Call::get(paths::CONFIG)).await
    }

    /// Whether a process answers at all.
    pub async fn live(&self) -> Result<Live, Error> {
        self.answer(Call::get(paths::LIVEZ)).await
    }

    /// The metrics of the node that answers, in Prometheus's text form.
    pub async fn metrics(&self) -> Result<String, Error> {
        let call = Call::get(paths::METRICS).accept("text/plain");
        self.answer_text(call).await
    }

    /// What an error code means.
    pub async fn code_page(&self, code: &str) -> Result<CodePage, Error> {
        let path = paths::fill(paths::PROBLEM, code);
        self.answer(Call::get(path)).await
    }

    /// Whether the node that answers can serve everything.
    pub async fn ready(&self) -> Result<Ready, Error> {
        self.answer(Call::get(paths::READYZ)).await
    }

    /// The version of the node that answers.
    pub async fn version(&self) -> Result<Version, Error> {
        self.answer(Call::get(paths::VERSION)).await
    }
}

/// A request that is answered the same for the same nonce; without one its lost answer leaves its
/// outcome unknown.
fn once_for(nonce: Option<&str>, path: String) -> Call {
    match nonce {
        Some(nonce) if !nonce.is_empty() => Call::get(path).method(Method::POST),
        _ => Call::change(Method::POST, path),
    }
}

fn lease_path(layout: &str, worker: u32) -> String {
    paths::fill(
        &paths::fill(paths::WORKER_LEASE, layout),
        &worker.to_string(),
    )
}
