//! What the tools report: plain values that are serialized to JSON as they are.

use std::io;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use seqd_store::faults::is_newer;
use seqd_store::records::{LogIdRecord, StoredMembershipRecord, VoteRecord};

/// A data folder as it lies there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FolderReport {
    pub path: PathBuf,
    /// Why the folder was not locked while it was looked at; none if it was.
    pub unlocked: Option<String>,
    /// The first line of `format`.
    pub format: Option<String>,
    pub identity: Option<IdentityReport>,
    pub boot: Option<u64>,
    /// Why the folder must never be started again, if so.
    pub refused: Option<RefusedReport>,
    pub log: LogReport,
    /// The snapshots, newest first, by their headers and footers.
    pub snapshots: Vec<SnapshotSummary>,
    pub checkpoint: Option<CheckpointReport>,
    /// How far the node had minted, in Unix milliseconds.
    pub last_minted_ms: Option<u64>,
    /// What the node knew of what its peers had synced.
    pub peers: Vec<PeerReport>,
    /// Folders and files that a start set aside as not usable.
    pub set_aside: Vec<String>,
    /// What an interrupted write left; the next start removes it.
    pub leftovers: Vec<String>,
    pub sizes: Sizes,
    /// What could not be read. Empty for a sound folder; what `data verify` checks beyond is not
    /// looked at.
    pub problems: Vec<Problem>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file or folder, below the data folder.
    pub file: String,
    pub detail: String,
    /// A newer seqd wrote it, and nothing is damaged.
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

    /// What an error is, met at this file.
    pub fn of_io(file: impl Into<String>, error: &io::Error) -> Self {
        Self {
            is_newer: is_newer(error),
            ..Self::new(file, error)
        }
    }
}

/// The code of what cannot be read.
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
    /// Whether it was added to a cluster that existed.
    pub joined: bool,
    /// Whether it decided on the cluster's ID and had not founded it yet.
    pub founding: bool,
    /// The members that founded the cluster, or that it joined: IDs and names.
    pub members: Vec<String>,
    /// Clusters that this one was restored from.
    pub ancestors: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedReport {
    /// The word after `code=` of the node's last line.
    pub code: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogReport {
    pub segments: Vec<SegmentSummary>,
    pub first: Option<EntryId>,
    pub last: Option<EntryId>,
    pub vote: Option<VoteReport>,
    /// The last entry that was known to be committed when that was last written; it may be older
    /// than what was.
    pub committed: Option<EntryId>,
    pub purged: Option<EntryId>,
    /// The remains of an interrupted write: never acknowledged, cut off by the next start.
    pub torn: Option<Torn>,
    /// Where a start would refuse the log.
    pub damage: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct EntryId {
    pub index: u64,
    /// The term of the leader that wrote it.
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
    /// The ID of the node that was voted for.
    #[serde(serialize_with = "text")]
    pub node: u64,
    /// Whether that node is known to have won.
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
    /// The first entry in it that is still of use.
    pub first: Option<u64>,
    pub last: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Torn {
    pub file: String,
    /// Where the log ends.
    pub offset: u64,
    /// How far the remains reach beyond that.
    pub bytes: u64,
}

/// A kept snapshot, by its header and footer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnapshotSummary {
    pub file: String,
    /// Index of the last entry that is in it.
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
    /// The digest of its rows, compared with what it recorded.
    pub digest: String,
    pub members: Vec<MemberReport>,
}

/// A member by the membership.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberReport {
    #[serde(serialize_with = "text")]
    pub id: u64,
    pub name: String,
    pub peer: String,
    pub http: String,
    pub voter: bool,
}

/// What a node knew of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeerReport {
    #[serde(serialize_with = "text")]
    pub id: u64,
    pub boot: u64,
    /// What it is known to have on its disk, in words.
    pub synced: String,
}

/// Bytes that a folder takes on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sizes {
    pub log: u64,
    pub snapshots: u64,
    pub checkpoint: u64,
    /// What was set aside, and the small files.
    pub other: u64,
    pub total: u64,
}

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    /// It is worth knowing and nothing is wrong: the next start deals with it.
    Note,
    /// It is damaged, or does not fit the rest.
    Bad,
}

impl Verdict {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Bad => "bad",
        }
    }
}

/// One file, or one thing that several files must agree on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub verdict: Verdict,
    /// The file, below the data folder, or what was compared.
    pub what: String,
    pub detail: String,
    /// It is bad as this program is too old for it.
    #[serde(skip)]
    pub is_newer: bool,
}

impl Check {
    /// It is as it should be.
    pub fn ok(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::of(Verdict::Ok, what, detail)
    }

    pub fn note(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::of(Verdict::Note, what, detail)
    }

    pub fn bad(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::of(Verdict::Bad, what, detail)
    }

    pub fn problem(problem: &Problem) -> Self {
        Self {
            is_newer: problem.is_newer,
            ..Self::bad(&problem.file, &problem.detail)
        }
    }

    fn of(verdict: Verdict, what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            verdict,
            what: what.into(),
            detail: detail.into(),
            is_newer: false,
        }
    }
}

/// The members of a membership, by ID.
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

/// A number that may pass 2^53.
fn text<S: Serializer>(number: &u64, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(number)
}
