//! A value that several tasks wait for. A change wakes the tasks in the order of their waits.
//!
//! The watch channel of tokio wakes tasks in a random order, so two runs of the simulated cluster
//! with the same seed would differ.

use seqd_net::Lock;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub struct Watched<T> {
    value: Lock<T>,
    changed: Notify,
}

impl<T: Copy> Watched<T> {
    pub fn new(value: T) -> Self {
        Self {
            value: Lock::new(value),
            changed: Notify::new(),
        }
    }

    pub fn get(&self) -> T {
        *self.value.lock()
    }

    pub fn set(&self, value: T) {
        *self.value.lock() = value;
        self.changed.notify_waiters();
    }

    /// Waits for a value that satisfies `is` and returns it, immediately if the current value does.
    pub async fn wait_for(&self, is: impl Fn(T) -> bool) -> T {
        loop {
            // Registered before the value is read, so that no later change is missed.
            let changed = self.changed.notified();
            let value = self.get();
            if is(value) {
                return value;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn all_are_woken_in_the_order_in_which_they_came() {
        let watched = Arc::new(Watched::new(0));
        let woken = Arc::new(Lock::new(Vec::new()));
        let waits: Vec<_> = (0..24)
            .map(|number| {
                let (watched, woken) = (Arc::clone(&watched), Arc::clone(&woken));
                tokio::spawn(async move {
                    let value = watched.wait_for(|value| value > number % 2).await;
                    woken.lock().push((value, number));
                })
            })
            .collect();
        tokio::task::yield_now().await;
        watched.set(1);
        tokio::task::yield_now().await;
        watched.set(2);
        for wait in waits {
            wait.await.unwrap();
        }
        let (even, odd) = ((0..24).step_by(2), (1..24).step_by(2));
        let expected: Vec<_> = even.map(|n| (1, n)).chain(odd.map(|n| (2, n))).collect();
        assert_eq!(*woken.lock(), expected);
        assert_eq!(watched.wait_for(|value| value > 0).await, 2);
    }
}
