//! The channels to which a connection has subscribed.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{self, Stream};

use super::reply::Reply;
use crate::access::{NotLetIn, Right};
use crate::services::HolderWatch;

/// The most channels of a connection; Redisson uses five.
pub(super) const MOST_CHANNELS: usize = 64;

/// The message that Redisson publishes when a lock is free.
pub(super) const FREE: &str = "0";

/// The channels of a connection.
#[derive(Default)]
pub(super) struct Subscriptions(Vec<Subscription>);

struct Subscription {
    channel: Bytes,
    /// Yields an item each time the lock becomes free, and an error when the client's access ends.
    freed: Pin<Box<dyn Stream<Item = Result<(), NotLetIn>> + Send + Sync>>,
}

/// A message that a subscription sends to the client.
pub(super) enum Push {
    Message(Bytes),
    /// The client's token no longer permits the subscription.
    Ended(NotLetIn),
}

impl Subscriptions {
    /// The next message of any channel.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Push> {
        for subscription in &mut self.0 {
            match subscription.freed.as_mut().poll_next(cx) {
                Poll::Ready(Some(Ok(()))) => {
                    return Poll::Ready(Push::Message(subscription.channel.clone()));
                }
                Poll::Ready(Some(Err(why))) => return Poll::Ready(Push::Ended(why)),
                Poll::Ready(None) | Poll::Pending => {}
            }
        }
        Poll::Pending
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn channels(&self) -> impl Iterator<Item = &Bytes> {
        self.0.iter().map(|it| &it.channel)
    }

    pub(super) fn has(&self, channel: &Bytes) -> bool {
        self.channels().any(|it| it == channel)
    }

    pub(super) fn add(&mut self, channel: &[u8], watch: HolderWatch, right: Right) {
        self.0.push(Subscription {
            // A copy, because a part of a request keeps the whole request in memory.
            channel: Bytes::copy_from_slice(channel),
            freed: Box::pin(freed(watch, right)),
        });
    }

    pub(super) fn end(&mut self, channel: &Bytes) {
        self.0.retain(|it| it.channel != channel);
    }

    /// The reply that confirms a change of the channels.
    pub(super) fn confirmed(&self, kind: &'static str, channel: Option<Bytes>) -> Reply {
        let channel = channel.map_or(Reply::Null, Reply::Bulk);
        let count = Reply::number(self.0.len() as u64);
        Reply::Push(vec![Reply::bulk(kind), channel, count])
    }
}

/// Yields an item each time the lock becomes free, and an error within a second of the end of the
/// client's access.
fn freed(
    watch: HolderWatch,
    right: Right,
) -> impl Stream<Item = Result<(), NotLetIn>> + Send + Sync {
    stream::unfold((watch, right), |(watch, right)| async move {
        let item = tokio::select! {
            () = watch.freed() => right.check(),
            why = right.ended() => Err(why),
        };
        Some((item, (watch, right)))
    })
}

pub(super) fn only_subscribed(command: &str) -> Reply {
    let text = format!(
        "ERR Can't execute '{command}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
         RESET are allowed in this context"
    );
    Reply::error(text)
}
