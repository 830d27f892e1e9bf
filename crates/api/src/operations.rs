//! The table of operations: every method of every path, defined once.
//!
//! The server's routes and access checks, the methods of the client, their dry runs, the list in
//! `docs/HTTP.md`, `docs/openapi.json` and the tests of all routes are generated from these rows.
//!
//! A row is `[KIND] Type name(parameters) Method "path", Request => Response, properties;`. `KIND`
//! defines the method of the client: `call` takes the request, `plain` takes no request, `custom`
//! is written by hand. `dry` adds a dry run.

use crate::code::ErrorCode as E;
use crate::json_text::JsonText;
use crate::operation::{JSON_FIRST, Media, Method, Operation, Repeat, TEXT_FIRST, Typed};
use crate::request::Request;
use crate::scope::{Need, Scope};
use crate::wire::*;

/// Reads the object that the path names.
const READ_NAMED: Need = Need::Named(Scope::Read);
/// Takes values from the object that the path names.
const ALLOCATE_NAMED: Need = Need::Named(Scope::Allocate);
/// Changes the object that the path names.
const ADMIN_NAMED: Need = Need::Named(Scope::Admin);
/// Lists the names that the caller may read.
const READ_ANY: Need = Need::Anywhere(Scope::Read);
/// Takes an unnamed resource; a scope with any prefix suffices.
const ALLOCATE_ANY: Need = Need::Anywhere(Scope::Allocate);
/// Takes an unnamed resource; a scope with a prefix does not suffice, as there is no name to
/// compare with it.
const ALLOCATE_ALL: Need = Need::Whole(Scope::Allocate);
/// Reads data of the whole cluster.
const READ_CLUSTER: Need = Need::Whole(Scope::Read);
/// Changes the cluster, or reads all of its data.
const ADMIN_CLUSTER: Need = Need::Whole(Scope::Admin);

/// The error codes of a generator that cannot mint.
const MINTING: &[E] = &[
    E::CountTooLarge,
    E::NotFound,
    E::LayoutExhausted,
    E::NoQuorum,
    E::NoWorkerYet,
    E::WorkersExhausted,
    E::ClockBehind,
    E::ClockSkewed,
];
const FIND: &[E] = &[E::NotFound];
/// The error codes of a read of this node's own state, which a node that is not a member lacks.
const OWN_STATE: &[E] = &[E::NoQuorum, E::NodeRemoved];
const FIND_HERE: &[E] = &[E::NotFound, E::NoQuorum, E::NodeRemoved];
const LOST: &[E] = &[E::LeaseLost];
const DEFINED: &[E] = &[E::NotFound, E::AlreadyExists, E::PreconditionFailed];
const VALUES: &[E] = &[E::CountTooLarge, E::NotFound, E::SequenceExhausted];
const MEMBERS: &[E] = &[
    E::NotFound,
    E::AlreadyExists,
    E::UnsafeMemberRemoval,
    E::MembershipChangeInProgress,
    E::LearnerLagging,
    E::PreconditionFailed,
];
/// The error codes of worker leases for generators in clients.
const LEASING: &[E] = &[
    E::NotFound,
    E::LayoutExhausted,
    E::LeaseLost,
    E::NoWorkerYet,
    E::WorkersExhausted,
    E::ClockBehind,
    E::ClockSkewed,
];
/// The error codes of one-time tokens, whose numbers are IDs of the default layout.
const ISSUING: &[E] = &[
    E::CountTooLarge,
    E::LayoutExhausted,
    E::NoWorkerYet,
    E::WorkersExhausted,
    E::ClockBehind,
    E::ClockSkewed,
];
/// The reasons why a node is not ready.
const UNREADY: &[E] = &[
    E::NotFound,
    E::LayoutExhausted,
    E::LeaseLost,
    E::NoQuorum,
    E::NoWorkerYet,
    E::WorkersExhausted,
    E::ClockBehind,
    E::ClockSkewed,
    E::NodeRemoved,
];
const MISMATCH: &[E] = &[E::InProgress, E::FingerprintMismatch];

/// Passes every row to the named macro.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_operation {
    ($then:ident) => {
        $then! {
    /// Returns one ID, minted by the answering node.
    [call] GetId id() Get "/v1/id",
        IdQuery => Id,
        Operation::allocate().media(TEXT_FIRST).keyed().refuses("count").codes_of(MINTING);
    /// Returns many IDs, strictly increasing, minted by the answering node.
    [call] GetIds ids() Get "/v1/ids",
        IdQuery => Ids,
        Operation::allocate().media(JSON_FIRST).keyed().codes_of(MINTING);
    /// Decodes an ID into its time, worker and sequence, and returns the holder of its worker.
    [call] GetIdParts id_parts(id: &str) Get "/v1/ids/{id}",
        IdPartsQuery => IdParts,
        Operation::read(Need::AnyToken).codes_of(FIND);
    /// Returns one UUID.
    [call] GetUuid uuid() Get "/v1/uuid",
        UuidQuery => Uuid,
        Operation::allocate().media(TEXT_FIRST).refuses("count");
    /// Returns many UUIDs. UUIDs of version 7 are strictly increasing on each node.
    [call] GetUuids uuids() Get "/v1/uuids",
        UuidQuery => Uuids,
        Operation::allocate().media(JSON_FIRST).codes_of(&[E::CountTooLarge]);

    /// Returns timestamps that increase over all nodes: Unix milliseconds, and below them a counter of
    /// 18 bits.
    [call] NextTimestamps timestamps() Post "/v1/timestamps/next",
        TimestampsRequest => Timestamps,
        Operation::change(ALLOCATE_ANY).repeat(Repeat::Harmless)
            .codes_of(&[E::CountTooLarge, E::ClockBehind]);

    /// Lists the layouts.
    [call] ListLayouts layouts() Get "/v1/layouts",
        ListQuery => Page<Layout>,
        Operation::local(Need::AnyToken).codes_of(OWN_STATE);
    /// Creates a layout. If an equal layout exists, it is returned.
    [custom dry] CreateLayoutOp create_layout() Post "/v1/layouts",
        CreateLayout => Layout,
        Operation::change(ADMIN_CLUSTER).statuses(&[201, 200]).dry_run()
            .codes_of(&[E::AlreadyExists, E::PreconditionFailed]);
    /// Returns one layout, with the distribution of its IDs if `rate` or `modulus` is given.
    [call] GetLayout layout(name: &str) Get "/v1/layouts/{name}",
        LayoutQuery => Layout,
        Operation::local(Need::AnyToken).codes_of(FIND_HERE);
    /// Computes the ID of a time, a worker and a sequence. The ID is not allocated.
    [call] EncodeId encode_id(name: &str) Post "/v1/layouts/{name}/encode",
        EncodeRequest => Encoded,
        Operation::local(Need::AnyToken).codes_of(FIND_HERE);

    /// Lists the sequences that the caller may read. The read is linearizable unless `stale` is set.
    [call] ListSequences sequences() Get "/v1/sequences",
        SequencesQuery => Page<Sequence>,
        Operation::read(READ_ANY);
    /// Returns one sequence. The read is linearizable unless `stale` is set.
    [plain] GetSequence sequence(name: &str) Get "/v1/sequences/{name}",
        GetSequenceQuery => Sequence,
        Operation::read(READ_NAMED).statuses(&[200, 304]).codes_of(FIND);
    /// Creates a sequence. If an equal sequence exists, it is returned. With `If-Match`, none is
    /// created.
    [custom dry] PutSequence create_sequence(name: &str) Put "/v1/sequences/{name}",
        SequenceSpec => Sequence,
        Operation::change(ADMIN_NAMED).statuses(&[201, 200]).dry_run()
            .conditions(&["If-Match", "If-None-Match"])
            .codes_of(&[E::AlreadyExists, E::PreconditionFailed]);
    /// Changes the description, the segments or the limit of a sequence. With `If-Match`, only a
    /// definition with that revision is changed.
    [custom] PatchSequence update_sequence(name: &str) Patch "/v1/sequences/{name}",
        SequenceSpec => Sequence,
        Operation::change(ADMIN_NAMED).dry_run().conditions(&["If-Match"]).codes_of(DEFINED);
    /// Deletes a sequence. Its definition and its high-water mark are kept.
    [plain dry] DeleteSequence delete_sequence(name: &str) Delete "/v1/sequences/{name}",
        NoFields => Deleted,
        Operation::change(ADMIN_NAMED).dry_run().conditions(&["If-Match"]).codes_of(DEFINED);
    /// Returns the next values of a sequence.
    [call] NextValues next(name: &str) Post "/v1/sequences/{name}/next",
        NextRequest => Next,
        Operation::change(ALLOCATE_NAMED).media(JSON_FIRST).keyed().codes_of(VALUES);
    /// Moves a sequence forward to a value.
    [call dry] AdvanceSequence advance(name: &str) Post "/v1/sequences/{name}/advance",
        AdvanceRequest => Advanced,
        Operation::change(ADMIN_NAMED).dry_run()
            .codes_of(&[E::NotFound, E::WouldGoBackwards]);
    /// Grants a range of a segment sequence to an allocator in the client.
    [call] GrantSegment grant_segment(name: &str) Post "/v1/sequences/{name}/segments",
        GrantRequest => Grant,
        Operation::change(ALLOCATE_NAMED).keyed()
            .codes_of(&[E::CountTooLarge, E::NotFound, E::SequenceExhausted, E::GrantSuperseded]);
    /// Returns the unused end of a range.
    [call] ReturnSegment return_segment(name: &str, grant: u128)
        Delete "/v1/sequences/{name}/segments/{grant}",
        ReturnRequest => Returned,
        Operation::change(ALLOCATE_NAMED).codes_of(&[E::NotFound, E::GrantSuperseded]);

    /// Lists the idempotency keys, with the tenant and the size of each.
    [call] ListKeys keys() Get "/v1/idempotency",
        KeysQuery => Page<ListedKey>,
        Operation::read(ADMIN_CLUSTER);
    /// Deletes a page of the idempotency keys with a prefix, of a tenant, or both.
    [call dry] DeleteKeys delete_keys() Delete "/v1/idempotency",
        KeysQuery => DeletedPage,
        Operation::change(ADMIN_CLUSTER).dry_run();
    /// Returns one idempotency key. The read is linearizable unless `stale` is set.
    [call] GetKey key(key: &str) Get "/v1/idempotency/{key}",
        GetKeyQuery => Key,
        Operation::read(READ_NAMED).codes_of(FIND);
    /// Deletes an idempotency key. The next caller that begins it is the first.
    [plain dry] DeleteKey delete_key(key: &str) Delete "/v1/idempotency/{key}",
        NoFields => KeyDeleted,
        Operation::change(ADMIN_NAMED).dry_run().codes_of(FIND);
    /// Begins an idempotency key. Returns a claim if the caller is the first, or the result if the
    /// key is done.
    [call] BeginKeyOp begin_key(key: &str) Post "/v1/idempotency/{key}/begin",
        BeginKey => KeyBegun,
        Operation::change(ALLOCATE_NAMED).repeat(Repeat::WithNonce).codes_of(MISMATCH);
    /// Completes an idempotency key with a result, which later callers receive.
    [custom] CompleteKeyOp complete_key(key: &str) Post "/v1/idempotency/{key}/complete",
        CompleteKey => KeyEnded,
        Operation::change(ALLOCATE_NAMED).repeat(Repeat::Harmless).codes_of(LOST);
    /// Ends a claim without a result. The next caller that begins the key is the first.
    [custom] AbandonKeyOp abandon_key(key: &str) Post "/v1/idempotency/{key}/abandon",
        AbandonKey => KeyEnded,
        Operation::change(ALLOCATE_NAMED).codes_of(LOST);

    /// Lists the one-time tokens, without their secret part.
    [call] ListOneTimeTokens one_time_tokens() Get "/v1/tokens",
        TokensQuery => Page<ListedToken>,
        Operation::read(ADMIN_CLUSTER);
    /// Issues one-time tokens.
    [call] IssueOneTimeTokens issue_tokens() Post "/v1/tokens",
        IssueTokens => TokensIssued,
        Operation::change(ALLOCATE_ALL).repeat(Repeat::Harmless).codes_of(ISSUING);
    /// Deletes a page of the one-time tokens of a tenant.
    [call dry] DeleteOneTimeTokens delete_all_one_time() Delete "/v1/tokens",
        TokensQuery => DeletedPage,
        Operation::change(ADMIN_CLUSTER).dry_run();
    /// Deletes the one-time token with the given first 11 characters.
    [plain dry] DeleteOneTimeToken delete_one_time(token: &str) Delete "/v1/tokens/{token}",
        NoFields => TokenDeleted,
        Operation::change(ADMIN_CLUSTER).dry_run().codes_of(FIND);
    /// Consumes a one-time token.
    [call] ConsumeOneTimeToken consume_token(token: &str) Post "/v1/tokens/{token}/consume",
        ConsumeToken => TokenConsumed,
        Operation::change(ALLOCATE_ALL).repeat(Repeat::WithNonce)
            .codes_of(&[E::NotFound, E::TokenUsed]);

    /// Lists the worker leases.
    [call] ListWorkers workers() Get "/v1/workers",
        WorkersQuery => Page<Worker>,
        Operation::read(READ_CLUSTER).codes_of(FIND);
    /// Leases a worker to a generator in the client.
    [call] LeaseWorker lease_worker() Post "/v1/workers",
        LeaseRequest => Lease,
        Operation::change(ALLOCATE_ANY)
            .codes_of(LEASING);
    /// Raises the fence of a lease.
    [call] RenewWorker renew_worker(layout: &str, id: u32) Put "/v1/workers/{layout}/{id}/lease",
        RenewRequest => Lease,
        Operation::change(ALLOCATE_ANY).repeat(Repeat::Harmless)
            .codes_of(LEASING);
    /// Releases a worker lease.
    [call] ReleaseWorker release_worker(layout: &str, id: u32)
        Delete "/v1/workers/{layout}/{id}/lease",
        ReleaseRequest => Released,
        Operation::change(ALLOCATE_ANY).codes_of(&[E::NotFound, E::LeaseLost]);

    /// Lists the locks that have a holder or a waiter.
    [call] ListLocks locks() Get "/v1/locks",
        LocksQuery => Page<Lock>,
        Operation::read(READ_ANY);
    /// Returns one lock with its holders and waiters. With `wait_ms`, waits until the holder
    /// changes.
    [call] GetLock lock(name: &str) Get "/v1/locks/{name}",
        LockQuery => Lock,
        Operation::read(READ_NAMED).waits();
    /// Acquires a lock. Waits for up to `wait_ms` if it is held.
    [custom] AcquireLock acquire_lock(name: &str) Post "/v1/locks/{name}/acquire",
        AcquireRequest => HeldLock,
        Operation::change(ALLOCATE_NAMED).waits()
            .codes_of(&[
                E::LockHeld,
                E::LeaseLost,
                E::PreconditionFailed,
                E::FingerprintMismatch,
            ]);
    /// Extends a hold. A renewal never shortens it.
    [call] RenewLock renew_lock(name: &str) Post "/v1/locks/{name}/renew",
        RenewLockRequest => HeldLock,
        Operation::change(ALLOCATE_NAMED).repeat(Repeat::Harmless).codes_of(LOST);
    /// Releases a lock.
    [call] ReleaseLock release_lock(name: &str) Post "/v1/locks/{name}/release",
        ReleaseLockRequest => ReleasedLock,
        Operation::change(ALLOCATE_NAMED).codes_of(LOST);
    /// Ends the holds of other clients. The next waiter is granted the lock.
    [call dry] BreakLock break_lock(name: &str) Post "/v1/locks/{name}/break",
        BreakLockRequest => BrokenLock,
        Operation::change(ADMIN_NAMED).dry_run().codes_of(FIND);
    /// Checks with a linearizable read whether a fencing token holds a lock.
    [call] VerifyLock verify_lock(name: &str) Post "/v1/locks/{name}/verify",
        VerifyLockRequest => HeldLock,
        Operation::read(READ_NAMED).codes_of(LOST);

    /// Returns the cluster as the answering node sees it, without contacting the leader.
    [plain] GetCluster cluster() Get "/v1/cluster",
        NoFields => Cluster,
        Operation::local(READ_CLUSTER);
    /// Returns the facts of every member, from which `seqd doctor` judges the cluster. The answering
    /// node requests them from the others, for at most a second.
    [plain] GetFacts facts() Get "/v1/cluster/facts",
        NoFields => Facts,
        Operation::local(READ_CLUSTER);
    /// Lists the members as the answering node sees them.
    [call] ListMembers members() Get "/v1/cluster/members",
        ListQuery => Page<Member>,
        Operation::local(READ_CLUSTER).codes_of(OWN_STATE);
    /// Adds a node as a learner.
    [call dry] AddMemberOp add_member() Post "/v1/cluster/members",
        AddMember => MemberChange,
        Operation::change(ADMIN_CLUSTER).statuses(&[201]).dry_run().codes_of(MEMBERS);
    /// Removes a member permanently.
    [plain dry] RemoveMember remove_member(name: &str) Delete "/v1/cluster/members/{name}",
        NoFields => MemberChange,
        Operation::change(ADMIN_CLUSTER).dry_run().codes_of(MEMBERS);
    /// Gives a member other addresses. The member must answer at a new peer address. At its next
    /// start the addresses of its own configuration replace them.
    [call dry] UpdateMemberOp update_member(name: &str) Patch "/v1/cluster/members/{name}",
        UpdateMember => MemberChange,
        Operation::change(ADMIN_CLUSTER).dry_run().codes_of(MEMBERS);
    /// Promotes a learner to a voter.
    [plain dry] PromoteMember promote_member(name: &str) Post "/v1/cluster/members/{name}/promote",
        NoFields => MemberChange,
        Operation::change(ADMIN_CLUSTER).dry_run().codes_of(MEMBERS);
    /// Demotes a voter to a learner. A leader transfers leadership first.
    [plain dry] DemoteMember demote_member(name: &str) Post "/v1/cluster/members/{name}/demote",
        NoFields => MemberChange,
        Operation::change(ADMIN_CLUSTER).dry_run().codes_of(MEMBERS);
    /// Drains a member: its readiness fails, it serves requests, and other voters lead.
    [plain dry] DrainMember drain_member(name: &str) Post "/v1/cluster/members/{name}/drain",
        NoFields => MemberDrain,
        Operation::change(ADMIN_CLUSTER).repeat(Repeat::Harmless).dry_run()
            .codes_of(&[E::NotFound, E::PreconditionFailed]);
    /// Ends the drain of a member.
    [plain dry] ResumeMember resume_member(name: &str) Post "/v1/cluster/members/{name}/resume",
        NoFields => MemberDrain,
        Operation::change(ADMIN_CLUSTER).repeat(Repeat::Harmless).dry_run()
            .codes_of(&[E::NotFound, E::PreconditionFailed]);
    /// Makes a node give up the workers and the last-tick mark that are ahead of its clock.
    [plain dry] ResetWorkers reset_workers(name: &str)
        Post "/v1/cluster/members/{name}/reset-workers",
        NoFields => WorkersReset,
        Operation::change(ADMIN_CLUSTER).dry_run()
            .codes_of(&[E::NotFound, E::PreconditionFailed, E::ClockSkewed]);
    /// Transfers leadership to another voter.
    [call dry] MoveLeader move_leader() Post "/v1/cluster/leader",
        LeaderMove => LeaderMoved,
        Operation::change(ADMIN_CLUSTER).dry_run().codes_of(MEMBERS);
    /// Returns the replicated state as a file.
    [custom] GetSnapshot snapshot() Get "/v1/cluster/snapshot",
        SnapshotQuery => SnapshotHead,
        Operation::read(ADMIN_CLUSTER).media(&[Media::Bytes]);

    /// Lists the access tokens, without their secret part.
    [call] ListAccess tokens() Get "/v1/access",
        ListQuery => Page<AccessToken>,
        Operation::read(ADMIN_CLUSTER);
    /// Creates an access token. Only this response contains it.
    [call dry] CreateAccessOp create_token() Post "/v1/access",
        CreateAccess => AccessCreated,
        Operation::change(ADMIN_CLUSTER).statuses(&[201]).dry_run()
            .codes_of(&[E::PreconditionFailed]);
    /// Revokes an access token.
    [plain dry] RevokeAccess revoke_token(id: &str) Delete "/v1/access/{id}",
        NoFields => AccessRevoked,
        Operation::change(ADMIN_CLUSTER).dry_run().codes_of(FIND);

    /// Returns the configuration of the answering node, with the origin of each value.
    [plain] GetConfig config() Get "/v1/config",
        NoFields => ConfigEntries,
        Operation::local(READ_CLUSTER).media(JSON_FIRST);
    /// Returns 200 while the process runs.
    [plain] GetLive live() Get "/livez",
        NoFields => Live,
        Operation::local(Need::Nothing).media(TEXT_FIRST);
    /// Returns 200 if the node can serve all requests or, with `for=ids`, if it can issue IDs.
    [plain] GetReady ready() Get "/readyz",
        ReadyQuery => Ready,
        Operation::local(Need::Nothing).media(TEXT_FIRST)
            .codes_of(UNREADY);
    /// Returns the metrics of the answering node.
    [custom] GetMetrics metrics() Get "/metrics",
        NoFields => NoFields,
        Operation::local(READ_CLUSTER).media(&[Media::Metrics, Media::OpenMetrics]);
    /// Returns the version of the answering node.
    [plain] GetVersion version() Get "/version",
        NoFields => Version,
        Operation::local(Need::AnyToken).media(JSON_FIRST);
    /// Returns the meaning of an error code and the remedy.
    [plain] GetProblem code_page(code: &str) Get "/problems/{code}",
        NoFields => CodePage,
        Operation::local(Need::AnyToken).media(JSON_FIRST).codes_of(FIND);
    /// Returns this description of the API (OpenAPI 3.1).
    [plain] GetOpenApi openapi() Get "/openapi.json",
        NoFields => JsonText,
        Operation::local(Need::Nothing).statuses(&[200, 304]);
        }
    };
}

macro_rules! rows {
    ($(
        $(#[doc = $about:literal])+
        [$($kind:ident)+] $Op:ident $id:ident($($name:ident: $type:ty),*)
            $method:ident $path:literal, $Request:ty => $Response:ty, $row:expr;
    )+) => {
        /// The operations as types.
        pub mod op {$(
            $(#[doc = $about])+
            #[derive(Debug, Clone, Copy)]
            pub struct $Op;
        )+}

        $(impl Typed for op::$Op {
            type Request = $Request;
            type Response = $Response;
            const ROW: &'static Operation = &Operation {
                id: stringify!($id),
                method: Method::$method,
                path: $path,
                about: concat!($($about),+),
                fields: <$Request as Request>::FIELDS,
                ..$row
            };
        })+

        /// All rows, in the order of the documentation.
        pub const OPERATIONS: &[&Operation] = &[$(<op::$Op as Typed>::ROW),+];
    };
}

for_each_operation!(rows);

/// Returns whether requests to this path need no token. `path` is a request path, not a template.
#[must_use]
pub fn is_public(path: &str) -> bool {
    OPERATIONS
        .iter()
        .any(|row| row.is_public() && row.path == path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn health_and_the_description_of_the_api_alone_are_public() {
        let public = OPERATIONS.iter().filter(|row| row.is_public());
        let paths: Vec<_> = public.map(|row| row.path).collect();
        assert_eq!(paths, ["/livez", "/readyz", "/openapi.json"]);
    }

    #[test]
    fn names_and_methods_of_paths_are_unique_and_each_is_documented() {
        let ids: BTreeSet<_> = OPERATIONS.iter().map(|row| row.id).collect();
        let places = OPERATIONS.iter().map(|row| (row.path, row.method));
        let places: BTreeSet<_> = places.collect();
        assert_eq!(
            (ids.len(), places.len()),
            (OPERATIONS.len(), OPERATIONS.len())
        );
        for row in OPERATIONS {
            assert!(
                row.about.trim().ends_with('.'),
                "{}: {:?}",
                row.id,
                row.about
            );
        }
    }
}
