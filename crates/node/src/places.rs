//! Limits the number of expensive requests that are served at once, and serves tenants in turn.
//!
//! Ten thousand IDs take as long as hundreds of single ones. Without turns, a client that sends
//! such requests over hundreds of connections would occupy all processors.

use std::sync::Arc;

use seqd_guards::is_out;
use seqd_net::Lock;
use seqd_raft::RoundRobin;
use seqd_state::Tenant;
use tokio::sync::oneshot;

use crate::admission::Serving;

/// The least number of waiting requests that are searched for cancelled ones.
const MANY: usize = 64;

/// Places that tenants receive in turn.
#[derive(Debug)]
pub(crate) struct Places {
    units: usize,
    state: Lock<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// The waiting requests, each with the number of places that it needs.
    waiting: RoundRobin<(usize, oneshot::Sender<Place>)>,
    /// The number of waiting requests after cancelled ones were last removed.
    uncancelled: usize,
}

impl State {
    /// Removes cancelled requests whenever the queue has doubled, because clients can cancel
    /// requests faster than places become free.
    fn remove_cancelled(&mut self) {
        if self.waiting.length() >= MANY.max(2 * self.uncancelled) {
            self.waiting.retain(|(_, waiting)| !waiting.is_closed());
            self.uncancelled = self.waiting.length();
        }
    }
}

/// The places that a request occupies. When it is dropped, they pass to the request of the next
/// tenant.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    units: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        let passed = {
            let mut state = self.places.state.lock();
            state.free += self.units;
            self.places.pass(&mut state)
        };
        hand_out(passed);
    }
}

type Passed = Vec<(oneshot::Sender<Place>, Place)>;

/// Sends the places to their requests. The caller must not hold the lock: the place of a cancelled
/// request is dropped here, which takes the lock.
fn hand_out(passed: Passed) {
    for (waiting, place) in passed {
        let _ = waiting.send(place);
    }
}

impl Places {
    /// Creates `units` places.
    pub(crate) fn new(units: usize) -> Arc<Self> {
        let waiting = RoundRobin::default();
        let state = State {
            free: units,
            waiting,
            uncancelled: 0,
        };
        Arc::new(Self {
            units,
            state: Lock::new(state),
        })
    }

    /// Creates one place for each processor.
    pub(crate) fn of_processors() -> Arc<Self> {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Waits for `units` places, or for all places if there are fewer. Never returns `None`, since
    /// every waiting request receives its places. A waiting request is marked as paused. At most
    /// twice as many requests are queued as connections wait.
    pub(crate) async fn take(self: &Arc<Self>, tenant: Tenant, units: usize) -> Option<Place> {
        let mut comes = self.enter(tenant, units);
        if let Ok(place) = comes.try_recv() {
            return Some(place);
        }
        let _pause = Serving::pause();
        comes.await.ok()
    }

    fn enter(self: &Arc<Self>, tenant: Tenant, units: usize) -> oneshot::Receiver<Place> {
        let (waiting, comes) = oneshot::channel();
        let passed = {
            let mut state = self.state.lock();
            let needed = units.min(self.units);
            state.waiting.push(tenant, (needed, waiting));
            state.remove_cancelled();
            self.pass(&mut state)
        };
        hand_out(passed);
        comes
    }

    /// Assigns free places to the next requests.
    fn pass(self: &Arc<Self>, state: &mut State) -> Passed {
        let mut passed = Passed::new();
        while let Some((needed, waiting)) = state.waiting.peek() {
            let (units, is_gone) = (*needed, waiting.is_closed());
            if !is_gone && units > state.free && !is_out!(CostlyInTurn) {
                break;
            }
            let next = state.waiting.pop();
            if let Some((_, waiting)) = next.filter(|_| !is_gone) {
                state.free = state.free.saturating_sub(units);
                let places = Arc::clone(self);
                passed.push((waiting, Place { places, units }));
            }
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use seqd_state::AccessId;

    use super::*;

    fn tenant(id: u64) -> Tenant {
        Tenant::of_token(AccessId(id))
    }

    #[test]
    fn a_tenant_with_many_costly_requests_is_before_another_by_one() {
        let places = Places::new(1);
        let first = places.enter(tenant(1), 1).try_recv().unwrap();
        let mut many: Vec<_> = (0..10).map(|_| places.enter(tenant(1), 1)).collect();
        let mut other = places.enter(tenant(2), 1);
        let served = many.iter_mut().flat_map(|comes| comes.try_recv());
        assert_eq!(
            served.count(),
            0,
            "more costly requests are served than there are places"
        );
        drop(first);
        let second = many[0].try_recv().unwrap();
        assert!(other.try_recv().is_err());
        drop(second);
        let third = other
            .try_recv()
            .expect("another tenant waits for all of the first");
        // Cancelled requests are skipped.
        many.drain(..9);
        drop(third);
        let last = many[0].try_recv().unwrap();
        drop(last);
        assert!(places.enter(tenant(2), 1).try_recv().is_ok());
    }

    #[test]
    fn a_place_that_comes_to_a_request_that_is_gone_is_free_again() {
        let places = Places::new(1);
        let first = places.enter(tenant(1), 1).try_recv().unwrap();
        let waits = places.enter(tenant(1), 1);
        drop(first);
        assert!(places.enter(tenant(1), 1).try_recv().is_err());
        drop(waits);
        assert!(places.enter(tenant(1), 1).try_recv().is_ok());
    }

    #[test]
    fn cancelled_requests_do_not_stay_in_the_queue() {
        let places = Places::new(1);
        let first = places.enter(tenant(1), 1).try_recv().unwrap();
        let mut waits = places.enter(tenant(1), 1);
        for _ in 0..10 * MANY {
            drop(places.enter(tenant(1), 1));
        }
        assert!(places.state.lock().waiting.length() <= MANY);
        drop(first);
        assert!(waits.try_recv().is_ok());
    }

    #[test]
    fn a_request_for_many_places_waits_for_all_of_them_and_none_overtakes_it() {
        let places = Places::new(10);
        let mut first = places.enter(tenant(1), 6);
        let mut large = places.enter(tenant(2), 1000);
        let mut small = places.enter(tenant(3), 1);
        let first = first.try_recv().unwrap();
        assert!(large.try_recv().is_err() && small.try_recv().is_err());
        drop(first);
        let large = large.try_recv().unwrap();
        assert!(small.try_recv().is_err());
        drop(large);
        assert!(small.try_recv().is_ok());
        assert_eq!(places.state.lock().free, 10);
    }
}
