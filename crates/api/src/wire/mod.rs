//! The bodies of requests and answers, by family.

mod cluster;
mod health;
mod ids;
mod layouts;
mod page;
mod segments;
mod sequences;
mod snapshot;
mod workers;

pub use cluster::{
    AddMember, Cluster, LayoutLife, LeaderMove, LeaderMoved, Member, MemberChange, MemberState,
    NoFields, Quorum, Role,
};
pub use health::{Check, CodePage, ConfigEntries, ConfigEntry, Live, Ready, ReadyQuery, Version};
pub use ids::{
    DEFAULT_MAX_COUNT, Holder, Id, IdBody, IdParts, IdPartsQuery, IdQuery, IdValue, Ids, Uuid,
    UuidQuery, Uuids,
};
pub use layouts::Layout;
pub use page::{ListQuery, Page};
pub use segments::{Grant, GrantRequest, ReturnRequest, Returned};
pub use sequences::{
    AdvanceRequest, Advanced, DeleteSequenceQuery, Deleted, GetSequenceQuery, Mode, Next,
    NextRequest, Range, Segment, SegmentSpec, Sequence, SequenceSpec,
};
pub use snapshot::{
    CLUSTER_HEADER, DIGEST_HEADER, INDEX_HEADER, ROWS_HEADER, SNAPSHOT_CONTENT_TYPE, SnapshotHead,
    SnapshotQuery, TERM_HEADER,
};
pub use workers::{Worker, WorkersQuery};
