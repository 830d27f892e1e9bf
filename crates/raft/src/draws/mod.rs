//! Ordered values and timestamps: drawn by the leader from its windows, after a quorum has
//! confirmed the leadership. `docs/ORDERED.md` has the argument.
//!
//! - requests that wait, in rounds: this file
//! - a round at the leader: [`round`]; the confirmation: [`crate::confirm`]
//! - a round for the leader, at any other node: [`forward`]
//!
//! A caller that finds no round in progress runs one on its own task. Callers that arrive during a
//! round join the next one, which one of them runs. No timer delays a request. A draw for which its
//! window is too short continues in a second queue, whose rounds wait for the log, so that it delays
//! no other draw.
//!
//! Invariants:
//! - The leadership is confirmed after the last request of a round has arrived, and before the first
//!   value of the round is drawn.
//! - A round that is refused has drawn nothing. A value whose response is lost is never issued again.
//! - While requests wait, one caller has the baton. A caller that is dropped passes it on.

mod forward;
#[cfg(test)]
mod model;
pub(crate) mod round;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use seqd_net::Lock;
use seqd_state::codec::frame;
use seqd_state::{Draw, Drawn, Refusal, Tenant};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::handle::ProposeError;
use crate::messages::{DrawReply, DrawRequest, DrawResponse, ForwardRefusal};
use crate::node::Node;
use crate::pool::{Part, Pool};
use crate::proposer::route::{RETRY, Route, not_in_time, route};

/// Largest number of draws that wait at one node: several times the number of its connections. With
/// its name, each takes less than 1 KiB.
const WAITING: u64 = 16_384;

/// Largest number of draws in one round: with their names, less than one message to the leader.
const ROUND: usize = 1024;

/// Pause between two checks whether the leader's clock is known, which takes a second or less.
const CLOCK_LOOK: Duration = Duration::from_millis(20);

/// The reason why a draw was refused. Nothing was drawn.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DrawError {
    #[error(transparent)]
    Refused(Refusal),
    /// The last timestamp is too far ahead of the clock.
    #[error("the clock is {ms} ms behind the timestamps that were issued")]
    Ahead { ms: u64 },
    /// A new leader has yet to compare its clock with a majority, as timestamps need.
    #[error("the leader does not know yet whether its clock is right")]
    ClockUnknown,
    /// Nothing was issued, so the request can be repeated.
    #[error(transparent)]
    Propose(ProposeError),
}

/// The result of a draw; `None` if its window is too short and the round did not wait.
type Answer = Option<Result<Drawn, DrawError>>;

/// The results of the draws of a round, in order.
type Results = Vec<Answer>;

/// A request of one of this node's callers.
struct PendingDraw {
    draw: Draw,
    deadline: Instant,
    reply: oneshot::Sender<Answer>,
    /// Takes the right to run the next round; `None` if the caller has received it.
    turn: Option<oneshot::Sender<Baton>>,
    /// Held here too, because a caller that is gone leaves its request in the queue.
    _place: Arc<Part>,
}

/// Accepts draws.
pub(crate) struct Draws {
    places: Arc<Pool>,
    immediate: Arc<Shared>,
    waiting: Arc<Shared>,
}

struct Shared {
    node: Arc<Node>,
    queue: Lock<Queue>,
    /// True if the rounds of this queue extend windows that are too short.
    waits: bool,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<PendingDraw>,
    is_running: bool,
}

impl Draws {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        let places = Pool::new(node.context.settings.tenant_share, WAITING);
        let shared = |waits| {
            Arc::new(Shared {
                node: Arc::clone(&node),
                queue: Lock::default(),
                waits,
            })
        };
        let (immediate, waiting) = (shared(false), shared(true));
        Self {
            places,
            immediate,
            waiting,
        }
    }

    /// Draws values for one of this node's callers.
    pub(crate) async fn draw(
        &self,
        tenant: Tenant,
        draw: Draw,
        deadline: Instant,
    ) -> Result<Drawn, DrawError> {
        let limit = usize::try_from(WAITING).unwrap_or(usize::MAX);
        let place = self.places.take(tenant, 1);
        let place = place.ok_or(DrawError::Propose(ProposeError::Overloaded { limit }))?;
        let place = Arc::new(place);
        loop {
            let mut answer = self.immediate.draw(draw.clone(), deadline, &place).await;
            if answer.is_none() {
                answer = self.waiting.draw(draw.clone(), deadline, &place).await;
            }
            let no_leader = || Err(DrawError::Propose(ProposeError::no_leader()));
            match answer.unwrap_or_else(no_leader) {
                Err(DrawError::ClockUnknown) if Instant::now() + CLOCK_LOOK < deadline => {
                    tokio::time::sleep(CLOCK_LOOK).await;
                }
                drawn => return drawn,
            }
        }
    }

    /// Draws values for a peer that considers this node the leader. The peer gave its promise after
    /// its requests had arrived, so they join no round.
    pub(crate) async fn forwarded(&self, from: u64, group: DrawRequest) -> DrawReply {
        let node = &self.immediate.node;
        let refused = |error| DrawReply(Err(ForwardRefusal::Propose(error).of_peer()));
        if group.draws.len() > ROUND {
            let detail = format!("{} draws at once; {ROUND} are allowed", group.draws.len());
            return refused(ProposeError::TooLarge { detail });
        }
        let deadline = Instant::now() + Duration::from_millis(group.timeout_ms);
        match route(node, deadline, true).await {
            Route::Here(_) => {}
            Route::Nowhere(error) => return refused(certain(error)),
            // A second hop could form a loop.
            Route::NotLeader | Route::There { .. } => {
                return DrawReply(Err(ForwardRefusal::NotLeader));
            }
        }
        let sender = Some((from, group.promised.term));
        match round::round(node, (&group.draws, group.waits), deadline, sender).await {
            Ok(Some(drawn)) => DrawReply(Ok(drawn.into_iter().map(response).collect())),
            Ok(None) => DrawReply(Err(ForwardRefusal::NotLeader)),
            Err(error) => refused(certain(error)),
        }
    }
}

impl Shared {
    /// Draws in a round of this queue.
    async fn draw(self: &Arc<Self>, draw: Draw, deadline: Instant, place: &Arc<Part>) -> Answer {
        let (reply, mut answer) = oneshot::channel();
        let (turn, mut next) = oneshot::channel();
        let baton = self.push(PendingDraw {
            draw,
            deadline,
            reply,
            turn: Some(turn),
            _place: Arc::clone(place),
        });
        let answered = async {
            let baton = match baton {
                Some(baton) => baton,
                None => tokio::select! {
                    biased;
                    answer = &mut answer => return answer,
                    Ok(baton) = &mut next => baton,
                },
            };
            baton.run().await;
            answer.await
        };
        match timeout_at(deadline, answered).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) if self.node.context.is_stopped() => {
                Some(Err(DrawError::Propose(ProposeError::Stopping)))
            }
            // A draw whose deadline has passed is dropped.
            Ok(Err(_)) | Err(_) => Some(Err(DrawError::Propose(not_in_time(&self.node)))),
        }
    }

    /// Queues a request. Returns the baton if no round is in progress.
    fn push(self: &Arc<Self>, waiting: PendingDraw) -> Option<Baton> {
        let mut queue = self.queue.lock();
        queue.waiting.push_back(waiting);
        let is_running = std::mem::replace(&mut queue.is_running, true);
        (!is_running).then(|| Baton::new(self))
    }
}

/// The right to run a round. When it is dropped, the requests of an unfinished round return to the
/// queue, and the right passes to the next caller that waits.
struct Baton {
    shared: Option<Arc<Shared>>,
    round: Vec<PendingDraw>,
}

impl Baton {
    fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Some(Arc::clone(shared)),
            round: Vec::new(),
        }
    }

    /// Runs a round for the callers that wait.
    async fn run(mut self) {
        let Some(shared) = self.shared.clone() else {
            return;
        };
        {
            let mut queue = shared.queue.lock();
            while self.round.len() < ROUND
                && let Some(waiting) = queue.waiting.pop_front()
            {
                // Behind many callers that are gone, this one would have no part in its own round.
                if !waiting.reply.is_closed() {
                    self.round.push(waiting);
                }
            }
        }
        serve(&shared.node, &mut self.round, shared.waits).await;
    }
}

impl Drop for Baton {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else {
            return;
        };
        for waiting in self.round.drain(..).rev() {
            shared.queue.lock().waiting.push_front(waiting);
        }
        let mut baton = Self::new(&shared);
        loop {
            let turn = {
                let mut queue = shared.queue.lock();
                let turn = queue.waiting.iter_mut().find_map(|next| next.turn.take());
                queue.is_running = turn.is_some();
                if turn.is_none() {
                    // All callers that are left in the queue are gone.
                    queue.waiting.clear();
                }
                turn
            };
            let Some(turn) = turn else {
                baton.shared = None;
                return;
            };
            // A caller that is gone returns it.
            match turn.send(baton) {
                Ok(()) => return,
                Err(returned) => baton = returned,
            }
        }
    }
}

/// Finds the leader, has the draws made there, and answers each caller. A group whose answer is lost
/// is drawn again: the values of the lost answer are never issued. A round that waits is repeated
/// for draws whose windows other rounds have used up after each extension.
async fn serve(node: &Arc<Node>, group: &mut Vec<PendingDraw>, waits: bool) {
    loop {
        let now = Instant::now();
        group.retain(|waiting| !waiting.reply.is_closed() && waiting.deadline > now);
        let Some(deadline) = group.iter().map(|waiting| waiting.deadline).max() else {
            return;
        };
        let route = route(node, deadline, false).await;
        // Callers that left while there was no leader need no values.
        group.retain(|waiting| !waiting.reply.is_closed());
        let draws: Vec<Draw> = group.iter().map(|waiting| waiting.draw.clone()).collect();
        let drawn = match route {
            Route::Here(_) => round::round(node, (&draws, waits), deadline, None).await,
            Route::There { node: leader, addr } => {
                forward::round(node, (leader, &addr), (draws, waits), deadline).await
            }
            Route::NotLeader => Ok(None),
            Route::Nowhere(error) => Err(error),
        };
        match drawn {
            Ok(Some(drawn)) => {
                for (waiting, drawn) in std::mem::take(group).into_iter().zip(drawn) {
                    if waits && drawn.is_none() {
                        group.push(waiting);
                    } else {
                        let _ = waiting.reply.send(drawn);
                    }
                }
                if !group.is_empty() {
                    tokio::time::sleep(RETRY).await;
                }
            }
            Ok(None) => tokio::time::sleep(RETRY).await,
            Err(error) => {
                let error = DrawError::Propose(certain(error));
                for waiting in group.drain(..) {
                    let _ = waiting.reply.send(Some(Err(error.clone())));
                }
            }
        }
    }
}

/// A draw has no unknown outcome: a value that was drawn for a lost answer is never issued.
fn certain(error: ProposeError) -> ProposeError {
    match error {
        ProposeError::OutcomeUnknown { detail } => ProposeError::NoQuorum { detail },
        error => error,
    }
}

fn response(answer: Answer) -> DrawResponse {
    let Some(drawn) = answer else {
        return DrawResponse::Short;
    };
    match drawn {
        Ok(drawn) => DrawResponse::Drawn(drawn),
        Err(DrawError::Ahead { ms }) => DrawResponse::Ahead { ms },
        Err(DrawError::ClockUnknown) => DrawResponse::ClockUnknown,
        // The peer that asked does not stop.
        Err(DrawError::Propose(ProposeError::Stopping | ProposeError::NodeRemoved)) => {
            DrawResponse::Failed(ProposeError::no_leader())
        }
        Err(DrawError::Propose(error)) => DrawResponse::Failed(error),
        Err(DrawError::Refused(refusal)) => match frame::write_all(&[refusal]) {
            Ok(mut frames) if frames.len() == 1 => DrawResponse::Refused(frames.remove(0)),
            _ => DrawResponse::Failed(ProposeError::no_leader()),
        },
    }
}
