//! The list of guards: the only place that names them, each with the rule that it enforces.

macro_rules! guards {
    ($($(#[doc = $holds:literal])+ $name:ident,)*) => {
        /// A line that an invariant depends on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Guard {
            $($(#[doc = $holds])+ $name,)*
        }

        impl Guard {
            /// All guards.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name in the variable and in the documentation.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The rule that the guard enforces.
            #[must_use]
            pub const fn holds(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($holds),+),)*
                }
            }
        }
    };
}

impl Guard {
    /// Returns the guard with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|guard| guard.name() == name)
    }
}

guards! {
    // Consensus.

    /// A vote is synced before it is sent.
    VoteSynced,
    /// Entries are on the disk before they are acknowledged.
    EntriesSynced,
    /// The log is purged no further than the older kept snapshot.
    PurgeClamp,
    /// A node holds a pre-vote before it raises the term.
    PreVote,
    /// A quorum confirms the leader before a read is answered.
    ReadConfirmed,
    /// A read shares a confirmation of the leader only if that began after the read.
    ReadJoinsLaterRound,
    /// A commit index is noted before another node can receive it.
    CommitNoted,
    /// An entry is proposed under the leadership that stamped it.
    SameLeadership,
    /// A command that may have been proposed is not proposed again.
    UnknownStaysUnknown,
    /// The outcome of a proposed group is awaited until its deadline.
    GroupDeadline,
    /// A stopping leader answers groups in progress before it hands over.
    DrainedAtStop,
    /// A snapshot is also due by the bytes of the log.
    SnapshotByBytes,
    /// While the log has outgrown the snapshots, no command of a client is proposed.
    LogKeptShort,
    /// A snapshot does not fill the disk.
    SnapshotLeavesRoom,
    /// A checkpoint store that has grown out of proportion is rebuilt.
    StoreRebuilt,
    /// While a disk has only its reserve left, no client's command that needs room is proposed.
    DiskReserveKept,
    /// Below the floor of free bytes, a follower takes no entries.
    DiskFloorKept,
    /// The log after a snapshot that is being sent is kept for its receiver.
    ReceiverKept,
    /// A transfer continues only after bytes of the same snapshot.
    KeptCompared,
    /// A message is accepted only by its target node.
    EnvelopeTarget,
    /// A message is accepted only within its cluster.
    EnvelopeCluster,
    /// A message is accepted only from the latest start of its sender.
    EnvelopeStart,
    /// A response is accepted only from the called node.
    AnswerSender,
    /// A start of another cluster is rejected.
    ForeignRefused,
    /// Of two clusters that were made from one, the later one stops.
    SiblingStopped,
    /// A start with less than the node has acknowledged is excluded.
    AcknowledgedKept,
    /// Of two starts with one number, only the first one seen takes part.
    TwinRefused,

    // Worker leases.

    /// A window of a worker begins only after the previous fence has passed, and not below it.
    WindowAboveFence,
    /// A worker whose lease is live is not granted.
    LiveLeaseKept,
    /// Clients leave the last workers of a layout to the nodes.
    WorkersKeptForNodes,
    /// A delayed extend does not lower the fence.
    ExtendRaises,
    /// Only the worker's latest lease is extended or released.
    LeaseCompared,
    /// A release names a tick of the window.
    ReleaseInWindow,
    /// No fence lies further ahead of the clock than the window and twice the skew.
    FenceReach,
    /// The applied time of the cluster never falls.
    ClusterTimeRises,
    /// An older start of a node, or a twin, is not registered.
    StartCompared,
    /// Only the registered start takes and extends a lease.
    LeaseByLatestStart,
    /// A reset gives up only windows that are further ahead of the clock than a window can be.
    ResetAhead,

    /// A layout never changes.
    LayoutKept,

    // Sequences.

    /// Only the latest grant's token returns a tail.
    TokenCompared,
    /// An advance voids earlier grants.
    AdvanceEndsRun,
    /// A grant ends with its pass.
    PassNotCrossed,
    /// A recreated sequence continues at its mark.
    MarkOutlivesDeletion,

    // Idempotency keys and one-time tokens.

    /// One caller at a time gets the claim on a key.
    KeyFirstOnce,
    /// The claim on a key is decided when its begin is applied, not by the state that a node has
    /// read.
    KeyDecidedByApply,
    /// A retry of the claimant of a key gets the same claim.
    KeyRetryRecognised,
    /// The result of a key never changes.
    KeyResultKept,
    /// A claim that takes over a key has the next attempt number.
    KeyAttemptRises,
    /// A key ends by the cluster's time, independent of the wall clock.
    KeyEndsByClusterTime,
    /// A one-time token is consumed once.
    OneTimeUsedOnce,
    // Locks.

    /// No lock is granted while it is held.
    NotGrantedWhileHeld,
    /// A new request for a lock queues after the waiters.
    FirstComesFirst,
    /// Every grant of a lock draws a new token.
    GrantDrawsToken,
    /// A hold ends by the time of the cluster, and not by a wall clock.
    HoldsEndByClusterTime,
    /// Only the token of a hold renews and releases it.
    HoldTokenCompared,
    /// A departed client does not end a claim for which another of its requests waits.
    OthersKeepClaim,

    // The cluster.

    /// The level rises only under the membership that was queried.
    LevelUnderMembership,
    /// The level rises only once every member supports the next one.
    MembersAsked,
    /// No worker is leased before the windows of a restored cluster begin.
    RestorationDelaysWindows,
    /// The tokens of a restored cluster are above all tokens that may have been drawn.
    RestorationRaisesTokens,
    /// A learner is promoted only if it responds.
    LearnerAnswers,
    /// A membership change is proposed only if majorities respond.
    MajorityAnswers,
    /// A member's new peer address is accepted only if the member responds there.
    AddressAnswers,
    /// A membership change applies only to the membership that was read.
    MembershipAsSeen,
    /// An empty node is refused as a member only once a leader confirms that it is one.
    MembersConfirmed,

    /// A folder whose log ends before its checkpoint is not recovered.
    RemainsCompared,
    /// A snapshot is restored into an empty folder.
    RestoredIntoEmpty,

    // The peers' port.

    /// Bytes from strangers are held in a separate account.
    StrangersApart,
    /// No more bytes are read from a stranger than its account may hold.
    StrangersBounded,

    // The clients' port.

    /// The secret of a token is compared, not only its ID.
    SecretCompared,
    /// A token is refused from its end on.
    TokenEnds,
    /// The cluster's tokens count only on a node that is in contact with the cluster.
    TokensCurrent,
    /// A node that was cut off applies every earlier revocation before it takes tokens again.
    RevocationsCaughtUp,
    /// A token permits its scopes only for its prefixes.
    ScopesAsked,
    /// No more requests than a token's rate are served.
    RateHeld,
    /// A hold, a claim, a key or a one-time token lasts for as long as was promised, although
    /// cluster milliseconds are rounded down.
    EndsRoundedUp,
    /// A read computes the remaining time of a hold with the leader's clock and not with the
    /// applied entries.
    ReadStamped,
    /// A claim that waited is not granted the lock if its caller's token was revoked or expired.
    GrantNeedsAccess,
    /// If the owner of a hold is a secret, it is shown as a hash.
    SecretOwnerHidden,
    /// The secret of a hold counts only for the access token that made the hold.
    SecretsApart,
    /// A repeated exit from a lock ends the entry that the first one ended.
    ExitRecorded,
    /// A hold has ended only once an entry has ended it.
    HoldEndedByEntry,
    /// A hold that its owner can find by a later request is not withdrawn.
    UnansweredKept,
    /// A request ends when its caller's token is revoked or expires.
    ServedWhileAccess,
    /// A request whose token is revoked or expires before its body has arrived is not served.
    AccessRechecked,
    /// No tenant holds more than its share of the waiting requests.
    SharesHeld,
    /// The proposals of tenants take turns, one per tenant.
    TurnsTaken,
    /// A connection is charged to the token that it presents.
    ConnectionsCharged,
    /// A request that waits for other requests takes no place from them.
    WaitsEvicted,
    /// Connections in the reserved places serve only operators.
    ReserveKept,
    /// A host header is accepted only if all of it is a host and a port.
    HostParsed,
    /// A request whose end does not follow from its length alone is passed to the HTTP library.
    HotFramingPlain,
    /// The HTTP library gets the bytes that the hot path has read.
    ReadBytesHandedOver,
    /// The hot path gets the bytes that the HTTP library has read and not served.
    ReadBytesTakenBack,
    /// Requests that cost much processor time take turns for few places.
    CostlyInTurn,
    /// No TLS session is resumed where certificates are required.
    NoResumption,
    /// A grant or lease from a client carries the cluster's authentication code.
    GrantSealed,
    /// A grant that was made with an idempotency key returns no values to the sequence.
    GrantOfKeyKept,
    /// A tenant takes no more than its share of a bounded resource.
    ShareOfTenant,
    /// A refusal that a client causes itself is delayed.
    RefusalsHeldBack,
    /// While the checkpoint is far behind, a tenant that caused much of its backlog makes no more
    /// records.
    CheckpointKeepsPace,
    /// The requests of a tenant that wait for locks at a node do not exceed its share.
    WaitsHaveShares,
    /// Leases of one tenant that are requested at once do not exceed its share of the workers.
    ShareOfWorkers,
    /// A machine number with a recent guard is not taken over.
    RecentNumberKept,
    /// A response with an `Idempotency-Key` is stored only if its tenant has room for it.
    AnswersHaveRoom,
    /// On a late node, a client's requests beyond the width of its lane wait.
    LanesHeld,

    // Ordered values and timestamps.

    /// Large draws of timestamps leave a part of the lead to small ones.
    SmallDrawsHaveLead,
    /// Windows belong to one term.
    WindowsOfOneTerm,
    /// No value is drawn from a window that the log has voided.
    VoidWindowUnused,
    /// A quorum confirms the leader after the request arrived and before a value is drawn.
    DrawConfirmed,
    /// A leadership is confirmed by a majority of the voters.
    MajorityConfirms,
    /// A vote is registered as a promise before it is stored and sent.
    PromiseRegistered,
    /// A follower's draws carry the promise that it gave after they arrived.
    PromiseOfSender,
    /// A leader that has voted for another candidate does not confirm itself.
    OwnPromiseKept,
    /// The voters of an appended membership confirm, also while it is not applied.
    VotersInForce,
    /// The voters of an appended membership are in force only in the term of its leader.
    VotersOfTerm,

    // Minting and segments on a node.

    /// Nothing is minted below the first tick of the window.
    MintFromFirst,
    /// Nothing is minted at or above the fence.
    MintBelowFence,
    /// No tick is used again when the clock goes back.
    TicksRise,
    /// The last tick of a closed generator is the last tick that it used.
    LastTickKept,
    /// A generator is closed by the swap that reads its last tick.
    ClosedBySwap,
    /// A fence is used only after it is committed.
    FenceCommitted,
    /// A clock that is before the mark of the last start mints nothing.
    MarkPassed,
    /// A node whose clock differs from a majority mints nothing.
    WrongClockRefused,
    /// A node takes no lease before its clock is compared.
    LeaseWhenKnown,
    /// A leader whose clock is wrong stamps entries with the time of the majority.
    StampOfMajority,
    /// A leader whose clock is wrong transfers leadership.
    WrongLeaderHandsOver,
    /// A leader whose clock is not known to be right grants no window.
    GrantWhenKnown,
    /// A late or repeated grant is discarded.
    GrantsRise,
    /// A grant of an earlier epoch is discarded.
    EpochCompared,
    /// A closed buffer keeps no grant.
    ClosedKeepsNothing,
    /// One refill is in flight.
    OneRefill,

    // The log and the checkpoints.

    /// A batch is synced before it is answered.
    BatchSynced,
    /// A new segment is synced before it has its name.
    SegmentSynced,
    /// The folder is synced after a segment gets its name.
    NameSynced,
    /// The checksum of a batch is compared.
    BatchChecksum,
    /// The checksum of a segment's header is compared.
    HeaderChecksum,
    /// A bad batch before an intact one is corruption.
    LaterBatchSearched,
    /// The bytes after a torn tail are zeroed.
    TailZeroed,
    /// The content that an open reports is synced first.
    OpenSyncs,
    /// A new segment begins with the vote.
    OpeningHoldsVote,
    /// A checkpoint is synced after sled's flush.
    CheckpointSynced,
    /// A store with less than its witness records is refused.
    WitnessCompared,
    /// A scan of sled evicts the pages that it has read.
    ScanEvicts,
}
