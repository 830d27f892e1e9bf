//! Ordered values and timestamps: drawn by the leader from its windows, after a quorum has
//! confirmed the leadership. `docs/ORDERED.md` has the argument.
//!
//! - requests that wait, in rounds: this file
//! - a round at the leader: [`round`]
//! - a round for the leader, at any other node: [`forward`]
//!
//! A caller that finds no round in progress begins one. Callers that arrive during a round join the
//! next one. No timer delays a request.
//!
//! Invariants:
//! - The leadership is confirmed after the last request of a round has arrived, and before the first
//!   value of the round is drawn.
//! - A round that is refused has drawn nothing. A value whose response is lost is never issued again.

mod forward;
pub(crate) mod round;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seqd_state::codec::frame;
use seqd_state::{Draw, Drawn, Refusal, Tenant};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::handle::ProposeError;
use crate::messages::{DrawReply, DrawRequest, DrawResponse, ForwardRefusal};
use crate::node::Node;
use crate::platform;
use crate::pool::Pool;
use crate::proposer::route::{RETRY, Route, route};

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

/// A request of one of this node's callers, or a group from a peer.
struct Waiting {
    draws: Vec<Draw>,
    forwarded: bool,
    deadline: Instant,
    reply: oneshot::Sender<Reply>,
}

/// The results in the order of the draws, or the reason why nothing was drawn.
type Reply = Result<Vec<Result<Drawn, DrawError>>, ForwardRefusal>;

/// Accepts draws.
pub(crate) struct Draws {
    places: Arc<Pool>,
    shared: Arc<Shared>,
}

struct Shared {
    node: Arc<Node>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Waiting>,
    is_running: bool,
}

impl Draws {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        let places = Pool::new(node.context.settings.tenant_share, WAITING);
        let shared = Arc::new(Shared {
            node,
            queue: Mutex::default(),
        });
        Self { places, shared }
    }

    /// Draws values for one of this node's callers.
    pub(crate) async fn draw(
        &self,
        tenant: Tenant,
        draw: Draw,
        deadline: Instant,
    ) -> Result<Drawn, DrawError> {
        let limit = usize::try_from(WAITING).unwrap_or(usize::MAX);
        let room = self.places.take(tenant, 1);
        let _room = room.ok_or(DrawError::Propose(ProposeError::Overloaded { limit }))?;
        loop {
            match self.draw_once(draw.clone(), deadline).await {
                Err(DrawError::ClockUnknown) if Instant::now() + CLOCK_LOOK < deadline => {
                    tokio::time::sleep(CLOCK_LOOK).await;
                }
                drawn => return drawn,
            }
        }
    }

    async fn draw_once(&self, draw: Draw, deadline: Instant) -> Result<Drawn, DrawError> {
        let reply = self.wait(vec![draw], false, deadline).await;
        let mut drawn = reply.map_err(|refused| match refused {
            ForwardRefusal::Propose(error) => DrawError::Propose(error),
            ForwardRefusal::NotLeader => DrawError::Propose(ProposeError::no_leader()),
        })?;
        let lost = || DrawError::Propose(ProposeError::no_leader());
        drawn.pop().unwrap_or_else(|| Err(lost()))
    }

    /// Draws values for a peer that considers this node the leader.
    pub(crate) async fn forwarded(&self, group: DrawRequest) -> DrawReply {
        let deadline = Instant::now() + Duration::from_millis(group.timeout_ms);
        if group.draws.len() > ROUND {
            let detail = format!("{} draws at once; {ROUND} are allowed", group.draws.len());
            let error = ProposeError::TooLarge { detail };
            return DrawReply(Err(ForwardRefusal::Propose(error)));
        }
        let reply = self.wait(group.draws, true, deadline).await;
        DrawReply(reply.map(|drawn| drawn.into_iter().map(response).collect()))
    }

    async fn wait(&self, draws: Vec<Draw>, forwarded: bool, deadline: Instant) -> Reply {
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting {
            draws,
            forwarded,
            deadline,
            reply,
        };
        if self.shared.push(waiting) {
            platform::spawn(run(Arc::clone(&self.shared)));
        }
        match timeout_at(deadline, answer).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => Err(ForwardRefusal::Propose(ProposeError::Stopping)),
            Err(_) => Err(ForwardRefusal::Propose(ProposeError::no_leader())),
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request. Returns whether the caller has to begin a round.
    fn push(&self, waiting: Waiting) -> bool {
        let mut queue = self.queue();
        queue.waiting.push(waiting);
        !std::mem::replace(&mut queue.is_running, true)
    }

    /// Takes the requests of the next round; `None` if nobody waits.
    fn take(&self) -> Option<Vec<Waiting>> {
        let mut queue = self.queue();
        let mut draws = 0;
        let fits = queue.waiting.iter().take_while(|waiting| {
            draws += waiting.draws.len();
            draws <= ROUND
        });
        let count = fits.count();
        if queue.waiting.is_empty() {
            queue.is_running = false;
            return None;
        }
        Some(queue.waiting.drain(..count.max(1)).collect())
    }
}

/// Runs rounds until nobody waits.
async fn run(shared: Arc<Shared>) {
    while let Some(group) = shared.take() {
        serve(&shared, group).await;
    }
}

/// Finds the leader, has the draws made there, and answers each caller. A group whose answer is lost
/// is drawn again: the values of the lost answer are never issued.
async fn serve(shared: &Shared, mut group: Vec<Waiting>) {
    let node = &shared.node;
    loop {
        let now = Instant::now();
        group.retain(|waiting| !waiting.reply.is_closed() && waiting.deadline > now);
        let Some(deadline) = group.iter().map(|waiting| waiting.deadline).max() else {
            return;
        };
        let forwarded = group.iter().all(|waiting| waiting.forwarded);
        let route = route(node, deadline, forwarded).await;
        if !matches!(route, Route::Here(_)) {
            // A forwarded draw returns to the peer that sent it: a second hop could form a loop.
            let (theirs, own) = group.into_iter().partition(|waiting| waiting.forwarded);
            answer_all(theirs, &ForwardRefusal::NotLeader);
            group = own;
        }
        let draws: Vec<Draw> = (group.iter())
            .flat_map(|waiting| waiting.draws.iter().cloned())
            .collect();
        let drawn = match route {
            Route::Here(_) => round::round(node, &draws, deadline).await,
            Route::There { node: leader, addr } => {
                forward::round(node, (leader, &addr), draws, deadline).await
            }
            Route::NotLeader => return,
            Route::Nowhere(error) => {
                return answer_all(group, &ForwardRefusal::Propose(certain(error)));
            }
        };
        match drawn {
            Ok(Some(drawn)) => return hand_out(group, drawn),
            Ok(None) => tokio::time::sleep(RETRY).await,
            Err(error) => {
                return answer_all(group, &ForwardRefusal::Propose(certain(error)));
            }
        }
    }
}

/// A draw has no unknown outcome: a value that was drawn for a lost answer is issued to nobody.
fn certain(error: ProposeError) -> ProposeError {
    match error {
        ProposeError::OutcomeUnknown { detail } => ProposeError::NoQuorum { detail },
        error => error,
    }
}

fn answer_all(group: Vec<Waiting>, refused: &ForwardRefusal) {
    for waiting in group {
        let _ = waiting.reply.send(Err(refused.clone()));
    }
}

fn hand_out(group: Vec<Waiting>, drawn: Vec<Result<Drawn, DrawError>>) {
    let mut drawn = drawn.into_iter();
    for waiting in group {
        let own = drawn.by_ref().take(waiting.draws.len()).collect();
        let _ = waiting.reply.send(Ok(own));
    }
}

fn response(drawn: Result<Drawn, DrawError>) -> DrawResponse {
    match drawn {
        Ok(drawn) => DrawResponse::Drawn(drawn),
        Err(DrawError::Ahead { ms }) => DrawResponse::Ahead { ms },
        Err(DrawError::ClockUnknown) => DrawResponse::ClockUnknown,
        Err(DrawError::Propose(error)) => DrawResponse::Failed(error),
        Err(DrawError::Refused(refusal)) => match frame::write_all(&[refusal]) {
            Ok(mut frames) if frames.len() == 1 => DrawResponse::Refused(frames.remove(0)),
            _ => DrawResponse::Failed(ProposeError::no_leader()),
        },
    }
}
