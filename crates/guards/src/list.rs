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

    /// A vote is on the disk before it is given.
    VoteSynced,
    /// Entries are on the disk before they are acknowledged.
    EntriesSynced,
    /// The log is purged no further than the older kept snapshot.
    PurgeClamp,
    /// A node asks before it raises the term.
    PreVote,
    /// A quorum confirms the leader before a read is answered.
    ReadConfirmed,
    /// An entry is proposed under the leadership that stamped it.
    SameLeadership,
    /// What may have been proposed is not proposed again.
    UnknownStaysUnknown,
    /// A group on its way is waited for until its deadline.
    GroupDeadline,
    /// A leader that stops answers what is under way before it hands over.
    DrainedAtStop,
    /// A snapshot is taken by the bytes of the log, too.
    SnapshotByBytes,
    /// While the log has outgrown the snapshots, no command of a client is proposed.
    LogKeptShort,
    /// A snapshot is not what fills the disk.
    SnapshotLeavesRoom,
    /// A checkpoint store that has grown out of proportion is rebuilt.
    StoreRebuilt,
    /// While only the reserve of a disk is left, no command of a client is proposed that needs room.
    DiskReserveKept,
    /// Below the floor of free bytes a follower takes no entries.
    DiskFloorKept,
    /// The log behind a snapshot that is being sent is kept for its receiver.
    ReceiverKept,
    /// A transfer goes on only behind bytes of the same snapshot.
    KeptCompared,
    /// A message is for the node that takes it.
    EnvelopeTarget,
    /// A message is of the cluster of the node that takes it.
    EnvelopeCluster,
    /// A message is of the latest start of its sender.
    EnvelopeStart,
    /// An answer is of the node that was asked.
    AnswerSender,
    /// A start of another cluster is not met.
    ForeignRefused,
    /// A start that shows less than the node has acknowledged does not take part.
    AcknowledgedKept,
    /// Of two starts of one number only the first that was seen takes part.
    TwinRefused,

    // Worker leases.

    /// A worker is granted only once the fence before is passed, and from there on.
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
    /// A lease is taken and extended by the registered start alone.
    LeaseByLatestStart,
    /// A reset gives up only what lies further ahead of the clock than a window reaches.
    ResetAhead,

    /// A layout never changes.
    LayoutKept,

    // Sequences.

    /// Only the latest grant's token gives a tail back.
    TokenCompared,
    /// An advance voids what was granted before it.
    AdvanceEndsRun,
    /// A grant ends with its pass.
    PassNotCrossed,
    /// A deleted sequence comes back at its mark.
    MarkOutlivesDeletion,

    // Idempotency keys and one-time tokens.

    /// One caller is told to go on with a key.
    KeyFirstOnce,
    /// Who goes on with a key is decided where its begin is applied, not by what a node has seen.
    KeyDecidedByApply,
    /// The caller that has the claim of a key is told so again.
    KeyRetryRecognised,
    /// The result of a key never changes.
    KeyResultKept,
    /// A claim that takes over has the next attempt number.
    KeyAttemptRises,
    /// A key ends by the cluster's time, whatever the wall clock does.
    KeyEndsByClusterTime,
    /// A one-time token is consumed once.
    OneTimeUsedOnce,
    // Locks.

    /// No lock is granted while it is held.
    NotGrantedWhileHeld,
    /// Who comes to a lock waits behind those that wait.
    FirstComesFirst,
    /// Every grant of a lock draws a new token.
    GrantDrawsToken,
    /// A hold ends by the time of the cluster, and by no clock.
    HoldsEndByClusterTime,
    /// Only the token of a hold renews and releases it.
    HoldTokenCompared,
    /// A client that is gone does not end a claim that another of its requests stands behind.
    OthersKeepClaim,

    // The cluster.

    /// The level rises only under the membership that was asked.
    LevelUnderMembership,
    /// The level rises only once every member supports the next one.
    MembersAsked,
    /// No worker is leased before the windows of a restored cluster begin.
    RestorationDelaysWindows,
    /// The tokens of a restored cluster lie above all that may have been drawn.
    RestorationRaisesTokens,
    /// A learner is promoted only if it answers now.
    LearnerAnswers,
    /// A change of members is proposed only if majorities answer now.
    MajorityAnswers,
    /// A member's new peer address is taken only if the member answers there.
    AddressAnswers,
    /// A change of members is made on top of the membership that was seen.
    MembershipAsSeen,
    /// An empty node is refused as a member only once a leader confirms that it is one.
    MembersConfirmed,

    /// A folder whose log ends before its checkpoint is not recovered.
    RemainsCompared,
    /// A snapshot is restored into an empty folder.
    RestoredIntoEmpty,

    // The peers' port.

    /// What strangers send is held in an account of their own.
    StrangersApart,
    /// No more is read of a stranger than may be held of it.
    StrangersBounded,

    // The clients' port.

    /// The secret of a token is compared, not only its ID.
    SecretCompared,
    /// A token is refused from its end on.
    TokenEnds,
    /// The cluster's tokens count only on a node that is in touch with it.
    TokensCurrent,
    /// A token permits its scopes for its prefixes alone.
    ScopesAsked,
    /// No more requests than a token's rate are served.
    RateHeld,
    /// A hold, a claim, a key or a one-time token lasts for as long as was promised, although
    /// cluster milliseconds are rounded down.
    EndsRoundedUp,
    /// The time that is left of a hold, as a read answers it, is by the leader's clock and not by
    /// the applied entries.
    ReadStamped,
    /// A claim that waited is not granted the lock if its caller's token was revoked or expired.
    GrantNeedsAccess,
    /// A request ends when its caller's token is revoked or expires.
    ServedWhileAccess,
    /// No tenant holds more than its share of what may wait.
    SharesHeld,
    /// A tenant's proposals wait for one of each other tenant at a time.
    TurnsTaken,
    /// A connection is charged to the token that it shows.
    ConnectionsCharged,
    /// A request that waits for others keeps no place from them.
    WaitsEvicted,
    /// Connections in the reserved places serve operators alone.
    ReserveKept,
    /// A host is taken only if all of it is a host and a port.
    HostParsed,
    /// A request whose end does not follow from its length alone is left to the HTTP library.
    HotFramingPlain,
    /// The HTTP library gets the bytes that the hot path has read.
    ReadBytesHandedOver,
    /// The hot path gets the bytes that the HTTP library has read and not served.
    ReadBytesTakenBack,
    /// Requests that cost much processor time take turns for few places.
    CostlyInTurn,
    /// No TLS session is resumed where certificates are required.
    NoResumption,
    /// A grant or lease that a client names has the cluster's own code.
    GrantSealed,
    /// A tenant takes no more than its share of a bounded resource.
    ShareOfTenant,
    /// A refusal for what a client does itself is held back.
    RefusalsHeldBack,
    /// A tenant that made much of what waits for the checkpoint makes no more while that is far behind.
    CheckpointKeepsPace,
    /// A tenant waits for locks at a node in no more requests than its share.
    WaitsHaveShares,
    /// An answer with an `Idempotency-Key` is kept only where its tenant has room for it.
    AnswersHaveRoom,
    /// On a late node a client's requests beyond the width of its lane wait.
    LanesHeld,

    // Ordered values and timestamps.

    /// Windows belong to one term.
    WindowsOfOneTerm,
    /// A window that the log has voided is not drawn from.
    VoidWindowUnused,
    /// A quorum confirms the leader after the request arrived and before a value is drawn.
    DrawConfirmed,

    // Minting and segments on a node.

    /// Nothing is minted below the first tick of the window.
    MintFromFirst,
    /// Nothing is minted at or above the fence.
    MintBelowFence,
    /// No tick is used again when the clock goes back.
    TicksRise,
    /// The last tick of a closed generator is the last one that it used.
    LastTickKept,
    /// A generator is closed by the swap that reads its last tick.
    ClosedBySwap,
    /// A fence is used once it is committed.
    FenceCommitted,
    /// A clock that stands before the mark of the last start mints nothing.
    MarkPassed,
    /// A node whose clock a majority disagrees with mints nothing.
    WrongClockRefused,
    /// A node takes no lease before it is known whether its clock is right.
    LeaseWhenKnown,
    /// A leader whose clock is wrong stamps entries with the time of the majority.
    StampOfMajority,
    /// A leader whose clock is wrong hands over.
    WrongLeaderHandsOver,
    /// A leader that does not know whether its clock is right grants no window.
    GrantWhenKnown,
    /// A grant that is late or repeated is thrown away.
    GrantsRise,
    /// A grant of an epoch that is over is thrown away.
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
    /// The folder is synced once a segment has its name.
    NameSynced,
    /// The checksum of a batch is compared.
    BatchChecksum,
    /// The checksum of a segment's header is compared.
    HeaderChecksum,
    /// A bad batch before an intact one is corruption.
    LaterBatchSearched,
    /// Behind a torn tail all is zeroed.
    TailZeroed,
    /// What an open reports is synced before.
    OpenSyncs,
    /// A new segment begins with the vote.
    OpeningHoldsVote,
    /// A checkpoint is synced behind sled's flush.
    CheckpointSynced,
    /// A store that holds less than was noted beside it is refused.
    WitnessCompared,
}
