//! A round at the leader: the leadership is confirmed, the values are drawn, and a window that is
//! short is extended through the log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use seqd_state::idgen::WallMs;
use seqd_state::{Command, Draw, DrawFrom, DrawResult, Refusal, SequenceRefusal, State, Windows};
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::{DrawError, Results, certain};
use crate::confirm::{FromSender, is_confirmed};
use crate::context::NodeContext;
use crate::handle::ProposeError;
use crate::leadership::Leading;
use crate::node::Node;
use crate::platform;
use crate::proposer::entry;
use crate::proposer::route::given_up;
use crate::replica::Replica;
use crate::types::Proposal;

/// The most extensions for one round. One is enough, unless the log voids the new windows, for
/// example by an advance.
const EXTENSIONS: usize = 4;

/// The longest time for which a transfer of leadership waits for the return of the windows. Without
/// the return, the new leader begins after a gap.
const RETURN_LIMIT: Duration = Duration::from_secs(1);

/// Pause between two checks whether a leadership has ended whose extension has no outcome yet.
const LEADERSHIP_LOOK: Duration = Duration::from_secs(1);

/// Draws for requests that have all arrived, before the sender of them gave its promise. If the
/// round waits, it extends the windows for draws that they are too short for; otherwise, and after
/// [`EXTENSIONS`], these stay without a result. Returns `None` if this node does not lead; nothing
/// was issued then.
pub(super) async fn round(
    node: &Arc<Node>,
    (draws, waits): (&[Draw], bool),
    deadline: Instant,
    sender: FromSender,
) -> Result<Option<Results>, ProposeError> {
    let Some(leader) = Leader::of(node) else {
        return Ok(None);
    };
    let is_confirmed = tokio::select! {
        biased;
        is_confirmed = is_confirmed(node, leader.replica, leader.leading.term, sender) => is_confirmed,
        lost = given_up(leader.replica, deadline) => return Err(lost),
    };
    if !is_confirmed {
        return Ok(None);
    }
    let mut results: Results = vec![None; draws.len()];
    let (mut extensions, mut alone) = (0, None);
    loop {
        let Some(lack) = leader.draw(draws, &mut results, alone.take()) else {
            return Ok(None);
        };
        if !lack.is_short || !waits || extensions == EXTENSIONS {
            if !lack.wanted.is_empty() {
                prefetch(node, &leader, lack.wanted);
            }
            return Ok(Some(results));
        }
        extensions += 1;
        match leader.extend(&lack.wanted, deadline).await {
            Ok(Some(held)) => alone = Some(held),
            // The values for the other requests of this round remain a gap.
            Ok(None) => return Ok(None),
            // The other requests of this round have their values.
            Err(error) => return Ok(Some(complete(results, &certain(error)))),
        }
    }
}

/// The results, with this error for the draws that have none.
fn complete(mut results: Results, error: &ProposeError) -> Results {
    for result in &mut results {
        result.get_or_insert_with(|| Err(DrawError::Propose(error.clone())));
    }
    results
}

/// Stops drawing in this leadership and returns the rest of the windows to the log, for a transfer.
pub(crate) async fn give_back(context: &NodeContext, replica: &Replica) {
    let Some(leading) = replica.leading() else {
        return;
    };
    let returned = async {
        let _alone = replica.windows.extending.lock().await;
        let commands = {
            let mut held = replica.windows.held.lock();
            let commands = held.of_term(leading.term).map(Windows::give_back);
            held.end(leading.term);
            commands.unwrap_or_default()
        };
        if !commands.is_empty() {
            let _ = entry::propose_as(context, replica, leading, commands).await;
        }
    };
    let _ = timeout(RETURN_LIMIT, returned).await;
}

/// Extends windows that are short or half used, without a caller that waits for it.
fn prefetch(node: &Arc<Node>, leader: &Leader<'_>, low: BTreeMap<DrawFrom, u64>) {
    let windows = &leader.replica.windows;
    if windows.is_prefetching.swap(true, Ordering::AcqRel) {
        return;
    }
    let (node, replica) = (Arc::clone(node), Arc::clone(leader.replica));
    let term = leader.leading.term;
    platform::spawn(async move {
        let leader = Leader::of(&node).filter(|leader| leader.leading.term == term);
        if let Some(leader) = leader
            && let Err(error) = leader.extend(&low, Instant::now() + entry::OWN_LIMIT).await
        {
            tracing::debug!(%error, "a window was not extended ahead of its end");
        }
        let is_prefetching = &replica.windows.is_prefetching;
        is_prefetching.store(false, Ordering::Release);
    });
}

/// The lock on extensions: no grant is in progress whose values the windows do not have yet.
type ExtensionLock = OwnedMutexGuard<()>;

/// The shortage of the windows after a round.
#[derive(Default)]
struct Lack {
    /// True if draws of the round have no result yet.
    is_short: bool,
    /// The values that the next extension provides; 0 for a window that is low.
    wanted: BTreeMap<DrawFrom, u64>,
}

/// This node under one confirmed leadership.
struct Leader<'a> {
    context: &'a NodeContext,
    replica: &'a Arc<Replica>,
    leading: Leading,
}

impl<'a> Leader<'a> {
    /// `None` if this node does not lead.
    fn of(node: &'a Node) -> Option<Self> {
        let replica = node.replica()?;
        Some(Self {
            context: &node.context,
            replica,
            leading: replica.leading()?,
        })
    }

    /// The cluster's judged wall clock; `None` while it is not known whether this node's is right.
    fn judged(&self) -> Option<WallMs> {
        entry::is_clock_known(self.context).then(|| entry::wall_time(self.context, self.leading))
    }

    /// Draws for all requests that have no result yet. A caller that has just extended the windows
    /// passes the lock on extensions. `None` if this node no longer draws in this term.
    fn draw(
        &self,
        draws: &[Draw],
        results: &mut Results,
        alone: Option<ExtensionLock>,
    ) -> Option<Lack> {
        let now = self.judged();
        let times = (now.unwrap_or_default(), self.leading.cluster_ms());
        let core = self.replica.applied.read();
        let mut held = self.replica.windows.held.lock();
        let windows = held.of_term(self.leading.term)?;
        // The log may have granted the last values to a window that does not have them yet.
        let is_extending = alone.is_none() && self.replica.windows.extending.try_lock().is_err();
        let mut lack = Lack::default();
        let mut last_from = None;
        for (draw, result) in draws.iter().zip(results) {
            if result.is_some() {
                continue;
            }
            *result = match draw_one(windows, &core.state, draw, now) {
                Ok(DrawResult::Drawn(drawn)) => Some(Ok(drawn)),
                Err(error) if !is_exhausted(&error) || !is_extending => Some(Err(error)),
                Ok(DrawResult::Short) | Err(_) => {
                    lack.is_short = true;
                    let wanted = lack.wanted.entry(draw.from.clone()).or_default();
                    *wanted = wanted.saturating_add(draw.count);
                    None
                }
            };
            if last_from.replace(&draw.from) == Some(&draw.from) {
                continue;
            }
            let from = draw.from.clone();
            let next_second = Draw { from, count: 0 };
            if windows.wanted(&core.state, &next_second, times).is_some() {
                lack.wanted.entry(next_second.from).or_default();
            }
        }
        Some(lack)
    }

    /// Has windows granted that have this many values left. Returns the lock on extensions, or
    /// `None` if this node no longer leads in this term. The extension continues when its caller
    /// leaves, and the next one waits for its outcome, so that requests that are not answered use up
    /// no values.
    async fn extend(
        &self,
        wanted: &BTreeMap<DrawFrom, u64>,
        deadline: Instant,
    ) -> Result<Option<ExtensionLock>, ProposeError> {
        let extending = Arc::clone(&self.replica.windows.extending);
        let alone = tokio::select! {
            biased;
            alone = extending.lock_owned() => alone,
            lost = given_up(self.replica, deadline) => return Err(lost),
        };
        let Some(commands) = self.wanted(wanted)? else {
            return Ok(None);
        };
        if commands.is_empty() {
            return Ok(Some(alone));
        }
        let (replica, leading) = (Arc::clone(self.replica), self.leading);
        let proposal = entry::encode(self.context, &replica, leading, commands.clone())?;
        let (done, outcome) = oneshot::channel();
        platform::spawn(async move {
            let granted = grant(&replica, leading, &commands, proposal).await;
            let _ = done.send(granted.map(|is_granted| is_granted.then_some(alone)));
        });
        tokio::select! {
            biased;
            outcome = outcome => outcome.unwrap_or(Ok(None)),
            lost = given_up(self.replica, deadline) => Err(lost),
        }
    }

    /// The commands that extend the windows; `None` if this node no longer draws in this term.
    fn wanted(
        &self,
        wanted: &BTreeMap<DrawFrom, u64>,
    ) -> Result<Option<Vec<Command>>, ProposeError> {
        let times = (self.judged().unwrap_or_default(), self.leading.cluster_ms());
        let core = self.replica.applied.read();
        let mut held = self.replica.windows.held.lock();
        let Some(windows) = held.of_term(self.leading.term) else {
            return Ok(None);
        };
        let wanted = wanted.iter().map(|(from, count)| Draw {
            from: from.clone(),
            count: *count,
        });
        let commands = wanted.filter_map(|draw| windows.wanted(&core.state, &draw, times));
        let commands: Vec<Command> = commands.collect();
        let space = &self.context.disk.space;
        if let Some(detail) = space.refusal(|| true)
            && (commands.iter()).any(|command| space.refuses(&core.state, command, true))
        {
            return Err(ProposeError::NoRoom { detail });
        }
        Ok(Some(commands))
    }
}

/// Proposes extensions and records their grants, however long they take under this leadership.
/// Returns `false` if the leadership has ended.
async fn grant(
    replica: &Replica,
    leading: Leading,
    commands: &[Command],
    proposal: Proposal,
) -> Result<bool, ProposeError> {
    let ended = async {
        loop {
            sleep(LEADERSHIP_LOOK).await;
            let leads_later = |now: Leading| now.term > leading.term;
            if replica.leading().is_some_and(leads_later) {
                return;
            }
        }
    };
    let outcomes = tokio::select! {
        biased;
        outcomes = entry::outcomes_of(replica, leading, proposal) => outcomes.transpose()?,
        () = ended => None,
    };
    let Some(outcomes) = outcomes else {
        return Ok(false);
    };
    let mut held = replica.windows.held.lock();
    let Some(windows) = held.of_term(leading.term) else {
        return Ok(false);
    };
    for (command, outcome) in commands.iter().zip(&outcomes) {
        windows.granted(leading.term, command, outcome, leading.cluster_ms());
    }
    Ok(true)
}

fn is_exhausted(error: &DrawError) -> bool {
    let DrawError::Refused(Refusal::Sequences(refusal)) = error else {
        return false;
    };
    matches!(refusal, SequenceRefusal::SequenceExhausted { .. })
}

fn draw_one(
    windows: &mut Windows,
    state: &State,
    draw: &Draw,
    now: Option<WallMs>,
) -> Result<DrawResult, DrawError> {
    if draw.from == DrawFrom::Timestamps {
        let now = now.ok_or(DrawError::ClockUnknown)?;
        let ms = windows.timestamps_wait_ms(state, draw.count, now);
        if ms > 0 {
            return Err(DrawError::Ahead { ms });
        }
    }
    let drawn = windows.draw(state, draw, now.unwrap_or_default());
    drawn.map_err(DrawError::Refused)
}
