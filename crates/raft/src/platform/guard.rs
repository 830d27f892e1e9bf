//! Guards that a simulation can take out, to show that it misses them. In what is shipped none can be.

/// What a line of this crate protects against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
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
}

#[cfg(not(test))]
#[inline]
pub(crate) const fn is_out(_: Guard) -> bool {
    false
}

#[cfg(test)]
thread_local! {
    static OUT: std::cell::Cell<Option<Guard>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(crate) fn is_out(guard: Guard) -> bool {
    OUT.get() == Some(guard)
}

/// Takes a guard out of everything on this thread, or puts it back.
#[cfg(test)]
pub(crate) fn take_out(guard: Option<Guard>) {
    OUT.set(guard);
}
