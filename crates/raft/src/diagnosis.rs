//! A node's report for a diagnosis: its links to the members, and its own facts.
//!
//! Other modules treat a peer as reachable after any message from it. A diagnosis distinguishes the
//! two directions, because a firewall may block one of them only.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use seqd_net::Lock;
use tokio::time::Instant;

use crate::handle::LinkStatus;

/// Time for which a link counts as working after a message: three pings.
const WORKS_FOR: Duration = Duration::from_secs(3);

/// Writes this node's facts. It may read files, so it is called on a thread for blocking calls.
pub type FactsSource = Box<dyn Fn() -> Vec<u8> + Send + Sync>;

pub(crate) struct Diagnosis {
    since: Instant,
    links: Lock<BTreeMap<u64, LatestMessages>>,
    /// Set once, after the services of the node are created.
    pub(crate) facts: OnceLock<FactsSource>,
}

/// The latest messages in each direction.
#[derive(Default)]
struct LatestMessages {
    /// When a ping of this node was last answered, and after how long.
    answered: Option<(Instant, Duration)>,
    /// The error of the latest ping, if it failed.
    failed: Option<String>,
    /// When a ping of the member last arrived.
    received: Option<Instant>,
}

impl LatestMessages {
    /// The round trip of this node's last answered ping to the member, if it is recent.
    fn round_trip(&self) -> Option<Duration> {
        let (at, took) = self.answered?;
        works(at).then_some(took)
    }

    /// Returns whether a ping of the member arrived recently.
    fn receives(&self) -> bool {
        self.received.is_some_and(works)
    }
}

/// Returns whether a message at this time is recent enough to prove that a link works.
fn works(at: Instant) -> bool {
    at.elapsed() < WORKS_FOR
}

impl Default for Diagnosis {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            links: Lock::default(),
            facts: OnceLock::new(),
        }
    }
}

impl Diagnosis {
    /// Records the result of a ping that this node sent.
    pub(crate) fn pinged(&self, node: u64, result: Result<Duration, String>) {
        let mut links = self.links.lock();
        let seen = links.entry(node).or_default();
        match result {
            Ok(took) => {
                seen.answered = Some((Instant::now(), took));
                seen.failed = None;
            }
            Err(error) => seen.failed = Some(error),
        }
    }

    /// Records a ping that this node received.
    pub(crate) fn received(&self, node: u64) {
        self.links.lock().entry(node).or_default().received = Some(Instant::now());
    }

    /// Returns whether a member recently answered a ping of this node. The member's own pings prove
    /// only the other direction.
    pub(crate) fn answers(&self, node: u64) -> bool {
        self.links
            .lock()
            .get(&node)
            .is_some_and(|seen| seen.round_trip().is_some())
    }

    /// Returns whether a ping of a member arrived recently, so that the member can connect to this
    /// node, for example to request its vote. Returns `true` for every member until the first pings
    /// are due.
    pub(crate) fn receives_from(&self, node: u64) -> bool {
        let received = self.links.lock().get(&node).and_then(|seen| seen.received);
        works(received.unwrap_or(self.since))
    }

    pub(crate) fn nodes(&self) -> Vec<u64> {
        self.links.lock().keys().copied().collect()
    }

    /// Discards the latest messages of a removed node.
    pub(crate) fn remove(&self, node: u64) {
        self.links.lock().remove(&node);
    }

    pub(crate) fn link(&self, node: u64, name: String) -> LinkStatus {
        let links = self.links.lock();
        let seen = links.get(&node);
        LinkStatus {
            name,
            round_trip: seen.and_then(LatestMessages::round_trip),
            error: seen.and_then(|seen| seen.failed.clone()),
            receives: seen.is_some_and(LatestMessages::receives),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_direction_of_a_link_is_recorded_and_expires() {
        let diagnosis = Diagnosis::default();
        diagnosis.received(2);
        diagnosis.pinged(2, Ok(Duration::from_millis(4)));
        tokio::time::advance(WORKS_FOR / 2).await;
        diagnosis.pinged(2, Err("no answer".to_owned()));
        let link = diagnosis.link(2, "n2".to_owned());
        assert_eq!(link.round_trip, Some(Duration::from_millis(4)));
        assert_eq!(link.error.as_deref(), Some("no answer"));
        assert!(link.receives && diagnosis.answers(2) && !diagnosis.answers(3));
        assert!(
            diagnosis.receives_from(2) && diagnosis.receives_from(3),
            "its pings may still come"
        );
        tokio::time::advance(WORKS_FOR / 2).await;
        let link = diagnosis.link(2, "n2".to_owned());
        assert_eq!((link.round_trip, link.receives), (None, false));
        assert!(!diagnosis.receives_from(2) && !diagnosis.receives_from(3));
        diagnosis.received(2);
        assert!(!diagnosis.answers(2), "its ping proves the other direction");
    }
}
