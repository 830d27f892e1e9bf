//! An ID is minted by the node that held its worker, inside the window of its lease.
//!
//! The leases are observed by continuous polling of the workers. The leases of a worker are ordered
//! by their first ticks, so an ID belongs to the last lease that begins at or below its tick.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::{Ids, Op};

/// The number of bits below the tick in the layout `default`, and the number of bits below the
/// worker.
const TICK_SHIFT: u32 = 22;
const WORKER_SHIFT: u32 = 12;

/// An observed state of a lease on a worker of the layout `default`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    pub lease: u64,
    pub worker: u64,
    /// The index of the node that holds it, from zero.
    pub node: usize,
    pub from_tick: u64,
    pub fence_tick: u64,
}

/// Checks IDs against all observed leases. Returns the number of checked responses.
pub fn ids(history: &[Op<Ids>], seen: &[Lease]) -> Result<usize, Violation> {
    let workers = by_worker(seen)?;
    let mut checked = 0;
    for op in history {
        let Some(ids) = op.answer() else { continue };
        for id in ids.runs.iter().flat_map(|run| [run.first, run.last]) {
            let id = id.cast_unsigned();
            let (tick, worker) = (id >> TICK_SHIFT, id >> WORKER_SHIFT & 0x3ff);
            let violation = |why: String| {
                let node = op.node;
                let detail = format!("ID {id} of node {node}, tick {tick}, worker {worker}: {why}");
                Err(Violation::new("IDs inside their leases", detail))
            };
            if worker != ids.worker {
                return violation(format!("the answer names worker {}", ids.worker));
            }
            let leases = workers.get(&worker).map_or(&[][..], Vec::as_slice);
            let before = leases.partition_point(|lease| lease.from_tick <= tick);
            match before.checked_sub(1).map(|last| leases[last]) {
                None => return violation("no lease was seen".to_owned()),
                Some(lease) if lease.node != op.node || lease.fence_tick <= tick => {
                    return violation(format!("{lease:?}"));
                }
                Some(_) => {}
            }
        }
        checked += 1;
    }
    Ok(checked)
}

/// The leases of each worker, sorted by their first ticks, each with the highest observed fence.
fn by_worker(seen: &[Lease]) -> Result<BTreeMap<u64, Vec<Lease>>, Violation> {
    let mut leases: BTreeMap<u64, Lease> = BTreeMap::new();
    for one in seen {
        let known = leases.entry(one.lease).or_insert(*one);
        let same = |lease: &Lease| (lease.worker, lease.node, lease.from_tick);
        if same(known) != same(one) {
            let detail = format!("{known:?} became {one:?}");
            return Err(Violation::new("one holder for each lease", detail));
        }
        known.fence_tick = known.fence_tick.max(one.fence_tick);
    }
    let mut workers: BTreeMap<u64, Vec<Lease>> = BTreeMap::new();
    for lease in leases.into_values() {
        workers.entry(lease.worker).or_default().push(lease);
    }
    for leases in workers.values_mut() {
        leases.sort_by_key(|lease| lease.from_tick);
        let twice = leases
            .windows(2)
            .find(|pair| pair[0].from_tick == pair[1].from_tick);
        if let Some(pair) = twice {
            let detail = format!("{pair:?}");
            return Err(Violation::new("windows are disjoint", detail));
        }
    }
    Ok(workers)
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    fn lease(lease: u64, worker: u64, node: usize, from_tick: u64, fence_tick: u64) -> Lease {
        Lease {
            lease,
            worker,
            node,
            from_tick,
            fence_tick,
        }
    }

    /// A response of node 0 with one ID.
    fn minted(worker: u64, tick: i64) -> Op<Ids> {
        let id = (tick << TICK_SHIFT) | (5 << WORKER_SHIFT);
        planted::ids(worker, 0, 1, &[(id, id)])
    }

    #[test]
    fn an_id_belongs_to_the_lease_that_covers_its_tick() {
        let early = lease(1, 5, 0, 100, 150);
        let late = lease(1, 5, 0, 100, 200);
        let other = lease(2, 5, 1, 300, 400);
        let seen = [early, late, other];
        assert_eq!(ids(&[minted(5, 180)], &seen), Ok(1));
        let bad = [
            ("beyond the fence", minted(5, 200), "IDs inside"),
            ("before the lease", minted(5, 99), "IDs inside"),
            ("of another node's lease", minted(5, 300), "IDs inside"),
            (
                "of another worker than it names",
                minted(6, 180),
                "IDs inside",
            ),
        ];
        for (what, op, invariant) in bad {
            let violation = ids(&[op], &seen).expect_err(what);
            assert!(
                violation.invariant.starts_with(invariant),
                "{what}: {violation}"
            );
        }
    }

    #[test]
    fn leases_that_change_their_holder_or_begin_twice_are_found() {
        let one = lease(1, 5, 0, 100, 150);
        for other in [lease(1, 5, 1, 100, 150), lease(2, 5, 1, 100, 150)] {
            assert!(ids(&[], &[one, other]).is_err(), "{other:?}");
        }
    }
}
