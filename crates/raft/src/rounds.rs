//! Confirmations of a leadership that several requests share.

use std::sync::atomic::{AtomicU64, Ordering};

use seqd_guards::is_out;
use tokio::sync::Mutex;

#[derive(Default)]
pub(crate) struct Rounds {
    /// The voter that confirmed this leadership last. It is asked first the next time.
    pub(crate) last_voter: AtomicU64,
    /// The number of rounds that have begun.
    begun: AtomicU64,
    /// The last round that ended. One round runs at a time.
    last: Mutex<Option<Round>>,
}

struct Round {
    term: u64,
    number: u64,
    has_succeeded: bool,
}

impl Rounds {
    /// Returns the result of a round of this term that began after this call: that of another
    /// request, or `round`.
    pub(crate) async fn join(&self, term: u64, round: impl Future<Output = bool>) -> bool {
        let begun_before = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let Some(last) = &*last
            && last.term == term
            && (last.number > begun_before || is_out!(ReadJoinsLaterRound))
        {
            return last.has_succeeded;
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let has_succeeded = round.await;
        *last = Some(Round {
            term,
            number,
            has_succeeded,
        });
        has_succeeded
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use tokio::sync::oneshot;

    use super::*;

    fn poll<T>(waiting: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        waiting.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_request_shares_only_a_round_that_began_after_it() {
        let rounds = Rounds::default();
        let (end, ended) = oneshot::channel();
        let mut first = pin!(rounds.join(5, async { ended.await.is_ok() }));
        assert!(poll(first.as_mut()).is_pending());
        // Both arrive during the first round, so the round of the earlier one serves both.
        let asked = Arc::new(AtomicU64::new(0));
        let round = || {
            let asked = Arc::clone(&asked);
            async move { asked.fetch_add(1, Ordering::Relaxed) == 0 }
        };
        let mut second = pin!(rounds.join(5, round()));
        let mut third = pin!(rounds.join(5, round()));
        let mut other_term = pin!(rounds.join(6, ready(false)));
        assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
        assert!(poll(other_term.as_mut()).is_pending());
        end.send(()).unwrap();
        assert_eq!(poll(first.as_mut()), Poll::Ready(true));
        assert_eq!(poll(second.as_mut()), Poll::Ready(true));
        let rounds_after = asked.load(Ordering::Relaxed);
        assert_eq!(rounds_after, 1, "it joined a round that had asked before");
        assert_eq!(poll(third.as_mut()), Poll::Ready(true));
        assert_eq!(asked.load(Ordering::Relaxed), 1, "one round for both");
        assert_eq!(poll(other_term.as_mut()), Poll::Ready(false));
    }

    #[test]
    fn a_round_that_was_dropped_confirms_nobody_and_a_failure_is_shared() {
        let rounds = Rounds::default();
        let (_end, ended) = oneshot::channel::<()>();
        let mut dropped = Box::pin(rounds.join(5, async { ended.await.is_ok() }));
        assert!(poll(dropped.as_mut()).is_pending());
        let mut failed = pin!(rounds.join(5, ready(false)));
        let mut beside = pin!(rounds.join(5, ready(true)));
        assert!(poll(failed.as_mut()).is_pending() && poll(beside.as_mut()).is_pending());
        drop(dropped);
        assert_eq!(poll(failed.as_mut()), Poll::Ready(false));
        assert_eq!(
            poll(beside.as_mut()),
            Poll::Ready(false),
            "a round of its own"
        );
        let mut next = pin!(rounds.join(5, ready(true)));
        assert_eq!(poll(next.as_mut()), Poll::Ready(true));
    }
}
