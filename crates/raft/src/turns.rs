//! Requests that wait at this node until an entry ends their wait. Only that entry wakes them.
//!
//! A wait is registered before the command that begins it is proposed, so that its end is not
//! missed. The result is in the applied state. A snapshot that replaces the state wakes all
//! requests, because it does not show which waits have ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use seqd_net::Lock;
use seqd_state::Wait;
use tokio::sync::Notify;

/// The waits of a node.
#[derive(Debug, Default)]
pub struct Turns(Lock<Waits>);

#[derive(Debug, Default)]
struct Waits {
    /// Several requests may have the same wait.
    by_key: BTreeMap<Wait, Vec<(u64, Arc<Notify>)>>,
    registered: u64,
}

/// One wait, registered until it is dropped.
#[derive(Debug)]
pub struct Turn {
    turns: Arc<Turns>,
    wait: Wait,
    number: u64,
    came: Arc<Notify>,
}

impl Turns {
    #[must_use]
    pub fn register(self: &Arc<Self>, wait: Wait) -> Turn {
        let came = Arc::new(Notify::new());
        let mut waits = self.0.lock();
        waits.registered += 1;
        let number = waits.registered;
        let of_key = waits.by_key.entry(wait.clone()).or_default();
        of_key.push((number, Arc::clone(&came)));
        drop(waits);
        Turn {
            turns: Arc::clone(self),
            wait,
            number,
            came,
        }
    }

    /// Wakes the requests whose wait an entry ended.
    pub fn wake(&self, ended: &[Wait]) {
        if ended.is_empty() {
            return;
        }
        let waits = self.0.lock();
        for (_, came) in ended
            .iter()
            .filter_map(|wait| waits.by_key.get(wait))
            .flatten()
        {
            came.notify_one();
        }
    }

    /// Wakes all requests, because the state was replaced.
    pub fn wake_all(&self) {
        for (_, came) in self.0.lock().by_key.values().flatten() {
            came.notify_one();
        }
    }

    /// The number of requests that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.lock().by_key.values().map(Vec::len).sum()
    }
}

impl Turn {
    /// Returns once the wait has ended, even if it ended before the call. A further call waits for
    /// the next wake-up.
    pub async fn came(&self) {
        self.came.notified().await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut waits = self.turns.0.lock();
        if let Some(of_key) = waits.by_key.get_mut(&self.wait) {
            of_key.retain(|(number, _)| *number != self.number);
            if of_key.is_empty() {
                waits.by_key.remove(&self.wait);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use seqd_state::Nonce;

    use super::*;

    fn claim(nonce: u128) -> Wait {
        Wait::Lock {
            name: "jobs".parse().unwrap(),
            nonce: Nonce(nonce),
        }
    }

    fn came(turn: &Turn) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(turn.came()).poll(&mut context).is_ready()
    }

    #[test]
    fn a_turn_wakes_the_requests_of_its_claim_and_no_others() {
        let turns = Arc::new(Turns::default());
        let [one, twin, other] = [1, 1, 2].map(|nonce| turns.register(claim(nonce)));
        turns.wake(&[claim(1), claim(3)]);
        assert!(came(&one) && came(&twin) && !came(&other));
        assert!(!came(&one), "a turn wakes once");
        turns.wake_all();
        assert!(came(&one) && came(&other));
        drop(one);
        assert_eq!(turns.waiting(), 2);
        turns.wake(&[claim(1)]);
        assert!(came(&twin));
        drop((twin, other));
        assert_eq!(turns.waiting(), 0);
    }
}
