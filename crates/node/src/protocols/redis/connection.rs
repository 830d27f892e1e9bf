//! One connection: its requests in turn.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use seqd_api::Problem;
use seqd_net::BoxStream;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::channels::Subscriptions;
use super::commands::{self, RefusedTransaction, Run};
use super::errors::of_problem;
use super::reply::{Reply, Version};
use super::request::{Parsed, parse};
use super::scripts::Remembered;
use crate::admission::Sender;
use crate::connections::{Buffered, ClientConnection, Filled, Paced, Stopping};
use crate::protocols::{Protocol, Session, incomplete};

/// The most requests that are served together.
const MOST_TOGETHER: usize = 128;

/// After this many requests, the task yields to other connections. Each [`TURN_BYTES`] bytes also
/// count as a request, because an empty request has a single byte.
const IN_TURN: usize = 32;
const TURN_BYTES: usize = 256;

/// The largest buffer of replies that an idle connection keeps, a few usual replies.
const OUT_KEPT: usize = 1024;

/// Numbers the connections of this process.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// The client of a connection.
pub(super) struct Client {
    pub(super) session: Session,
    pub(super) scripts: Arc<Remembered>,
    pub(super) version: Version,
    /// The name that the client has set.
    pub(super) name: String,
    pub(super) id: u64,
    /// The connection ends after the next reply.
    pub(super) is_over: bool,
    pub(super) in_refused: Option<RefusedTransaction>,
    pub(super) subscriptions: Subscriptions,
}

impl Client {
    /// The reply to a request that failed.
    pub(super) fn failed(&self, problem: &Problem) -> Reply {
        of_problem(problem, self.session.connection().is_reserved())
    }

    /// Ends the connection with the reply to a request whose rest is not awaited.
    async fn give_up(&mut self, refused: &Problem) -> Reply {
        self.is_over = true;
        self.session.hold_back(refused).await;
        self.failed(refused)
    }

    /// The reply to a request that needs only this node.
    pub(super) async fn local(
        &self,
        command: &'static str,
        reply: impl FnOnce() -> Reply,
    ) -> Reply {
        let replied = self.session.local(command, reply).await;
        replied.unwrap_or_else(|refused| self.failed(&refused))
    }

    /// Admits up to `count` requests, each of which counts towards the rate of its token. Returns
    /// the sender, the number of admitted requests, and the refusal of the next one.
    pub(super) fn admit(&self, count: usize) -> (Option<Sender>, usize, Option<Problem>) {
        let mut sender = None;
        for admitted in 0..count {
            match self.session.admit() {
                Ok(one) => _ = sender.get_or_insert(one),
                Err(problem) => return (sender, admitted, Some(problem)),
            }
        }
        (sender, count, None)
    }

    /// Adds a reply for each of the `count` requests that has none yet, if there is a refusal.
    pub(super) async fn refuse(
        &self,
        command: &'static str,
        count: usize,
        refused: Option<Problem>,
        begun: Instant,
        replies: &mut Vec<Reply>,
    ) {
        if let Some(refused) = refused {
            self.session.hold_back(&refused).await;
            let rest = count - replies.len();
            self.session
                .count(command, rest as u64, Some(&refused), begun);
            replies.extend(vec![self.failed(&refused); rest]);
        }
    }
}

/// Serves a connection until it ends.
pub(super) async fn serve(
    stream: Paced<BoxStream>,
    connection: ClientConnection,
    (protocol, scripts): (Arc<Protocol>, Arc<Remembered>),
    stopping: Stopping,
) {
    let client = Client {
        session: Session::new(&protocol, connection),
        scripts,
        version: Version::default(),
        name: String::new(),
        id: CONNECTIONS.fetch_add(1, Ordering::Relaxed),
        is_over: false,
        in_refused: None,
        subscriptions: Subscriptions::default(),
    };
    if let Err(error) = exchange(Buffered::pooled(stream), client, stopping).await {
        tracing::debug!("redis connection: {error}");
    }
}

async fn exchange(
    mut stream: Buffered<BoxStream>,
    mut client: Client,
    stopping: Stopping,
) -> io::Result<()> {
    let mut stop = pin!(stopping.wait());
    let mut out = BytesMut::new();
    let (mut ahead, mut served) = (None, 0);
    loop {
        if served >= IN_TURN {
            served = 0;
            yield_now().await;
        }
        let before = stream.bytes.len();
        let alone = client.in_refused.is_some() || client.is_subscribed();
        let next = next(&mut stream.bytes, &mut ahead, alone);
        served += (before - stream.bytes.len()) / TURN_BYTES;
        match next {
            Next::Requests(requests) => {
                served += requests.len();
                stream.end_request();
                let answering = client.session.connection().begin();
                let replies = replies(&mut stream, &mut client, requests).await?;
                drop(answering);
                for reply in &replies {
                    reply.write(client.version, &mut out);
                }
                client.is_over |= client.session.ends_after_reply();
            }
            Next::Invalid(why) => {
                let text = format!("ERR Protocol error: {why}");
                Reply::error(text).write(client.version, &mut out);
                client.is_over = true;
            }
            Next::Nothing => match more(&mut stream, &mut client, stop.as_mut()).await? {
                Some(replies) => {
                    for reply in &replies {
                        reply.write(client.version, &mut out);
                    }
                }
                None => return stream.close().await,
            },
        }
        stream.reply(&out);
        empty(&mut out);
        if client.is_over {
            return stream.close_unread().await;
        }
        stream.flush_many().await?;
    }
}

/// Waits for more bytes. Returns the replies that need no complete request: messages of
/// subscriptions, or a refusal. Returns `None` at the end of the connection.
async fn more(
    stream: &mut Buffered<BoxStream>,
    client: &mut Client,
    mut stop: Pin<&mut impl Future<Output = ()>>,
) -> io::Result<Option<Vec<Reply>>> {
    if let Err(refused) = client.session.hold(stream.bytes.len()) {
        return Ok(Some(vec![client.give_up(&refused).await]));
    }
    let abandoned = client.in_refused.filter(|_| stream.bytes.is_empty());
    let mut abandoned = abandoned.map(|it| Box::pin(sleep_until(it.until)));
    let mut pushed = None;
    let interrupted = poll_fn(|cx| match client.subscriptions.poll_next(cx) {
        Poll::Ready(push) => {
            pushed = Some(push);
            Poll::Ready(())
        }
        Poll::Pending => {
            if let Some(abandoned) = &mut abandoned {
                client.is_over = abandoned.as_mut().poll(cx).is_ready();
            }
            match client.is_over {
                true => Poll::Ready(()),
                false => stop.as_mut().poll(cx),
            }
        }
    });
    let filled = stream.fill(pin!(interrupted)).await?;
    Ok(match (pushed, filled) {
        (Some(push), _) => Some(vec![client.push(push)]),
        (None, Filled::Late) => Some(vec![client.give_up(&incomplete()).await]),
        (None, Filled::End) if !client.is_over => None,
        (None, _) => Some(Vec::new()),
    })
}

/// Empties the buffer of replies, and frees it if it is large.
fn empty(out: &mut BytesMut) {
    match out.capacity() > OUT_KEPT {
        true => *out = BytesMut::new(),
        false => out.clear(),
    }
}

/// The beginning of the received bytes.
enum Next {
    /// A request, or several that are served together.
    Requests(Vec<Vec<Bytes>>),
    Nothing,
    Invalid(String),
}

/// Takes the next request and, unless `alone` is set, the following requests that are served
/// together with it. Parses at most one request more, which is kept in `ahead`, because a parsed
/// request takes ten times the memory of its bytes.
fn next(bytes: &mut BytesMut, ahead: &mut Option<Parsed>, alone: bool) -> Next {
    let (mut requests, mut first) = (Vec::new(), None);
    loop {
        match ahead.take().unwrap_or_else(|| parse(bytes)) {
            Parsed::Request(request) if request.is_empty() => {}
            Parsed::Request(request) => {
                let joined = commands::joined(&request).filter(|_| !alone);
                if !requests.is_empty() && joined != first {
                    *ahead = Some(Parsed::Request(request));
                    return Next::Requests(requests);
                }
                first = joined;
                requests.push(request);
                if first.is_none() || requests.len() == MOST_TOGETHER {
                    return Next::Requests(requests);
                }
            }
            end if !requests.is_empty() => {
                *ahead = matches!(end, Parsed::Invalid(_)).then_some(end);
                return Next::Requests(requests);
            }
            Parsed::Incomplete => return Next::Nothing,
            Parsed::Invalid(why) => return Next::Invalid(why),
        }
    }
}

async fn replies(
    stream: &mut Buffered<BoxStream>,
    client: &mut Client,
    requests: Vec<Vec<Bytes>>,
) -> io::Result<Vec<Reply>> {
    let replies = pin!(async {
        match &requests[..] {
            [one] => vec![commands::execute(client, one).await],
            several if commands::joined(&several[0]) == Some(Run::Ids) => {
                client.single_ids(several.len()).await
            }
            several => client.increment_all(several).await,
        }
    });
    stream.while_flushing(replies).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(bytes: &[u8]) -> Vec<usize> {
        let (mut bytes, mut ahead) = (BytesMut::from(bytes), None);
        let mut lengths = Vec::new();
        while let Next::Requests(requests) = next(&mut bytes, &mut ahead, false) {
            lengths.push(requests.len());
        }
        assert!(ahead.is_none() && bytes.is_empty());
        lengths
    }

    #[test]
    fn increments_that_follow_each_other_are_taken_together_and_so_are_ids() {
        let bytes = b"PING\nINCR a\n\nINCR b\nincr a\nGET a\nINCR a b\nINCR a\n";
        assert_eq!(taken(bytes), [1, 3, 1, 1, 1]);
        let bytes = b"SEQD.ID\nseqd.id\nINCR a\nSEQD.ID\nSEQD.ID 1\nSEQD.ID\nSEQD.ID\n";
        assert_eq!(taken(bytes), [2, 1, 1, 1, 2]);
        let many = b"INCR a\n".repeat(MOST_TOGETHER + 1);
        assert_eq!(taken(&many), [MOST_TOGETHER, 1]);
    }

    #[test]
    fn a_large_buffer_of_replies_is_not_kept() {
        let mut out = BytesMut::from(&[0; OUT_KEPT][..]);
        empty(&mut out);
        assert_eq!((out.len(), out.capacity()), (0, OUT_KEPT));
        out.extend_from_slice(&[0; OUT_KEPT + 1]);
        empty(&mut out);
        assert_eq!(out.capacity(), 0, "an idle connection keeps its replies");
    }

    #[test]
    fn an_error_comes_after_the_increments_before_it() {
        let (mut bytes, mut ahead) = (BytesMut::from(&b"INCR a\n*x\r\n"[..]), None);
        let first = next(&mut bytes, &mut ahead, false);
        assert!(matches!(first, Next::Requests(requests) if requests.len() == 1));
        assert!(matches!(
            next(&mut bytes, &mut ahead, false),
            Next::Invalid(_)
        ));
    }
}
