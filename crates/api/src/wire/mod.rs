//! The bodies of requests and responses, by family.

/// Defines request types. Every field may be omitted, and unknown fields are rejected. `as` names
/// the form in [`crate::number_text`] that deserializes and describes the field.
macro_rules! requests {
    ($($(#[$about:meta])* $name:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty $(as $form:tt)?,)*
    })+) => {$(
        $(#[$about])*
        #[derive(
            Debug, Clone, PartialEq, Eq, Default,
            serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        #[serde(deny_unknown_fields)]
        pub struct $name {$(
            $(#[$doc])*
            #[serde(default, $(with = $form,)? skip_serializing_if = "Option::is_none")]
            pub $field: Option<$type>,
        )*}

        impl crate::request::Request for $name {
            const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];
        }
    )+};
}

mod access;
mod cluster;
mod facts;
mod health;
mod ids;
mod keys;
mod layouts;
mod locks;
mod one_time;
mod page;
mod plan;
mod segments;
mod sequences;
mod snapshot;
mod timestamps;
mod workers;

pub use access::{AccessCreated, AccessRevoked, AccessToken, CreateAccess};
pub use cluster::{
    AddMember, ClockAgreement, Cluster, LayoutLife, LeaderMove, LeaderMoved, Member, MemberChange,
    MemberDrain, MemberState, NoFields, Quorum, ResetLayout, Role, UpdateMember, VoterChange,
    WorkersReset,
};
pub use facts::{
    CertificateFacts, DescriptorFacts, DiskFacts, Facts, LatencyFacts, LinkFacts, MissingFacts,
    NodeFacts, ResourceUse, SequenceLeft, WindowFacts,
};
pub use health::{Check, CodePage, ConfigEntries, ConfigEntry, Live, Ready, ReadyQuery, Version};
pub use ids::{
    DEFAULT_MAX_COUNT, Holder, Id, IdBody, IdParts, IdPartsQuery, IdQuery, IdValue, Ids, Uuid,
    UuidQuery, Uuids,
};
pub use keys::{
    AbandonKey, BeginKey, CompleteKey, GetKeyQuery, IDEMPOTENCY_KEY_HEADER, Key, KeyBegun,
    KeyDeleted, KeyEnded, KeyState, KeysQuery, ListedKey, REPLAYED_HEADER,
};
pub use layouts::{CreateLayout, EncodeRequest, Encoded, Layout, LayoutQuery, Spread};
pub use locks::{
    AcquireRequest, BreakLockRequest, BrokenHold, BrokenLock, HeldLock, Lock, LockHolder,
    LockQuery, LockWaiter, LocksQuery, ReleaseLockRequest, ReleasedLock, RenewLockRequest,
    VerifyLockRequest,
};
pub use one_time::{
    ConsumeToken, IssueTokens, ListedToken, TokenConsumed, TokenDeleted, TokensIssued, TokensQuery,
};
pub use page::{DeletedPage, ListQuery, Page};
pub use plan::Plan;
pub use segments::{Grant, GrantRequest, ReturnRequest, Returned};
pub use sequences::{
    AdvanceRequest, Advanced, Deleted, GetSequenceQuery, Mode, Next, NextRequest, Range, Segment,
    SegmentSpec, Sequence, SequenceSpec, SequencesQuery,
};
pub use snapshot::{
    CLUSTER_HEADER, DIGEST_HEADER, INDEX_HEADER, ROWS_HEADER, SNAPSHOT_CONTENT_TYPE, SnapshotHead,
    SnapshotQuery, TERM_HEADER,
};
pub use timestamps::{Timestamps, TimestampsRequest};
pub use workers::{
    Lease, LeaseRequest, ReleaseRequest, Released, RenewRequest, Worker, WorkersQuery,
};
