//! `SUBSCRIBE` to the channels of Redisson's locks: a message is sent when the lock becomes free.

use bytes::Bytes;
use seqd_api::{Problem, Typed as _, op};
use tokio::time::Instant;

use super::channels::{FREE, MOST_CHANNELS, Push};
use super::connection::Client;
use super::errors::shown;
use super::redisson_scripts::lock_of_channel;
use super::reply::{Reply, Version};
use super::request::text;
use crate::admission::{Admitted, Sender, refusal};
use crate::services::{ServiceError, lock_name};

/// The reason why a client has not subscribed to a channel.
enum Refused {
    /// The reply for a channel that is never permitted.
    Channel(Reply),
    Problem(Problem),
}

impl Client {
    /// Returns whether the connection accepts only commands for subscriptions: in version 2 of the
    /// protocol, as soon as the client has subscribed.
    pub(super) fn is_subscribed(&self) -> bool {
        self.version == Version::Two && !self.subscriptions.is_empty()
    }

    /// The reply that sends a message of a subscription, without a request.
    pub(super) fn push(&mut self, push: Push) -> Reply {
        match push {
            Push::Message(channel) => Reply::Push(vec![
                Reply::bulk("message"),
                Reply::Bulk(channel),
                Reply::bulk(FREE),
            ]),
            Push::Ended(why) => {
                self.is_over = true;
                self.failed(&refusal(why))
            }
        }
    }

    /// `SUBSCRIBE CHANNEL...`
    pub(super) async fn subscribe(&mut self, channels: &[Bytes]) -> Reply {
        let begun = Instant::now();
        let sender = match self.session.let_in().await {
            Ok(sender) => sender,
            Err(refused) => {
                self.session.count("subscribe", 1, Some(&refused), begun);
                return self.failed(&refused);
            }
        };
        let (mut replies, mut error) = (Vec::new(), None);
        for channel in channels {
            match self.subscribed(channel, &sender).await {
                Ok(()) => {
                    let confirmed =
                        (self.subscriptions).confirmed("subscribe", Some(channel.clone()));
                    replies.push(confirmed);
                }
                Err(Refused::Channel(reply)) => {
                    replies.push(reply);
                    break;
                }
                Err(Refused::Problem(problem)) => {
                    replies.push(self.failed(&problem));
                    error = Some(problem);
                    break;
                }
            }
        }
        self.session.count("subscribe", 1, error.as_ref(), begun);
        Reply::Several(replies)
    }

    async fn subscribed(&mut self, channel: &Bytes, sender: &Sender) -> Result<(), Refused> {
        if self.subscriptions.has(channel) {
            return Ok(());
        }
        let named = text(channel);
        let Some(name) = lock_of_channel(&named) else {
            let text = format!(
                "ERR the channels here are those of Redisson's locks, \
                 redisson_lock__channel:{{NAME}}, not {}",
                shown(channel)
            );
            return Err(Refused::Channel(Reply::error(text)));
        };
        if self.subscriptions.len() >= MOST_CHANNELS {
            let text = format!("ERR a connection has at most {MOST_CHANNELS} channels");
            return Err(Refused::Channel(Reply::error(text)));
        }
        let request = self.session.request("subscribe", op::GetLock::ROW, name);
        let locks = &self.session.services().locks;
        let work = async |admitted: Admitted| {
            let name = lock_name(name)?;
            let watch = locks.watch_holder(name, admitted.tenant, admitted.deadline);
            Ok::<_, ServiceError>((watch.await?, admitted.right))
        };
        let watched = self.session.admitted(request, sender, work).await;
        let (watch, right) = watched.map_err(Refused::Problem)?;
        self.subscriptions.add(channel, watch, right);
        Ok(())
    }

    /// `UNSUBSCRIBE [CHANNEL...]`; without an argument, from all channels.
    pub(super) async fn unsubscribe(&mut self, channels: &[Bytes]) -> Reply {
        let allowed = self.session.local("unsubscribe", || ()).await;
        if let Err(refused) = allowed {
            return self.failed(&refused);
        }
        let subscriptions = &mut self.subscriptions;
        let ended: Vec<Bytes> = match channels {
            [] => subscriptions.channels().cloned().collect(),
            named => named.to_vec(),
        };
        if ended.is_empty() {
            return subscriptions.confirmed("unsubscribe", None);
        }
        let confirmed = ended.into_iter().map(|channel| {
            subscriptions.end(&channel);
            subscriptions.confirmed("unsubscribe", Some(channel))
        });
        Reply::Several(confirmed.collect())
    }
}
