//! The list of guards: the one place where they are named, each with what it holds.

macro_rules! guards {
    ($($(#[doc = $holds:literal])+ $name:ident,)*) => {
        /// A line that an invariant rests on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Guard {
            $($(#[doc = $holds])+ $name,)*
        }

        impl Guard {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// As the variable and the documents name it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// What holds while it is there.
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
    /// The guard of this name.
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
    /// A message is for the node that takes it.
    EnvelopeTarget,
    /// A message is of the cluster of the node that takes it.
    EnvelopeCluster,
    /// A message is of the latest start of its sender.
    EnvelopeStart,
    /// An answer is of the node that was asked.
    AnswerSender,
    /// A start that shows less than the node has acknowledged does not take part.
    AcknowledgedKept,
    /// Of two starts of one number only the first that was seen takes part.
    TwinRefused,

    // Worker leases.

    /// A worker is granted only once the fence before is passed, and from there on.
    WindowAboveFence,
    /// A worker whose lease is live is not granted.
    LiveLeaseKept,
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
}
