//! Requests that cost much processor time: few are served at once, and clients take turns.
//!
//! Ten thousand IDs take as long as hundreds of single ones. Without turns a client with hundreds of
//! connections that ask for so many would have all processors for itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use seqd_api::{ErrorCode, Problem};
use seqd_guards::is_out;
use seqd_raft::RoundRobin;
use seqd_state::Tenant;
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use crate::http::{Request, Response, Serving};
use crate::services::Services;

/// Requests that are served at once for each processor: while one waits for a tick of the clock, others
/// are written.
const FOR_EACH_PROCESSOR: usize = 2;

/// The places of costly requests.
#[derive(Debug)]
pub(super) struct Places(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    waiting: RoundRobin<oneshot::Sender<Place>>,
}

/// A place, until it is dropped; then the next tenant's request has it.
#[derive(Debug)]
struct Place(Option<Arc<Places>>);

impl Places {
    pub(super) fn for_this_machine() -> Arc<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self::new(processors * FOR_EACH_PROCESSOR)
    }

    fn new(free: usize) -> Arc<Self> {
        let waiting = RoundRobin::default();
        Arc::new(Self(Mutex::new(State { free, waiting })))
    }

    /// Returns a place, or where to wait for one. As many wait as there are connections.
    fn enter(self: &Arc<Self>, tenant: Tenant) -> Result<Place, oneshot::Receiver<Place>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.free > 0 || is_out!(CostlyInTurn) {
            state.free = state.free.saturating_sub(1);
            return Ok(Place(Some(Arc::clone(self))));
        }
        let (place, comes) = oneshot::channel();
        state.waiting.push(tenant, place);
        Err(comes)
    }

    fn leave(self: Arc<Self>) {
        loop {
            let next = {
                let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                match state.waiting.pop() {
                    Some(next) => next,
                    None => {
                        state.free += 1;
                        return;
                    }
                }
            };
            match next.send(Place(Some(Arc::clone(&self)))) {
                Ok(()) => return,
                // It has given up: the place is for the one after it.
                Err(mut place) => drop(place.0.take()),
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(places) = self.0.take() {
            places.leave();
        }
    }
}

type Handling = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// A handler whose requests take turns for these places.
pub(super) fn in_turn<H, F>(
    places: &Arc<Places>,
    handler: H,
) -> impl Fn(Arc<Services>, Request) -> Handling + Clone + Send + Sync + 'static
where
    H: Fn(Arc<Services>, Request) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response, Problem>> + Send + 'static,
{
    let places = Arc::clone(places);
    move |node, request| {
        let (places, handler) = (Arc::clone(&places), handler.clone());
        Box::pin(async move {
            let _place = match places.enter(request.tenant) {
                Ok(place) => place,
                Err(comes) => {
                    let _pause = Serving::pause();
                    let came = timeout_at(request.deadline, comes).await;
                    came.ok().and_then(Result::ok).ok_or_else(no_turn)?
                }
            };
            handler(node, request).await
        })
    }
}

fn no_turn() -> Problem {
    let detail = "as many requests for many IDs as this node serves at once are before this one";
    Problem::new(ErrorCode::Overloaded, detail).with_hint("ask for fewer at once, or another node")
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
        let first = places.enter(tenant(1)).unwrap();
        let mut many: Vec<_> = (0..10)
            .filter_map(|_| places.enter(tenant(1)).err())
            .collect();
        assert_eq!(
            many.len(),
            10,
            "more costly requests are served than there are places"
        );
        let mut other = places.enter(tenant(2)).unwrap_err();
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
        assert!(places.enter(tenant(2)).is_ok());
    }

    #[test]
    fn a_place_that_comes_to_one_that_is_gone_is_free_again() {
        let places = Places::new(1);
        let first = places.enter(tenant(1)).unwrap();
        let waits = places.enter(tenant(1)).unwrap_err();
        drop(first);
        assert!(places.enter(tenant(1)).is_err());
        drop(waits);
        assert!(places.enter(tenant(1)).is_ok());
    }
}
