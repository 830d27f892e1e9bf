//! Why a command changed nothing.
//!
//! A refusal is an outcome like any other: every replica comes to the same one, with the same
//! figures in it. It carries what an answer to a person needs (limits, holders, the next value),
//! so that nobody has to read the state again, later, to explain it. Codes and HTTP statuses are
//! not known here.

use seqd_idgen::{Tick, WallMs, WorkerId};
use serde::{Deserialize, Serialize};

use crate::workers::leases::Holder;
use crate::newtypes::{GrantToken, LeaseId, NodeId, Revision, SequenceName};
use crate::sequences::{DefinitionError, SequenceDefinition, SequenceMode};
use crate::cluster::settings::FoundingError;
use crate::text::TextField;

/// Why a command changed nothing. Variants and fields are only ever appended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The cluster has not begun.
    #[error("the cluster is not founded yet")]
    NotFounded,
    /// The cluster has begun, and not as this command says.
    #[error("the cluster {cluster_id} is founded already")]
    AlreadyFounded {
        /// The cluster that there is.
        cluster_id: String,
    },
    /// The cluster cannot begin as asked.
    #[error("{0}")]
    InvalidFounding(FoundingError),
    /// An entry with more commands than allowed: none was carried out.
    #[error("an entry has {count} commands, at most {limit} are allowed")]
    TooManyCommands {
        /// How many there were.
        count: u64,
        /// How many are allowed.
        limit: u64,
    },
    /// A strict command with more requests than allowed: none was carried out.
    #[error("a command has {count} requests, at most {limit} are allowed")]
    TooManyRequests {
        /// How many there were.
        count: u64,
        /// How many are allowed.
        limit: u64,
    },
    /// A text that is empty, too long or has control characters.
    #[error(
        "the {field} has {length} bytes; 1 to {limit}, without control characters, are allowed"
    )]
    InvalidText {
        /// Which text.
        field: TextField,
        /// Its length in bytes.
        length: u64,
        /// The most bytes allowed.
        limit: u64,
    },
    /// No member ever had this ID.
    #[error("node {node} is not known")]
    UnknownNode {
        /// The ID.
        node: NodeId,
    },
    /// The member was removed; its ID is never used again.
    #[error("node {node} was removed from the cluster")]
    NodeRemoved {
        /// The former member.
        node: NodeId,
    },
    /// Another member has this name.
    #[error("the name {name} belongs to node {node}")]
    NodeNameTaken {
        /// The name.
        name: String,
        /// Who has it.
        node: NodeId,
    },
    /// Another start of this member is the registered one.
    #[error("this start of node {node} is not the registered one{}", registered_boot(.registered))]
    StaleStart {
        /// The member.
        node: NodeId,
        /// The registered start's boot number; `None` if no start was ever registered.
        registered: Option<u64>,
    },
    /// There is no such layout.
    #[error("there is no layout {layout}")]
    UnknownLayout {
        /// The name as asked.
        layout: String,
    },
    /// The layout has no such datacenter, or none at all.
    #[error(
        "layout {layout} has {datacenters} datacenters, so there is no datacenter {datacenter}"
    )]
    UnknownDatacenter {
        /// The layout.
        layout: String,
        /// The datacenter as asked.
        datacenter: u32,
        /// How many datacenters the layout has.
        datacenters: u32,
    },
    /// The leader's clock is before the layout's epoch.
    #[error(
        "the leader's clock ({} ms) is before the epoch of layout {layout} ({epoch_ms} ms)",
        .wall_ms.0
    )]
    BeforeLayoutEpoch {
        /// The layout.
        layout: String,
        /// The layout's epoch, in Unix milliseconds.
        epoch_ms: u64,
        /// The entry's wall clock.
        #[serde(with = "crate::foreign::wall_ms")]
        wall_ms: WallMs,
    },
    /// The layout's time field is full.
    #[error("the time field of layout {layout} is full since {} ms; it decodes only", .since.0)]
    LayoutExhausted {
        /// The layout.
        layout: String,
        /// When it became full.
        #[serde(with = "crate::foreign::wall_ms")]
        since: WallMs,
    },
    /// Every worker is leased, or its fence lies ahead.
    #[error("no worker of layout {layout} is free; the next may be in {retry_after_ms} ms")]
    WorkersExhausted {
        /// The layout.
        layout: String,
        /// The datacenter that was asked for.
        datacenter: Option<u32>,
        /// How long until the first worker is free, if nobody extends its lease.
        retry_after_ms: u64,
    },
    /// The asked fence is further ahead than a sound clock can ask.
    #[error(
        "fence {asked} is above the limit {limit}: the asker's clock runs ahead of the leader's"
    )]
    FenceTooFar {
        /// The fence as asked.
        #[serde(with = "crate::foreign::tick")]
        asked: Tick,
        /// The highest one allowed.
        #[serde(with = "crate::foreign::tick")]
        limit: Tick,
    },
    /// The asked fence leaves no tick to mint.
    #[error("fence {asked} leaves no tick to mint from {from_tick}: the asker's clock is behind")]
    FenceTooLow {
        /// The fence as asked.
        #[serde(with = "crate::foreign::tick")]
        asked: Tick,
        /// The first tick that the lease could have minted.
        #[serde(with = "crate::foreign::tick")]
        from_tick: Tick,
    },
    /// The lease is not the worker's latest, or it was released.
    #[error(
        "lease {lease} does not hold worker {} of layout {layout}{}",
        .worker.0,
        held_by(.holder)
    )]
    LeaseLost {
        /// The layout.
        layout: String,
        /// The worker.
        #[serde(with = "crate::foreign::worker_id")]
        worker: WorkerId,
        /// The lease as asked.
        lease: LeaseId,
        /// Who holds the worker, if anyone does.
        holder: Option<Box<Holder>>,
    },
    /// The last tick of a release lies outside the lease's window.
    #[error("last tick {last_tick} is outside the lease's window from {from_tick} to {fence}")]
    ReleaseOutsideWindow {
        /// The last tick as said.
        #[serde(with = "crate::foreign::tick")]
        last_tick: Tick,
        /// The window's first tick.
        #[serde(with = "crate::foreign::tick")]
        from_tick: Tick,
        /// The first tick after the window.
        #[serde(with = "crate::foreign::tick")]
        fence: Tick,
    },
    /// There is no such sequence.
    #[error("there is no sequence {name}")]
    SequenceNotFound {
        /// The name.
        name: SequenceName,
    },
    /// A sequence of this name has another definition.
    #[error("the sequence {name} exists with another definition")]
    SequenceExists {
        /// The name.
        name: SequenceName,
        /// The revision of the definition that it has.
        revision: Revision,
    },
    /// A deleted sequence of this name had another definition, and its mark is kept for it.
    #[error("the sequence {name} was deleted; it can come back only with the definition it had")]
    DefinitionDiffers {
        /// The name.
        name: SequenceName,
        /// The definition that it had.
        kept: Box<SequenceDefinition>,
    },
    /// The definition is not a sound one.
    #[error("{0}")]
    InvalidDefinition(DefinitionError),
    /// The definition has another revision than the caller knows.
    #[error("the sequence {name} has revision {actual}, not {expected}")]
    RevisionMismatch {
        /// The name.
        name: SequenceName,
        /// The revision that the caller knows.
        expected: Revision,
        /// The one that it has.
        actual: Revision,
    },
    /// The sequence is served in the other way.
    #[error("the sequence {name} is a {mode} sequence")]
    WrongMode {
        /// The name.
        name: SequenceName,
        /// The mode that it has.
        mode: SequenceMode,
    },
    /// Not enough values are left. Nothing was given.
    #[error("the sequence {name} has {remaining} values left, {asked} were asked for")]
    SequenceExhausted {
        /// The name.
        name: SequenceName,
        /// How many were asked for.
        asked: u64,
        /// How many are left.
        remaining: u64,
    },
    /// A count of 0, or above the limit.
    #[error("{count} values were asked for; 1 to {limit} are allowed")]
    CountOutOfRange {
        /// How many were asked for.
        count: u64,
        /// How many are allowed.
        limit: u64,
    },
    /// The sequence is past the asked value.
    #[error("the sequence {name} is past {to}{}", next_value(.next))]
    WouldGoBackwards {
        /// The name.
        name: SequenceName,
        /// The value as asked.
        to: i64,
        /// The next value that would be granted; `None` if the last one was.
        next: Option<i64>,
    },
    /// The sequence begins again at its end, so forward has no meaning.
    #[error("the sequence {name} cycles, so it cannot be advanced")]
    CannotAdvanceCycling {
        /// The name.
        name: SequenceName,
    },
    /// The sequence has no value at or beyond the asked one.
    #[error("the sequence {name} has no value at or beyond {to} within {min} to {max}")]
    AdvanceOutOfRange {
        /// The name.
        name: SequenceName,
        /// The value as asked.
        to: i64,
        /// The sequence's least value.
        min: i64,
        /// The sequence's greatest value.
        max: i64,
    },
    /// The token is not the sequence's latest, or the mark moved since.
    #[error("grant {token} of the sequence {name} is not its latest, or the sequence moved since")]
    GrantSuperseded {
        /// The name.
        name: SequenceName,
        /// The token as said.
        token: GrantToken,
    },
    /// The returned tail does not begin inside the run.
    #[error("index {first_unused} is outside the run from {run_start} to {next}")]
    TailOutsideRun {
        /// The first unused index as said.
        first_unused: u64,
        /// The run's first index.
        run_start: u64,
        /// The first index after the run.
        next: u64,
    },
    /// The cluster was restored, and no leader has said yet when it began.
    #[error(
        "this cluster was restored and its leader has not said yet when it began: it waits until \
         its clock is past the backup's ({} ms) and agrees with the other voters'",
        .backup_wall_ms.0
    )]
    RestorationNotStamped {
        /// The wall clock of the backup's last entry.
        #[serde(with = "crate::foreign::wall_ms")]
        backup_wall_ms: WallMs,
    },
    /// The cluster was restored, and windows begin only past all that were granted before.
    #[error(
        "this cluster was restored: windows of layout {layout} begin in {retry_after_ms} ms, past \
         all that were granted before"
    )]
    WindowsBeginLater {
        /// The layout.
        layout: String,
        /// When the first window begins.
        #[serde(with = "crate::foreign::wall_ms")]
        until: WallMs,
        /// How long that is from the entry's wall clock.
        retry_after_ms: u64,
    },
    /// A time that a restored cluster cannot have begun at.
    #[error("the restored cluster cannot begin at {} ms: it is {} to {} ms", .wall_ms.0, .from.0, .to.0)]
    StampOutOfRange {
        /// The time as said.
        #[serde(with = "crate::foreign::wall_ms")]
        wall_ms: WallMs,
        /// The earliest one.
        #[serde(with = "crate::foreign::wall_ms")]
        from: WallMs,
        /// The latest one.
        #[serde(with = "crate::foreign::wall_ms")]
        to: WallMs,
    },
    /// The cluster was founded, not restored.
    #[error("this cluster was not restored")]
    NotRestored,
}

fn registered_boot(registered: &Option<u64>) -> String {
    match registered {
        Some(boot) => format!(", boot {boot} is"),
        None => ": none is registered".to_owned(),
    }
}

fn held_by(holder: &Option<Box<Holder>>) -> String {
    match holder {
        Some(holder) => format!("; lease {} of {} does", holder.lease, holder.owner),
        None => "; it was released or never taken".to_owned(),
    }
}

fn next_value(next: &Option<i64>) -> String {
    match next {
        Some(next) => format!(": the next value is {next}"),
        None => ": its last value was granted".to_owned(),
    }
}
