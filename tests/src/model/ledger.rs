//! The record of everything committed, granted, minted and used, kept independently of the code
//! under test, and the first rule that was broken.

use std::collections::{BTreeMap, BTreeSet};

use seqd_idgen::{SnowflakeId, Tick, WorkerId};
use seqd_state::{GrantToken, LeaseId, NodeId, State};

use super::ask::{Answer, Ask, Proposal};

/// A rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Violation {
    IdTwice,
    OutsideWindow,
    FenceFell,
    WindowsOverlap,
    DrawnTwice,
    StartIsOver,
    ValueTwice,
}

impl Violation {
    pub(super) const ALL: [Self; 7] = [
        Self::IdTwice,
        Self::OutsideWindow,
        Self::FenceFell,
        Self::WindowsOverlap,
        Self::DrawnTwice,
        Self::StartIsOver,
        Self::ValueTwice,
    ];

    /// The rule in words.
    #[must_use]
    pub const fn rule(self) -> &'static str {
        match self {
            Self::IdTwice => "no ID is minted twice",
            Self::OutsideWindow => "an ID lies in the window that was committed for its lease",
            Self::FenceFell => "a fence falls only by the release of its own lease",
            Self::WindowsOverlap => "windows of a worker are disjoint",
            Self::DrawnTwice => "a lease ID or a token is given once",
            Self::StartIsOver => "only the registered start of a node takes and extends leases",
            Self::ValueTwice => "no value of a sequence is granted twice while it is in use",
        }
    }
}

/// The window of a lease, from its outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Window {
    pub(super) worker: WorkerId,
    pub(super) from: Tick,
    pub(super) end: Tick,
}

/// The ledger. See the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub(super) struct Ledger {
    /// One bit for each ID of the layout.
    minted: u64,
    /// The windows of the latest lease of each worker, and of all leases with a holder.
    pub(super) windows: BTreeMap<LeaseId, Window>,
    /// The end of all windows of a worker that are no longer in `windows`.
    before: BTreeMap<WorkerId, Tick>,
    pub(super) latest: BTreeMap<WorkerId, LeaseId>,
    /// The highest lease ID or token.
    drawn: u64,
    /// The start of each node that may take leases: its boot number and nonce.
    pub(super) starts: BTreeMap<NodeId, (u64, u64)>,
    /// The ranges of the sequence that are in use.
    ranges: BTreeMap<GrantToken, (u64, u64)>,
    /// One bit for each value that was used.
    used: u64,
    /// The end of all ranges that were ever granted.
    pub(super) top: u64,
    /// The highest lease ID or token that was drawn before the restore.
    pub(super) restored: Option<u64>,
    pub(super) broken: Option<Violation>,
}

/// The fence of each worker, with the lease that has it.
pub(super) type Fences = BTreeMap<WorkerId, (LeaseId, Tick)>;

pub(super) fn fences(state: &State) -> Fences {
    let leases = state.leases();
    let of = |view: seqd_state::LeaseView<'_>| (view.record.lease, view.record.fence);
    leases.map(|view| (view.worker, of(view))).collect()
}

impl Ledger {
    pub(super) fn breaks(&mut self, violation: Violation) {
        self.broken.get_or_insert(violation);
    }

    /// Records the answer to an applied proposal, and its effect on the fences.
    pub(super) fn committed(
        &mut self,
        proposal: &Proposal,
        answer: Answer,
        before: &Fences,
        after: &Fences,
    ) {
        self.compare_fences(proposal, answer, before, after);
        match (proposal.ask, answer) {
            (Ask::Register, Answer::Registered) => self.registered(proposal),
            (
                Ask::Take { .. },
                Answer::Leased {
                    worker,
                    lease,
                    from,
                    fence,
                },
            ) => {
                self.compare_start(proposal);
                let window = Window {
                    worker,
                    from,
                    end: fence,
                };
                self.leased(lease, window);
            }
            (Ask::Extend { lease, .. }, Answer::Extended { fence }) => {
                self.compare_start(proposal);
                self.ends(lease, fence);
            }
            (Ask::Release { lease, .. }, Answer::Released { fence }) => self.ends(lease, fence),
            (Ask::Grant { .. }, Answer::Granted { token, first, end }) => {
                self.draws(token.0);
                let overlaps = |range: &(u64, u64)| range.0 < end && first < range.1;
                if self.ranges.values().any(overlaps) {
                    self.breaks(Violation::ValueTwice);
                }
                self.ranges.insert(token, (first, end));
                self.top = self.top.max(end);
            }
            _ => {}
        }
    }

    fn compare_fences(
        &mut self,
        proposal: &Proposal,
        answer: Answer,
        before: &Fences,
        after: &Fences,
    ) {
        for (worker, (lease, fence)) in before {
            let released = matches!(
                (proposal.ask, answer),
                (Ask::Release { lease: own, .. }, Answer::Released { .. }) if own == *lease
            );
            if after.get(worker).is_none_or(|(_, now)| now < fence) && !released {
                self.breaks(Violation::FenceFell);
            }
        }
    }

    fn draws(&mut self, number: u64) {
        if number <= self.drawn {
            self.breaks(Violation::DrawnTwice);
        }
        self.drawn = self.drawn.max(number);
    }

    /// Checks the rule of starts: only a newer start replaces the previous one.
    fn registered(&mut self, proposal: &Proposal) {
        let (boot, nonce) = (proposal.by.boot, proposal.by.nonce);
        if let Some(node) = proposal.by.node {
            let start = self.starts.entry(node).or_insert((boot, nonce));
            if boot > start.0 {
                *start = (boot, nonce);
            }
        }
    }

    fn compare_start(&mut self, proposal: &Proposal) {
        let start = (proposal.by.boot, proposal.by.nonce);
        let node = proposal.by.node;
        if node.is_some_and(|node| self.starts.get(&node) != Some(&start)) {
            self.breaks(Violation::StartIsOver);
        }
    }

    fn leased(&mut self, lease: LeaseId, window: Window) {
        self.draws(lease.0);
        let before = self.before.get(&window.worker).copied();
        if before.is_some_and(|before| window.from < before) {
            self.breaks(Violation::WindowsOverlap);
        }
        self.latest.insert(window.worker, lease);
        self.windows.insert(lease, window);
        self.compare_windows();
    }

    /// Records a new end of a lease's window. A lease that is no longer recorded has no window.
    fn ends(&mut self, lease: LeaseId, end: Tick) {
        if let Some(window) = self.windows.get_mut(&lease) {
            window.end = end;
        }
        self.compare_windows();
    }

    fn compare_windows(&mut self) {
        let mut windows: Vec<Window> = self.windows.values().copied().collect();
        windows.sort_unstable_by_key(|window| (window.worker, window.from, window.end));
        let overlaps =
            |pair: &[Window]| pair[0].worker == pair[1].worker && pair[0].end.0 > pair[1].from.0;
        if windows.windows(2).any(overlaps) {
            self.breaks(Violation::WindowsOverlap);
        }
    }

    pub(super) fn minted(&mut self, lease: LeaseId, tick: Tick, id: SnowflakeId) {
        let bit = 1 << id.get();
        if self.minted & bit != 0 {
            self.breaks(Violation::IdTwice);
        }
        self.minted |= bit;
        let window = self.windows.get(&lease);
        if window.is_none_or(|window| tick < window.from || window.end <= tick) {
            self.breaks(Violation::OutsideWindow);
        }
    }

    /// The minted IDs, as numbers.
    pub(super) fn ids(&self) -> impl Iterator<Item = SnowflakeId> + '_ {
        let is_minted = |id: &u64| self.minted & (1 << id) != 0;
        (0..64).filter(is_minted).map(SnowflakeId::from_u64)
    }

    pub(super) fn used(&mut self, value: u64) {
        if self.used & (1 << value) != 0 {
            self.breaks(Violation::ValueTwice);
        }
        self.used |= 1 << value;
    }

    /// Records that the holder of a range uses nothing from `first_unused` on.
    pub(super) fn leaves(&mut self, token: GrantToken, first_unused: u64) {
        if let Some(range) = self.ranges.get_mut(&token) {
            range.1 = range.1.min(first_unused);
        }
    }

    pub(super) fn latest_token(&self) -> Option<GrantToken> {
        self.ranges.keys().next_back().copied()
    }

    pub(super) fn restored(&mut self) {
        self.restored = Some(self.drawn);
    }

    pub(super) fn forget_all_but(&mut self, held: &BTreeSet<LeaseId>) {
        let latest = &self.latest;
        let before = &mut self.before;
        self.windows.retain(|lease, window| {
            let stays = held.contains(lease) || latest.get(&window.worker) == Some(lease);
            if !stays {
                let end = before.entry(window.worker).or_default();
                *end = (*end).max(window.end);
            }
            stays
        });
    }
}
