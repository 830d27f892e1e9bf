//! Entries and heartbeats, and the number of messages in flight.
//!
//! A message with entries is sent once the previous one is answered. Entries that arrive meanwhile
//! go together, because fewer and larger messages are more efficient. A message without entries,
//! which carries a commit to an idle follower, delays nothing: entries follow it at once.
//! Otherwise, each of several values that are requested one after another would take two round
//! trips.
//!
//! An unanswered heartbeat is sent again at the heartbeat interval, and the first answer counts for
//! all of them. A follower therefore keeps contact with its leader even while an answer is late or
//! lost. openraft dates the answer to when it sent the first heartbeat, which is the earliest time
//! that the answer can prove.

use std::collections::VecDeque;
use std::pin::Pin;

use futures_util::stream::{self, FuturesOrdered, FuturesUnordered, Stream, StreamExt};
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::RPCError;
use openraft::network::RPCOption;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, StreamAppendResult};
use tokio::time::{MissedTickBehavior, interval};

use super::client::PeerClient;
use crate::types::{LogId, TypeConfig};

/// Largest number of messages in flight to one follower. All but one of them carry no entries.
const UNDER_WAY: usize = 4;

/// Largest number of repetitions of one heartbeat in flight. A peer that answers none of them is
/// unreachable.
const REPEATED: usize = 8;

type Appended = Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>;

/// An answer, and whether the peer took the whole message.
type Answer = (Appended, bool);

struct Pipeline<'s, S> {
    client: &'s PeerClient,
    requests: S,
    under_way: FuturesOrdered<BoxFuture<'s, Answer>>,
    /// For each message in flight, whether it carries entries.
    carry_entries: VecDeque<bool>,
    takes_requests: bool,
}

impl<S> Pipeline<'_, S> {
    fn takes_requests(&self) -> bool {
        self.takes_requests
            && self.carry_entries.len() < UNDER_WAY
            && !self.carry_entries.contains(&true)
    }
}

/// Sends the requests of a stream, and returns the answers in the same order.
pub(super) fn stream<'s, S>(
    client: &'s PeerClient,
    requests: S,
    option: RPCOption,
) -> BoxStream<'s, Appended>
where
    S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
{
    let pipeline = Pipeline {
        client,
        requests,
        under_way: FuturesOrdered::new(),
        carry_entries: VecDeque::new(),
        takes_requests: true,
    };
    Box::pin(stream::unfold(Some(pipeline), move |pipeline| {
        let option = option.clone();
        async move { next_answer(pipeline?, option).await }
    }))
}

/// Returns the next answer. The stream ends after an answer that is not a full success.
async fn next_answer<'s, S>(
    mut pipeline: Pipeline<'s, S>,
    option: RPCOption,
) -> Option<(Appended, Option<Pipeline<'s, S>>)>
where
    S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
{
    loop {
        let takes_requests = pipeline.takes_requests();
        if !takes_requests && pipeline.under_way.is_empty() {
            return None;
        }
        tokio::select! {
            biased;
            Some((answer, is_whole)) = pipeline.under_way.next() => {
                pipeline.carry_entries.pop_front();
                return Some((answer, is_whole.then_some(pipeline)));
            }
            request = pipeline.requests.next(), if takes_requests => match request {
                Some(request) => {
                    pipeline.carry_entries.push_back(!request.entries.is_empty());
                    let sent = send(pipeline.client, request, option.clone());
                    pipeline.under_way.push_back(Box::pin(sent));
                }
                None => pipeline.takes_requests = false,
            },
        }
    }
}

async fn send(
    client: &PeerClient,
    request: AppendEntriesRequest<TypeConfig>,
    option: RPCOption,
) -> Answer {
    let (prev, last) = ends(&request);
    match client.append(request, &option).await {
        Ok(response) => {
            let is_cut =
                matches!(&response, AppendEntriesResponse::PartialSuccess(id) if *id != last);
            let result = response.into_stream_result(prev, last);
            let is_whole = result.is_ok() && !is_cut;
            (Ok(result), is_whole)
        }
        Err(error) => (Err(error), false),
    }
}

/// The entry before a request's first entry, and its last entry.
fn ends(request: &AppendEntriesRequest<TypeConfig>) -> (Option<LogId>, Option<LogId>) {
    let last = request.entries.last().map(|entry| entry.log_id);
    (request.prev_log_id, last.or(request.prev_log_id))
}

/// The result of a heartbeat.
type Beat = Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>>;

/// Sends a heartbeat repeatedly until one is answered or all in flight have failed.
pub(super) async fn heartbeat(
    client: &PeerClient,
    request: AppendEntriesRequest<TypeConfig>,
    option: &RPCOption,
) -> Beat {
    let mut beats = interval(client.network.context.settings.heartbeat);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut under_way = FuturesUnordered::<Pin<Box<dyn Future<Output = Beat> + Send>>>::new();
    loop {
        tokio::select! {
            biased;
            Some(answer) = under_way.next() => {
                if answer.is_ok() || under_way.is_empty() {
                    return answer;
                }
            }
            _ = beats.tick(), if under_way.len() < REPEATED => {
                under_way.push(Box::pin(client.append(request.clone(), option)));
            }
        }
    }
}
