//! Who waits at this node for a lock: woken by the entry with which the wait is over, and by no other.
//!
//! A wait is registered before its claim is proposed, so that its turn is not missed. What the turn is
//! stands in the applied state. A state that is replaced by a snapshot wakes all: whose turn came
//! within it is not known.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seqd_state::LockTurn;
use tokio::sync::Notify;

/// The waits of a node.
#[derive(Debug, Default)]
pub struct Turns(Mutex<Waits>);

#[derive(Debug, Default)]
struct Waits {
    /// Several requests may wait for one claim.
    by_claim: BTreeMap<LockTurn, Vec<(u64, Arc<Notify>)>>,
    registered: u64,
}

/// One wait, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    turns: Arc<Turns>,
    claim: LockTurn,
    number: u64,
    came: Arc<Notify>,
}

impl Turns {
    /// Registers a wait for a claim.
    #[must_use]
    pub fn register(self: &Arc<Self>, claim: LockTurn) -> Turn {
        let came = Arc::new(Notify::new());
        let mut waits = self.waits();
        waits.registered += 1;
        let number = waits.registered;
        let of_claim = waits.by_claim.entry(claim.clone()).or_default();
        of_claim.push((number, Arc::clone(&came)));
        drop(waits);
        Turn {
            turns: Arc::clone(self),
            claim,
            number,
            came,
        }
    }

    /// Wakes those whose turn an entry brought.
    pub fn wake(&self, turns: &[LockTurn]) {
        if turns.is_empty() {
            return;
        }
        let waits = self.waits();
        for (_, came) in turns
            .iter()
            .filter_map(|turn| waits.by_claim.get(turn))
            .flatten()
        {
            came.notify_one();
        }
    }

    /// Wakes all, as the state was replaced.
    pub fn wake_all(&self) {
        for (_, came) in self.waits().by_claim.values().flatten() {
            came.notify_one();
        }
    }

    /// Requests that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waits().by_claim.values().map(Vec::len).sum()
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Returns once the turn came, also if it did before the call; then once more at the next.
    pub async fn came(&self) {
        self.came.notified().await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut waits = self.turns.waits();
        if let Some(of_claim) = waits.by_claim.get_mut(&self.claim) {
            of_claim.retain(|(number, _)| *number != self.number);
            if of_claim.is_empty() {
                waits.by_claim.remove(&self.claim);
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

    fn claim(nonce: u128) -> LockTurn {
        LockTurn {
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
