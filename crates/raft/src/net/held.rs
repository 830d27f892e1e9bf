//! The connections of a clients' port: which of them ends where there are too many, or where too
//! much of their answers is not taken.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Buf;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// One place in so many is kept for a connection that comes while all others are answered.
const RESERVED: usize = 64;

/// What a connection does.
#[derive(Debug)]
struct Activity {
    from: Option<IpAddr>,
    /// Requests that are being answered.
    requests: AtomicUsize,
    has_asked: AtomicBool,
    /// When it was accepted, its latest request began, or it took some of an answer: the place of
    /// that in the order of all such events.
    since: AtomicU64,
    /// Bytes of answers that it has not taken.
    unsent: AtomicUsize,
}

impl Activity {
    /// Whether no request of it is being answered.
    fn is_idle(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0
    }
}

/// What all connections of a port share.
#[derive(Debug, Default)]
struct Shared {
    events: AtomicU64,
    unsent: AtomicUsize,
    /// More is unsent than may be.
    is_too_much: Notify,
}

/// All connections of a port.
pub(super) struct Held {
    places: usize,
    most_unsent: usize,
    connections: Vec<(AbortHandle, Arc<Activity>)>,
    shared: Arc<Shared>,
}

/// One connection's part of [`Held`].
#[derive(Clone, Debug)]
pub(super) struct Entry {
    activity: Arc<Activity>,
    shared: Arc<Shared>,
    most_unsent: usize,
}

impl Entry {
    fn event(&self) {
        let event = self.shared.events.fetch_add(1, Ordering::Relaxed);
        self.activity.since.store(event, Ordering::Relaxed);
    }

    pub(super) fn begin(&self) -> Answering {
        self.activity.requests.fetch_add(1, Ordering::Relaxed);
        self.activity.has_asked.store(true, Ordering::Relaxed);
        self.event();
        Answering(self.clone())
    }

    /// So many bytes of an answer are to be sent.
    fn gave(&self, bytes: usize) {
        self.activity.unsent.fetch_add(bytes, Ordering::Relaxed);
        let before = self.shared.unsent.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > self.most_unsent {
            self.shared.is_too_much.notify_one();
        }
    }

    /// So many bytes were sent. Heads of answers are among them, and were not counted before.
    pub(super) fn sent(&self, bytes: usize) {
        let unsent = self.activity.unsent.load(Ordering::Relaxed);
        let counted = bytes.min(unsent);
        if counted > 0 {
            self.activity
                .unsent
                .store(unsent - counted, Ordering::Relaxed);
            self.shared.unsent.fetch_sub(counted, Ordering::Relaxed);
            self.event();
        }
    }

    /// The connection is over.
    pub(super) fn left(&self) {
        self.sent(usize::MAX);
    }
}

/// Counts a request while it is answered.
pub(super) struct Answering(Entry);

impl Answering {
    /// The body of the answer, which is being answered until its end. One that is there as a whole
    /// counts at once; one that is streamed, or of unknown length, as it comes.
    pub(super) fn with<B: Body>(self, body: B, is_streamed: bool) -> Answer<B> {
        let exact = body.size_hint().exact().filter(|_| !is_streamed);
        if let Some(bytes) = exact {
            self.0.gave(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        Answer {
            body,
            is_counted: exact.is_some(),
            answering: self,
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.activity.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) struct Answer<B> {
    body: B,
    is_counted: bool,
    answering: Answering,
}

impl<B: Body + Unpin> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
            && !self.is_counted
        {
            self.answering.0.gave(data.remaining());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Held {
    /// Of a port for so many connections, two at least, and so many bytes of answers that are not
    /// taken.
    pub(super) fn new(most: usize, most_unsent: usize) -> Self {
        Self {
            places: most - (most / RESERVED).max(1),
            most_unsent,
            connections: Vec::new(),
            shared: Arc::default(),
        }
    }

    /// The entry of a connection from this address, not among the others yet.
    pub(super) fn entry(&self, from: Option<IpAddr>) -> Entry {
        let activity = Activity {
            from,
            requests: AtomicUsize::new(0),
            has_asked: AtomicBool::new(false),
            since: AtomicU64::new(0),
            unsent: AtomicUsize::new(0),
        };
        let entry = Entry {
            activity: Arc::new(activity),
            shared: Arc::clone(&self.shared),
            most_unsent: self.most_unsent,
        };
        entry.event();
        entry
    }

    /// Makes place for one more connection: where there is none, some that answer no request end,
    /// of the address that has most. First those that have taken their answers; of these those that
    /// have never asked; of these those that have done nothing for longest. `false` where all are
    /// answered: the new one gets a place that is kept for that.
    pub(super) fn make_place(&mut self) -> bool {
        if self.connections.len() < self.places {
            return true;
        }
        self.connections.retain(|(task, _)| !task.is_finished());
        if self.connections.len() < self.places {
            return true;
        }
        let Some((from, most)) = self.address_with_most() else {
            return false;
        };
        let idle = self.connections.iter().enumerate();
        let idle = idle.filter(|(_, (_, one))| one.from == from && one.is_idle());
        let mut idle: Vec<(bool, bool, u64, usize)> = idle
            .map(|(at, (_, one))| {
                let owes = one.unsent.load(Ordering::Relaxed) > 0;
                let has_asked = one.has_asked.load(Ordering::Relaxed);
                (owes, has_asked, one.since.load(Ordering::Relaxed), at)
            })
            .collect();
        // Several at once: to look through all of them for each connection of a flood would take a
        // core.
        let some = (self.places / RESERVED).clamp(1, most);
        idle.sort_unstable();
        idle.truncate(some);
        let mut ended: Vec<usize> = idle.into_iter().map(|(.., at)| at).collect();
        ended.sort_unstable();
        for at in ended.into_iter().rev() {
            let (connection, _) = self.connections.swap_remove(at);
            connection.abort();
        }
        true
    }

    /// Of the addresses with an idle connection the one with most connections, and how many more it
    /// has than any other, one at least.
    fn address_with_most(&self) -> Option<(Option<IpAddr>, usize)> {
        let mut of_address: HashMap<Option<IpAddr>, (usize, bool)> = HashMap::new();
        for (_, one) in &self.connections {
            let (count, has_idle) = of_address.entry(one.from).or_default();
            *count += 1;
            *has_idle |= one.is_idle();
        }
        let mut with_idle: Vec<(usize, Option<IpAddr>)> = of_address
            .into_iter()
            .filter(|(_, (_, has_idle))| *has_idle)
            .map(|(from, (count, _))| (count, from))
            .collect();
        with_idle.sort_unstable();
        let (most, from) = with_idle.pop()?;
        let next = with_idle.last().map_or(0, |(count, _)| *count);
        Some((from, (most - next).max(1)))
    }

    /// Takes in a connection.
    pub(super) fn add(&mut self, connection: AbortHandle, entry: &Entry) {
        self.connections
            .push((connection, Arc::clone(&entry.activity)));
    }

    /// Waits until more is unsent than may be. May be dropped while it waits.
    pub(super) async fn too_much(&self) {
        self.shared.is_too_much.notified().await;
    }

    /// Ends connections that have taken nothing for longest, until no more is unsent than may be.
    pub(super) fn relieve(&mut self) {
        let mut unsent = self.shared.unsent.load(Ordering::Relaxed);
        while unsent > self.most_unsent {
            let owing = self.connections.iter().enumerate();
            let owing = owing.filter(|(_, (_, one))| one.unsent.load(Ordering::Relaxed) > 0);
            let first = owing.min_by_key(|(_, (_, one))| one.since.load(Ordering::Relaxed));
            let Some((at, _)) = first else {
                return;
            };
            let (connection, one) = self.connections.swap_remove(at);
            unsent = unsent.saturating_sub(one.unsent.load(Ordering::Relaxed));
            connection.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures_util::FutureExt;
    use http_body_util::Full;
    use tokio::task::JoinHandle;

    use super::*;

    struct Port(Held);

    impl Port {
        /// Of so many places besides the one that is kept.
        fn new(places: usize) -> Self {
            Self(Held::new(places + 1, 100))
        }

        fn connect(&mut self, from: u8) -> (JoinHandle<()>, Entry) {
            let entry = self.0.entry(Some([127, 0, 0, from].into()));
            let own = Leaving(entry.clone());
            let task = tokio::spawn(async move {
                let _own = own;
                std::future::pending::<()>().await;
            });
            self.0.make_place();
            self.0.add(task.abort_handle(), &entry);
            (task, entry)
        }
    }

    struct Leaving(Entry);

    impl Drop for Leaving {
        fn drop(&mut self) {
            self.0.left();
        }
    }

    async fn is_over(task: &JoinHandle<()>) -> bool {
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        task.is_finished()
    }

    #[tokio::test]
    async fn one_too_many_ends_one_that_never_asked_then_the_one_that_asked_longest_ago() {
        let mut port = Port::new(3);
        let (first, asks) = port.connect(1);
        let (second, busy) = port.connect(1);
        let (third, _) = port.connect(1);
        let _answering = busy.begin();
        drop(asks.begin());
        let (fourth, asks) = port.connect(1);
        assert!(is_over(&third).await, "it never asked");
        drop(asks.begin());
        let (fifth, asks) = port.connect(1);
        assert!(is_over(&first).await, "it asked before the other");
        drop(asks.begin());
        assert!(!is_over(&second).await, "it is answered");
        assert!(!is_over(&fourth).await && !is_over(&fifth).await);
    }

    #[tokio::test]
    async fn the_address_that_has_most_connections_loses_one() {
        let mut port = Port::new(5);
        let (alone, _) = port.connect(1);
        let (first, asks) = port.connect(2);
        drop(asks.begin());
        for _ in 0..3 {
            drop(port.connect(2).1.begin());
        }
        drop(port.connect(3).1.begin());
        assert!(is_over(&first).await);
        assert!(!is_over(&alone).await);
    }

    #[tokio::test]
    async fn of_many_places_several_are_made_at_once_and_none_of_an_address_with_fewer() {
        let mut port = Port::new(2 * RESERVED);
        let (few, many) = (RESERVED / 2, RESERVED + RESERVED / 2);
        let mut tasks: Vec<_> = (0..few).map(|_| port.connect(1).0).collect();
        tasks.extend((0..many).map(|_| port.connect(2).0));
        let (_task, _) = port.connect(3);
        let mut ended = Vec::new();
        for (at, task) in tasks.iter().enumerate() {
            if is_over(task).await {
                ended.push(at);
            }
        }
        assert_eq!(ended, [few, few + 1]);
    }

    #[tokio::test]
    async fn connections_that_ended_count_for_nothing() {
        let mut port = Port::new(2);
        let (first, _) = port.connect(1);
        for _ in 0..100 {
            let (task, _) = port.connect(1);
            task.abort();
            let _ = task.await;
        }
        assert!(!is_over(&first).await);
    }

    #[tokio::test]
    async fn where_all_are_answered_nobody_is_cut_and_the_next_is_told() {
        let mut port = Port::new(1);
        let (first, entry) = port.connect(1);
        let answering = entry.begin();
        assert!(!port.0.make_place());
        assert!(!is_over(&first).await);
        let answer = answering.with(Full::new(Bytes::from_static(b"answer")), false);
        assert!(!port.0.make_place());
        drop(answer);
        assert!(port.0.make_place());
        assert!(is_over(&first).await);
    }

    #[tokio::test]
    async fn whoever_takes_nothing_for_longest_ends_where_too_much_is_unsent() {
        let mut port = Port::new(5);
        let answer = |entry: &Entry, bytes: usize| {
            let body = Full::<Bytes>::new(vec![b'x'; bytes].into());
            drop(entry.begin().with(body, false));
        };
        let (first, takes) = port.connect(1);
        let (second, stalls) = port.connect(1);
        let (third, late) = port.connect(1);
        answer(&takes, 50);
        answer(&stalls, 50);
        takes.sent(10);
        assert!(port.0.too_much().now_or_never().is_none());
        answer(&late, 50);
        assert!(port.0.too_much().now_or_never().is_some());
        port.0.relieve();
        assert!(is_over(&second).await);
        assert!(!is_over(&first).await && !is_over(&third).await);
        assert_eq!(port.0.shared.unsent.load(Ordering::Relaxed), 90);
        takes.sent(1000);
        late.sent(1000);
        assert_eq!(port.0.shared.unsent.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_body_that_is_streamed_or_of_unknown_length_counts_as_it_comes() {
        use http_body_util::{BodyExt, StreamBody};
        let mut port = Port::new(2);
        let (task, entry) = port.connect(1);
        let long = Full::<Bytes>::new(vec![b'x'; 1_000_000].into());
        drop(entry.begin().with(long, true));
        assert!(port.0.too_much().now_or_never().is_none());
        assert!(
            !is_over(&task).await,
            "ended for bytes that are not in memory"
        );
        let (_task, entry) = port.connect(1);
        let frames =
            [b"one".as_slice(), b"three"].map(|part| Ok::<_, Infallible>(Frame::data(part)));
        let mut body = entry
            .begin()
            .with(StreamBody::new(futures_util::stream::iter(frames)), false);
        let unsent = |port: &Port| port.0.shared.unsent.load(Ordering::Relaxed);
        for expected in [3, 8] {
            body.frame().await.unwrap().unwrap();
            assert_eq!(unsent(&port), expected);
        }
    }
}
