//! The bodies of requests and answers, by family.

mod cluster;
mod health;
mod ids;
mod page;
mod sequences;
mod snapshot;
mod workers;

pub use cluster::{
    AddMember, Cluster, LayoutLife, LeaderMove, LeaderMoved, Member, MemberChange, MemberState,
    NoFields, Quorum, Role,
};
pub use health::{Check, Ready, Version};
pub use ids::{
    DEFAULT_MAX_COUNT, Holder, Id, IdParts, IdPartsQuery, IdQuery, Ids, Uuid, UuidQuery, Uuids,
};
pub use page::{ListQuery, Page};
pub use sequences::{
    AdvanceRequest, Advanced, DeleteSequenceQuery, Deleted, GetSequenceQuery, Mode, Next,
    NextRequest, Range, Segment, SegmentSpec, Sequence, SequenceSpec,
};
pub use snapshot::{
    CLUSTER_HEADER, DIGEST_HEADER, INDEX_HEADER, ROWS_HEADER, SNAPSHOT_CONTENT_TYPE, SnapshotHead,
    SnapshotQuery, TERM_HEADER,
};
pub use workers::{Worker, WorkersQuery};
