//! The turns in which the nodes take their snapshots.
//!
//! All nodes apply the same entries. If each counted the entries since its latest snapshot, all
//! would write a snapshot at the same time, and no quorum would have an idle disk meanwhile.

/// The place of a node among the members, in the order of their IDs.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub(super) place: u64,
    pub(super) members: u64,
}

impl Turn {
    pub(super) fn of(node: u64, members: impl Iterator<Item = u64>) -> Turn {
        members.fold(
            Turn {
                place: 0,
                members: 0,
            },
            |turn, member| Turn {
                place: turn.place + u64::from(member < node),
                members: turn.members + 1,
            },
        )
    }

    /// Returns whether a snapshot is due: once in `every` entries, the turns of all nodes within
    /// half of them. At most twice as many snapshots are taken as without turns, which also
    /// restores the distances of nodes that have taken or received one at the same entry.
    pub(super) fn is_due(self, applied: u64, snapshot: u64, every: u64) -> bool {
        let every = every.max(1);
        let others = self.members.saturating_sub(1).max(1);
        let shift = every.saturating_mul(self.place) / (2 * others);
        let round = |index: u64| index.saturating_add(shift) / every;
        round(applied) > round(snapshot) && applied.saturating_sub(snapshot) >= every / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: u64 = 20_000;

    /// The entries of a node's snapshots from `snapshot` on.
    fn taken(turn: Turn, mut snapshot: u64, last: u64) -> Vec<u64> {
        let mut taken = Vec::new();
        for applied in snapshot + 1..=last {
            if turn.is_due(applied, snapshot, EVERY) || applied - snapshot >= EVERY {
                snapshot = applied;
                taken.push(applied);
            }
        }
        taken
    }

    #[test]
    fn nodes_with_the_same_latest_snapshot_take_the_next_ones_at_different_entries() {
        let members = [3, 8, 11, 20, 21];
        for count in 1..=members.len() {
            for latest in [0, 100_000, 107_311, 119_999] {
                let members = &members[..count];
                let of = |node: &u64| Turn::of(*node, members.iter().copied());
                let each = |node| taken(of(node), latest, latest + 6 * EVERY);
                let all: Vec<Vec<u64>> = members.iter().map(each).collect();
                for one in &all {
                    let distances: Vec<u64> = one.windows(2).map(|two| two[1] - two[0]).collect();
                    let is_usual = |distance: &u64| (EVERY / 2..=EVERY).contains(distance);
                    assert!(distances.iter().all(is_usual), "{latest}: {one:?}");
                    assert!(one.len() <= 7, "{latest}: {one:?}");
                }
                let mut late: Vec<u64> = all.iter().filter_map(|one| one.last()).copied().collect();
                late.sort_unstable();
                let least = EVERY / 2 / (count as u64 - 1).max(1);
                let is_apart = |two: &[u64]| two[1] - two[0] >= least;
                assert!(late.windows(2).all(is_apart), "{latest}: {late:?}");
            }
        }
    }
}
