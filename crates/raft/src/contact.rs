//! A follower's contact with its leader: the time of the last message, the longest pauses, and
//! whether the leader's port was found closed.
//!
//! A leader without a quorum keeps sending heartbeats, so that no election disturbs it. Each of its
//! messages therefore carries the time since a quorum last acknowledged it. A new leader was
//! elected by a quorum, which counts as contact at its first message.
//!
//! A leader counts as lost after a silence of the *patience*. Normally, the patience is the lease,
//! for which voters keep to their leader. On a link with longer pauses, it is twice the longest
//! pause of the last minute, but at most two leases. A follower therefore waits longer for its
//! leader on a link that loses packets. Pauses within a lease after the first message of a leader
//! do not count, because a restored link delivers its first messages with long pauses.

use std::time::Duration;

use seqd_net::Lock;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use crate::types::Vote;

/// The patience is this many times the longest pause. The link does not explain a longer silence.
const PAUSES: u32 = 2;

/// Upper bound of the patience, in leases. A lost leader is replaced after this time even on a link
/// with long pauses.
const LEASES: u32 = 2;

/// Minimum time for which a pause counts; the maximum is twice as long.
const REMEMBERED: Duration = Duration::from_secs(30);

/// Minimum time between the starts of two supports, as a multiple of the duration of a support.
const BETWEEN_SUPPORTS: u32 = 2;

/// Maximum time for which a node waits to find out why its connection to the leader broke: longer
/// than a reconnection takes if the leader's process has ended.
const DOUBT: Duration = Duration::from_millis(50);

/// A leadership: the term and the node.
pub(crate) type Leader = (u64, u64);

fn leader_of(vote: &Vote) -> Leader {
    (vote.leader_id.term, vote.leader_id.voted_for)
}

pub(crate) struct LeaderContact {
    lease: Duration,
    inner: Lock<Inner>,
    changed: Notify,
}

struct Inner {
    /// The time of the leader's last message. Without one, the leader counts as lost at
    /// `lost_unless_heard`.
    heard: Option<Instant>,
    lost_unless_heard: Instant,
    /// The last contact of the current leader with a quorum, by the leader's messages.
    leader_had_quorum: Instant,
    /// The current leadership, the time of its first message, and its longest pauses: in the
    /// current period and in the one before.
    leader: Option<Leader>,
    leader_since: Instant,
    pauses: [Duration; 2],
    pauses_since: Instant,
    /// The time at which the connection to the leader broke, while the reason is not known.
    doubted: Option<Instant>,
    /// True if the leader's port was found closed after its last message.
    has_ended: bool,
    /// True if the previous leader was lost when this leader's first message arrived.
    replaced_a_lost_one: bool,
    /// The time until which another candidate has this node's support.
    supports_until: Option<Instant>,
    /// The last contact with a quorum while this node led.
    quorum: Option<Instant>,
}

impl Inner {
    fn lost_at(&self, lease: Duration) -> Instant {
        let Some(heard) = self.heard else {
            return self.lost_unless_heard;
        };
        if self.has_ended {
            return heard;
        }
        let longest = self.pauses[0].max(self.pauses[1]) * PAUSES;
        heard + longest.clamp(lease, lease * LEASES)
    }
}

impl LeaderContact {
    /// `first` is the time after which a leader that has sent no message counts as lost.
    pub(crate) fn new(lease: Duration, first: Duration) -> Self {
        let now = Instant::now();
        Self {
            lease,
            inner: Lock::new(Inner {
                heard: None,
                lost_unless_heard: now + first,
                leader_had_quorum: now,
                leader: None,
                leader_since: now,
                pauses: [Duration::ZERO; 2],
                pauses_since: now,
                doubted: None,
                has_ended: false,
                replaced_a_lost_one: false,
                supports_until: None,
                quorum: None,
            }),
            changed: Notify::new(),
        }
    }

    /// Records a message from the leader that this node follows. A message may carry the time since
    /// a quorum was in contact with the leader.
    pub(crate) fn heard(&self, vote: &Vote, without_quorum_for: Option<Duration>) {
        let leader = Some(leader_of(vote));
        let now = Instant::now();
        let had_quorum = without_quorum_for.and_then(|ago| now.checked_sub(ago));
        let mut inner = self.inner.lock();
        if inner.leader == leader {
            let before = inner.leader_had_quorum;
            inner.leader_had_quorum = had_quorum.map_or(before, |at| at.max(before));
        } else {
            inner.replaced_a_lost_one = inner.lost_at(self.lease) <= now;
            inner.leader = leader;
            inner.leader_since = now;
            inner.leader_had_quorum = had_quorum.unwrap_or(now);
            inner.pauses = [Duration::ZERO; 2];
            inner.heard = None;
            inner.supports_until = None;
        }
        if now - inner.pauses_since >= REMEMBERED {
            inner.pauses = [Duration::ZERO, inner.pauses[0]];
            inner.pauses_since = now;
        }
        if let Some(heard) = inner.heard
            && heard - inner.leader_since >= self.lease
        {
            inner.pauses[0] = inner.pauses[0].max(now - heard);
        }
        inner.heard = Some(now);
        inner.doubted = None;
        inner.has_ended = false;
    }

    /// The leadership whose message arrived last.
    pub(crate) fn leader(&self) -> Option<Leader> {
        self.inner.lock().leader
    }

    /// Time since the leader's last message; `None` if it sent none.
    pub(crate) fn silent_for(&self) -> Option<Duration> {
        self.inner.lock().heard.map(|heard| heard.elapsed())
    }

    /// Time since the leader's last contact with a quorum; `None` if the leader sent no message.
    pub(crate) fn leader_without_quorum_for(&self) -> Option<Duration> {
        let inner = self.inner.lock();
        inner.heard.map(|_| inner.leader_had_quorum.elapsed())
    }

    /// Returns whether the leader was in contact with a quorum less than `limit` before its last
    /// message.
    pub(crate) fn leader_has_quorum(&self, limit: Duration) -> bool {
        let inner = self.inner.lock();
        let heard = inner.heard;
        heard.is_some_and(|heard| heard - inner.leader_had_quorum < limit)
    }

    /// Records the last contact with a quorum, while this node leads.
    pub(crate) fn quorum_answered(&self, at: Instant) {
        self.inner.lock().quorum = Some(at);
    }

    /// Time since the last contact with a quorum while this node led; `None` if it never led.
    pub(crate) fn led_before(&self) -> Option<Duration> {
        self.inner.lock().quorum.map(|at| at.elapsed())
    }

    /// Records that the connection to the leader broke.
    pub(crate) fn doubt(&self) {
        self.inner.lock().doubted.get_or_insert_with(Instant::now);
    }

    /// Records that the leader's port is closed, so its process has ended.
    pub(crate) fn found_ended(&self, leader: u64) {
        let mut inner = self.inner.lock();
        if inner.leader.is_some_and(|(_, node)| node == leader) {
            inner.has_ended = true;
            self.changed.notify_waiters();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.inner.lock().has_ended
    }

    /// Returns whether the process of the leadership that this vote names has ended. A node that
    /// leads itself has a record of the leader before it.
    pub(crate) fn has_ended_as(&self, vote: &Vote) -> bool {
        let inner = self.inner.lock();
        inner.has_ended && inner.leader == Some(leader_of(vote))
    }

    /// Records that this node would vote, or has voted, for another node, which then has `time` to
    /// win. Repeated requests do not renew the support at once, because this node itself may be
    /// able to win.
    pub(crate) fn support(&self, time: Duration) {
        let now = Instant::now();
        let mut inner = self.inner.lock();
        if inner
            .supports_until
            .is_none_or(|until| now >= until + time * BETWEEN_SUPPORTS)
        {
            inner.supports_until = Some(now + time);
        }
    }

    /// The time until which another candidate has this node's support; `None` if no candidate had
    /// it.
    pub(crate) fn supports_until(&self) -> Option<Instant> {
        self.inner.lock().supports_until
    }

    fn lost_at(&self) -> Instant {
        self.inner.lock().lost_at(self.lease)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost_at() <= Instant::now()
    }

    /// Returns whether a leader that was replaced, or is being replaced, was lost. A leader that
    /// was not lost has transferred its leadership.
    pub(crate) fn has_lost(&self, leader: u64) -> bool {
        let inner = self.inner.lock();
        if inner.leader.is_some_and(|(_, node)| node == leader) {
            inner.lost_at(self.lease) <= Instant::now()
        } else {
            inner.replaced_a_lost_one
        }
    }

    /// Returns once the leader is lost.
    pub(crate) async fn lost(&self) {
        while !self.is_lost() {
            let changed = self.changed.notified();
            tokio::select! {
                biased;
                () = sleep_until(self.lost_at()) => {}
                () = changed => {}
            }
        }
    }

    /// Returns whether the leader is lost. While a broken connection leaves this in doubt, waits
    /// for the result.
    pub(crate) async fn is_lost_for_certain(&self) -> bool {
        let doubted = self.inner.lock().doubted;
        if let Some(since) = doubted {
            let left = DOUBT.saturating_sub(since.elapsed());
            let _ = timeout(left, self.lost()).await;
        }
        self.is_lost()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::types;

    const LEASE: Duration = Duration::from_millis(600);
    const BEAT: Duration = Duration::from_millis(100);
    const LEADER: u64 = 1;
    /// The beats after which the leader is no longer new.
    const SETTLED: [Duration; 6] = [BEAT; 6];

    fn leader() -> Vote {
        types::vote(1, LEADER, true)
    }

    async fn heard_of(pauses: &[Duration]) -> LeaderContact {
        let contact = LeaderContact::new(LEASE, BEAT);
        contact.heard(&leader(), None);
        for pause in pauses {
            sleep(*pause).await;
            contact.heard(&leader(), None);
        }
        contact
    }

    async fn lost_after(contact: &LeaderContact) -> Duration {
        let began = Instant::now();
        contact.lost().await;
        began.elapsed()
    }

    fn about(took: Duration, expected: Duration) -> bool {
        took >= expected && took < expected + Duration::from_millis(5)
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_is_lost_after_the_lease_and_on_a_link_with_pauses_after_twice_the_longest() {
        for (pause_ms, lost_ms) in [
            (100, 600),
            (300, 600),
            (450, 900),
            (580, 1160),
            (1100, 1200),
        ] {
            let pause = Duration::from_millis(pause_ms);
            let contact = heard_of(&[&SETTLED[..], &[pause, BEAT]].concat()).await;
            let took = lost_after(&contact).await;
            assert!(
                about(took, Duration::from_millis(lost_ms)),
                "{pause:?}: {took:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_forgotten_after_a_minute_and_with_its_term() {
        let pause = Duration::from_millis(500);
        let beats = [&SETTLED[..], &[pause], &vec![BEAT; 601]].concat();
        assert!(about(lost_after(&heard_of(&beats).await).await, LEASE));
        let contact = heard_of(&[&SETTLED[..], &[pause]].concat()).await;
        contact.heard(&types::vote(2, LEADER, true), None);
        assert!(about(lost_after(&contact).await, LEASE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_while_a_leader_is_new_makes_nobody_patient() {
        // A restored link delivers its first messages with pauses.
        let late = Duration::from_millis(500);
        let contact = heard_of(&[BEAT, late, BEAT]).await;
        let after = lost_after(&contact).await;
        assert!(about(after, LEASE), "{after:?}");
        let contact = heard_of(&[BEAT, late, BEAT, late, BEAT]).await;
        let after = lost_after(&contact).await;
        assert!(about(after, 2 * late), "{after:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_with_a_closed_port_is_lost_until_its_next_message() {
        let contact = heard_of(&[BEAT]).await;
        contact.found_ended(LEADER + 1);
        assert!(!contact.is_lost());
        contact.doubt();
        let (lost, ()) = tokio::join!(contact.is_lost_for_certain(), async {
            sleep(DOUBT / 2).await;
            contact.found_ended(LEADER);
        });
        assert!(lost);
        assert!(contact.has_ended_as(&leader()));
        assert!(!contact.has_ended_as(&types::vote(2, LEADER + 1, true)));
        contact.heard(&leader(), None);
        assert!(!contact.is_lost_for_certain().await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_hands_over_is_not_lost_and_one_that_was_silent_is() {
        let next = types::vote(2, LEADER + 1, true);
        for (pause, is_lost) in [(BEAT, false), (LEASE, true)] {
            let contact = heard_of(&[BEAT]).await;
            sleep(pause).await;
            assert_eq!(contact.has_lost(LEADER), is_lost);
            contact.heard(&next, None);
            sleep(LEASE).await;
            assert_eq!(contact.has_lost(LEADER), is_lost);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_has_a_quorum_by_its_last_message_and_at_its_election() {
        let contact = LeaderContact::new(LEASE, BEAT);
        assert!(!contact.leader_has_quorum(LEASE), "no leader is known");
        assert_eq!(contact.leader_without_quorum_for(), None);
        contact.heard(&leader(), None);
        assert!(contact.leader_has_quorum(LEASE), "it was just elected");
        sleep(LEASE).await;
        contact.heard(&leader(), None);
        assert!(!contact.leader_has_quorum(LEASE), "no quorum acknowledged");
        contact.heard(&leader(), Some(BEAT));
        sleep(BEAT).await;
        assert!(contact.leader_has_quorum(LEASE));
        assert_eq!(contact.leader_without_quorum_for(), Some(BEAT * 2));
        sleep(LEASE).await;
        // A message that was sent earlier and arrives late changes nothing.
        contact.heard(&leader(), Some(BEAT * 2 + LEASE));
        assert!(!contact.leader_has_quorum(LEASE));
        contact.heard(&types::vote(2, LEADER + 1, true), None);
        assert!(contact.leader_has_quorum(LEASE), "another was elected");
        let contact = LeaderContact::new(LEASE, BEAT);
        sleep(LEASE).await;
        contact.heard(&leader(), Some(LEASE));
        assert!(!contact.leader_has_quorum(LEASE), "after a restart");
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_connection_alone_is_not_the_loss_of_the_leader() {
        let contact = heard_of(&[BEAT]).await;
        contact.doubt();
        let began = Instant::now();
        assert!(!contact.is_lost_for_certain().await);
        assert!(about(began.elapsed(), DOUBT), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_candidate_that_asks_again_and_again_is_not_supported_all_the_time() {
        let (contact, time) = (heard_of(&[]).await, BEAT * 4);
        let mut supported = 0;
        for _ in 0..120 {
            contact.support(time);
            supported += u32::from(contact.supports_until() > Some(Instant::now()));
            sleep(BEAT).await;
        }
        assert_eq!(supported, 40, "a third of the time");
    }
}
