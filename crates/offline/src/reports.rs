//! The reports of the tools: plain values that are serialized to JSON unchanged.

use std::io;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use seqd_store::disk_errors::is_newer;
use seqd_store::records::{LogIdRecord, StoredMembershipRecord, VoteRecord};

/// The content of a data folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FolderReport {
    pub path: PathBuf,
    /// The reason why the folder was not locked during the inspection. Null if it was locked.
    pub unlocked: Option<String>,
    /// The first line of `format`.
    pub format: Option<String>,
    pub identity: Option<IdentityReport>,
    pub boot: Option<u64>,
    /// The reason why the folder must never be started again, if any.
    pub refused: Option<RefusedReport>,
    pub log: LogReport,
    /// The snapshots, newest first, by their headers and footers.
    pub snapshots: Vec<SnapshotSummary>,
    pub checkpoint: Option<CheckpointReport>,
    /// The last entry of the log, the snapshots and the checkpoint: of the highest term and, in that
    /// term, of the highest index. Of several folders of one cluster, the one with the highest value
    /// has every acknowledged entry that the others have.
    pub last_entry: Option<EntryId>,
    /// The last tick that the node minted, in Unix milliseconds.
    pub last_minted_ms: Option<u64>,
    /// The node's records of the positions that its peers had synced.
    pub peers: Vec<PeerReport>,
    /// The folders and files that a start set aside as unusable.
    pub set_aside: Vec<String>,
    /// The remains of interrupted writes. The next start removes them.
    pub leftovers: Vec<String>,
    pub sizes: Sizes,
    /// The unreadable content. Empty for an intact folder. The further checks of `data verify` are
    /// not included.
    pub problems: Vec<Problem>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file or folder, relative to the data folder.
    pub file: String,
    pub detail: String,
    /// `true` if a newer seqd wrote the file, so that nothing is damaged.
    #[serde(skip)]
    pub is_newer: bool,
}

impl Problem {
    pub fn new(file: impl Into<String>, detail: impl ToString) -> Self {
        Self {
            file: file.into(),
            detail: detail.to_string(),
            is_newer: false,
        }
    }

    /// A problem for an error of this file.
    pub fn of_io(file: impl Into<String>, error: &io::Error) -> Self {
        Self {
            is_newer: is_newer(error),
            ..Self::new(file, error)
        }
    }
}

/// Returns the code for unreadable content.
#[must_use]
pub const fn unreadable_code(is_newer: bool) -> &'static str {
    if is_newer { "newer-format" } else { "corrupt" }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdentityReport {
    pub cluster_id: String,
    #[serde(serialize_with = "text")]
    pub node: u64,
    pub name: String,
    /// `true` if the node was added to an existing cluster.
    pub joined: bool,
    /// `true` if the node chose the ID of the cluster and had not founded the cluster yet.
    pub founding: bool,
    /// The members that founded the cluster, or the members of the cluster that it joined: IDs and
    /// names.
    pub members: Vec<String>,
    /// The clusters from which this one was restored.
    pub ancestors: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedReport {
    /// The word after `code=` on the last line of the node.
    pub code: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogReport {
    pub segments: Vec<SegmentSummary>,
    pub first: Option<EntryId>,
    pub last: Option<EntryId>,
    pub vote: Option<VoteReport>,
    /// The last entry known to be committed when this mark was last written. Later entries may be
    /// committed too.
    pub committed: Option<EntryId>,
    pub purged: Option<EntryId>,
    /// The remains of an interrupted write, which was never acknowledged. The next start removes
    /// them.
    pub torn: Option<Torn>,
    /// The damage for which a start would reject the log.
    pub damage: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct EntryId {
    pub index: u64,
    /// The term of the leader that wrote the entry.
    pub term: u64,
}

impl From<LogIdRecord> for EntryId {
    fn from(LogIdRecord { term, index }: LogIdRecord) -> Self {
        Self { index, term }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct VoteReport {
    pub term: u64,
    /// The ID of the node that received the vote.
    #[serde(serialize_with = "text")]
    pub node: u64,
    /// `true` if that node is known to have won the election.
    pub committed: bool,
}

impl From<VoteRecord> for VoteReport {
    fn from(vote: VoteRecord) -> Self {
        Self {
            term: vote.term,
            node: vote.node,
            committed: vote.committed,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentSummary {
    pub file: String,
    pub bytes: u64,
    pub used: u64,
    pub batches: u64,
    /// The first live entry in the segment.
    pub first: Option<u64>,
    pub last: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Torn {
    pub file: String,
    /// The offset of the end of the log.
    pub offset: u64,
    /// The length of the remains after it.
    pub bytes: u64,
}

/// A kept snapshot, by its header and footer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnapshotSummary {
    pub file: String,
    /// The index of the last entry in the snapshot.
    pub index: u64,
    pub term: u64,
    pub rows: u64,
    pub bytes: u64,
    pub digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckpointReport {
    pub folder: String,
    pub applied: Option<EntryId>,
    pub rows: u64,
    /// The digest of the checkpoint's rows, verified against the recorded one.
    pub digest: String,
    pub members: Vec<MemberReport>,
}

/// A member according to the membership.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberReport {
    #[serde(serialize_with = "text")]
    pub id: u64,
    pub name: String,
    pub peer: String,
    pub http: String,
    pub voter: bool,
}

/// A node's record about a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeerReport {
    #[serde(serialize_with = "text")]
    pub id: u64,
    pub boot: u64,
    /// The peer's known synced position, in words.
    pub synced: String,
}

/// The disk usage of a folder in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sizes {
    pub log: u64,
    pub snapshots: u64,
    pub checkpoint: u64,
    /// Files that were set aside, and the small files.
    pub other: u64,
    pub total: u64,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckResult {
    Ok,
    /// Not damaged, but worth noting: the next start handles the finding.
    Note,
    /// The checked object is damaged, or does not match the other files.
    Bad,
}

impl CheckResult {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Bad => "bad",
        }
    }
}

/// A check of one file, or of the consistency of several files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub verdict: CheckResult,
    /// The file, relative to the data folder, or the compared objects.
    pub what: String,
    pub detail: String,
    /// `true` if the check failed because this program is too old to read the file.
    #[serde(skip)]
    pub is_newer: bool,
}

impl Check {
    /// A passed check.
    pub fn ok(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::of(CheckResult::Ok, what, detail)
    }

    pub fn note(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::of(CheckResult::Note, what, detail)
    }

    pub fn bad(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::of(CheckResult::Bad, what, detail)
    }

    pub fn problem(problem: &Problem) -> Self {
        Self {
            is_newer: problem.is_newer,
            ..Self::bad(&problem.file, &problem.detail)
        }
    }

    fn of(verdict: CheckResult, what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            verdict,
            what: what.into(),
            detail: detail.into(),
            is_newer: false,
        }
    }
}

/// Returns the members of a membership by ID.
pub(super) fn members(stored: &StoredMembershipRecord) -> Vec<MemberReport> {
    let voters = stored.membership.voters();
    let nodes = stored.membership.nodes.iter();
    let members = nodes.map(|(id, member)| MemberReport {
        id: *id,
        name: member.name.clone(),
        peer: member.peer.clone(),
        http: member.http.clone(),
        voter: voters.contains(id),
    });
    members.collect()
}

/// Serializes a number that may exceed 2^53 as a string.
fn text<S: Serializer>(number: &u64, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(number)
}
