//! Places for requests that cost much: few are served at once, and clients take turns.
//!
//! Ten thousand IDs take as long as hundreds of single ones. Without turns a client with hundreds of
//! connections that ask for so many would have all processors for itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seqd_guards::is_out;
use seqd_raft::RoundRobin;
use seqd_state::Tenant;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::http::Serving;

/// Places for which tenants take turns.
#[derive(Debug)]
pub(crate) struct Turns {
    places: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// Each with the places that it needs.
    waiting: RoundRobin<(usize, oneshot::Sender<Turn>)>,
}

/// Places of a request, until it is dropped; then the next tenant's request has them.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    places: usize,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let passed = {
            let mut state = self.turns.state();
            state.free += self.places;
            self.turns.pass(&mut state)
        };
        hand_out(passed);
    }
}

type Passed = Vec<(oneshot::Sender<Turn>, Turn)>;

/// Called once no lock is held: the turn of a request that is gone is dropped, and takes the lock.
fn hand_out(passed: Passed) {
    for (waiting, turn) in passed {
        let _ = waiting.send(turn);
    }
}

impl Turns {
    /// With so many places.
    pub(crate) fn new(places: usize) -> Arc<Self> {
        let waiting = RoundRobin::default();
        let state = State {
            free: places,
            waiting,
        };
        Arc::new(Self {
            places,
            state: Mutex::new(state),
        })
    }

    /// With one place for each processor.
    pub(crate) fn of_processors() -> Arc<Self> {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Waits for so many places, or all; `None` if the deadline comes first. The request is paused
    /// meanwhile. As many wait as there are connections.
    pub(crate) async fn take(
        self: &Arc<Self>,
        tenant: Tenant,
        places: usize,
        deadline: Instant,
    ) -> Option<Turn> {
        let mut comes = self.enter(tenant, places);
        if let Ok(turn) = comes.try_recv() {
            return Some(turn);
        }
        let _pause = Serving::pause();
        timeout_at(deadline, comes).await.ok()?.ok()
    }

    fn enter(self: &Arc<Self>, tenant: Tenant, places: usize) -> oneshot::Receiver<Turn> {
        let (waiting, comes) = oneshot::channel();
        let passed = {
            let mut state = self.state();
            let needed = places.min(self.places);
            state.waiting.push(tenant, (needed, waiting));
            self.pass(&mut state)
        };
        hand_out(passed);
        comes
    }

    /// Gives what is free to the requests that are next.
    fn pass(self: &Arc<Self>, state: &mut State) -> Passed {
        let mut passed = Passed::new();
        while let Some((needed, waiting)) = state.waiting.peek() {
            let (places, is_gone) = (*needed, waiting.is_closed());
            if !is_gone && places > state.free && !is_out!(CostlyInTurn) {
                break;
            }
            let next = state.waiting.pop();
            if let Some((_, waiting)) = next.filter(|_| !is_gone) {
                state.free = state.free.saturating_sub(places);
                let turns = Arc::clone(self);
                passed.push((waiting, Turn { turns, places }));
            }
        }
        passed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let turns = Turns::new(1);
        let first = turns.enter(tenant(1), 1).try_recv().unwrap();
        let mut many: Vec<_> = (0..10).map(|_| turns.enter(tenant(1), 1)).collect();
        let mut other = turns.enter(tenant(2), 1);
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
        // Those that have given up are passed over.
        many.drain(..9);
        drop(third);
        let last = many[0].try_recv().unwrap();
        drop(last);
        assert!(turns.enter(tenant(2), 1).try_recv().is_ok());
    }

    #[test]
    fn a_turn_that_comes_to_a_request_that_is_gone_is_free_again() {
        let turns = Turns::new(1);
        let first = turns.enter(tenant(1), 1).try_recv().unwrap();
        let waits = turns.enter(tenant(1), 1);
        drop(first);
        assert!(turns.enter(tenant(1), 1).try_recv().is_err());
        drop(waits);
        assert!(turns.enter(tenant(1), 1).try_recv().is_ok());
    }

    #[test]
    fn a_request_for_many_places_waits_for_all_of_them_and_none_overtakes_it() {
        let turns = Turns::new(10);
        let mut first = turns.enter(tenant(1), 6);
        let mut large = turns.enter(tenant(2), 1000);
        let mut small = turns.enter(tenant(3), 1);
        let first = first.try_recv().unwrap();
        assert!(large.try_recv().is_err() && small.try_recv().is_err());
        drop(first);
        let large = large.try_recv().unwrap();
        assert!(small.try_recv().is_err());
        drop(large);
        assert!(small.try_recv().is_ok());
        assert_eq!(turns.state().free, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_a_turn_ends_at_its_deadline() {
        let turns = Turns::new(1);
        let soon = Instant::now() + std::time::Duration::from_secs(1);
        let first = turns.take(tenant(1), 1, soon).await.unwrap();
        assert!(turns.take(tenant(2), 1, soon).await.is_none());
        drop(first);
        assert!(turns.take(tenant(2), 1, soon).await.is_some());
    }
}
