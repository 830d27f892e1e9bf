//! Clients. Each sends one request after another to a node and records the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seqd_disk::simulated::Dice;
use seqd_state::idgen::{WallClock, WorkerId};
use seqd_state::{
    Command, Draw, DrawFrom, LeaseId, NextRequest, Outcome, SequenceCommand, SequenceMode,
    SequenceName, SequenceOutcome, TakeLease, Tenant, WorkerCommand, WorkerOutcome,
};
use seqd_store::testing::create_sequence;
use tokio::time::{Instant, sleep};

use super::history::{Ask, Got, Op};
use super::minters::{LAYOUT, fence_from};
use super::nodes::Cluster;
use crate::{MemberError, ProposeError, Raft};

/// Default timeout of a seqd client.
const PATIENCE: Duration = Duration::from_secs(3);

/// Time after which a client disconnects.
const GONE: Duration = Duration::from_secs(4);

/// A change of members may take longer.
const CHANGE: Duration = Duration::from_secs(10);

/// Strict sequences come first. The last of them is also advanced and deleted.
pub(super) const STRICT: usize = 3;
/// The ordered sequence, after the segment sequences.
pub(super) const ORDERED: usize = 5;
pub(super) const SEQUENCES: usize = 6;
/// The timestamps, which the checks treat as another sequence.
pub(super) const TIMESTAMPS: usize = 6;

pub(super) fn name(sequence: usize) -> SequenceName {
    let name = SequenceName::new(format!("s{sequence}"));
    name.unwrap_or_else(|_| unreachable!("it is a name"))
}

pub(super) fn create(sequence: usize) -> Command {
    let mode = match sequence {
        0..STRICT => SequenceMode::Strict,
        ORDERED => SequenceMode::Ordered,
        _ => SequenceMode::Segment,
    };
    create_sequence(&format!("s{sequence}"), mode, "")
}

/// The lease that an owner holds.
#[derive(Clone, Copy)]
struct Held {
    worker: u32,
    lease: u64,
}

struct Client {
    cluster: Arc<Cluster>,
    number: usize,
    dice: Dice,
    habit: Habit,
    held: Option<Held>,
}

/// The nodes to which a client sends its requests, and their frequency.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habit {
    /// The node that the client always uses, even while that node is cut off.
    pub(super) home: Option<usize>,
    /// The longest pause between two requests, milliseconds.
    pub(super) pause: u64,
    /// True if the client only reads, so that it waits for no write.
    pub(super) only_reads: bool,
    /// True if the client only draws ordered values.
    pub(super) only_draws: bool,
}

impl Habit {
    pub(super) fn new(dice: &mut Dice, nodes: usize, pauses: u64) -> Self {
        let home = dice.below(nodes as u64) as usize;
        Self {
            home: dice.chance(6).then_some(home),
            pause: [20, 150, 150, 150][dice.below(4) as usize] * pauses,
            only_reads: dice.chance(3),
            only_draws: false,
        }
    }
}

/// Sends requests until `over` is set.
pub(super) async fn live(
    cluster: Arc<Cluster>,
    number: usize,
    seed: u64,
    habit: impl FnOnce(&mut Dice) -> Habit,
    over: Arc<AtomicBool>,
) {
    let mut dice = Dice::new(seed);
    let habit = habit(&mut dice);
    let mut client = Client {
        cluster,
        number,
        dice,
        habit,
        held: None,
    };
    while !over.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(client.dice.below(client.habit.pause))).await;
        let running = client.cluster.running();
        if running.is_empty() {
            continue;
        }
        let any = running[client.dice.below(running.len() as u64) as usize];
        let home = client.habit.home.filter(|home| running.contains(home));
        let node = home.unwrap_or(any);
        let ask = client.next();
        client.ask(node, ask).await;
    }
}

impl Client {
    fn next(&mut self) -> Ask {
        let strict = self.dice.below(STRICT as u64) as usize;
        let last = STRICT - 1;
        if self.habit.only_reads {
            return Ask::Read { sequence: strict };
        }
        if self.habit.only_draws {
            return Ask::Take {
                sequence: ORDERED,
                count: 1,
            };
        }
        match self.dice.below(25) {
            0..=7 => Ask::Take {
                sequence: strict,
                count: 1 + self.dice.below(3),
            },
            8..=11 => Ask::Read { sequence: strict },
            12..=14 => Ask::Take {
                sequence: STRICT + self.dice.below((ORDERED - STRICT) as u64) as usize,
                count: 1 + self.dice.below(50),
            },
            15 => match self.dice.below(3) {
                0 => Ask::Delete { sequence: last },
                1 => Ask::Create { sequence: last },
                _ => Ask::Advance {
                    sequence: last,
                    by: self.dice.below(20),
                },
            },
            20..=22 => Ask::Take {
                sequence: ORDERED,
                count: 1 + self.dice.below(400),
            },
            23..=24 => Ask::Take {
                sequence: TIMESTAMPS,
                count: 1 + self.dice.below(3),
            },
            16 if self.held.is_some() => Ask::Release { owner: self.number },
            _ if self.held.is_some() => Ask::Extend { owner: self.number },
            _ => Ask::Lease { owner: self.number },
        }
    }

    async fn ask(&mut self, node: usize, ask: Ask) {
        let record = Arc::clone(&self.cluster.record);
        let number = record.begin(Op {
            node,
            ask: ask.clone(),
            called: record.now(),
            returned: None,
            got: Got::Waits,
        });
        let got = match &ask {
            Ask::Read { sequence } => self.read(node, *sequence).await,
            Ask::Take { sequence, count } if *sequence >= ORDERED => {
                self.draw(node, *sequence, *count).await
            }
            _ => match self.command(node, &ask) {
                Some(command) => self.propose(node, &ask, command).await,
                None => Got::Refused("there is no such sequence here".to_owned()),
            },
        };
        match (&ask, &got) {
            (Ask::Lease { .. } | Ask::Extend { .. }, Got::Window { worker, lease, .. }) => {
                let (worker, lease) = (*worker, *lease);
                self.held = Some(Held { worker, lease });
            }
            (Ask::Release { .. }, _) | (Ask::Extend { .. }, Got::Refused(_)) => self.held = None,
            _ => {}
        }
        record.end(number, got);
    }

    async fn read(&self, node: usize, sequence: usize) -> Got {
        let asked = self.cluster.ask(node, GONE, |raft: Raft| async move {
            raft.read(Instant::now() + PATIENCE).await?;
            let record = raft.state(|state| {
                let record = state.sequence_or_deleted(&name(sequence));
                record.map(|record| record.next_index)
            });
            Ok::<_, ProposeError>(record)
        });
        match asked.await {
            Some(Ok(Some(next))) => Got::Mark(next),
            Some(Ok(None)) => Got::Done("there is no such sequence".to_owned()),
            Some(Err(error)) => Got::Refused(error.to_string()),
            None => Got::Unknown("no answer".to_owned()),
        }
    }

    async fn draw(&self, node: usize, sequence: usize, count: u64) -> Got {
        let (from, first_value) = match sequence {
            ORDERED => (DrawFrom::Sequence(name(ORDERED)), 1),
            _ => (DrawFrom::Timestamps, 0),
        };
        let asked = self.cluster.ask(node, GONE, |raft: Raft| async move {
            let deadline = Instant::now() + PATIENCE;
            raft.draw(Tenant::OPERATOR, Draw { from, count }, deadline)
                .await
        });
        match asked.await {
            Some(Ok(drawn)) => Got::Range {
                first: (drawn.range.first - first_value).cast_unsigned(),
                count,
            },
            Some(Err(error)) => Got::Refused(error.to_string()),
            None => Got::Unknown("no answer".to_owned()),
        }
    }

    fn command(&self, node: usize, ask: &Ask) -> Option<Command> {
        let layout = seqd_state::idgen::Layout::preset(LAYOUT)?;
        let fence = fence_from(&layout, self.cluster.spots[node].clock.wall());
        let sequences = |command| Some(Command::Sequences(command));
        match ask {
            Ask::Take { sequence, count } if *sequence < STRICT => {
                sequences(SequenceCommand::Next(NextRequest {
                    name: name(*sequence),
                    count: *count,
                }))
            }
            Ask::Take { sequence, count } => sequences(SequenceCommand::GrantSegment {
                name: name(*sequence),
                size: *count,
                after: None,
            }),
            Ask::Advance { sequence, by } => {
                let process = self.cluster.process(node)?;
                let next = process.raft.state(|state| {
                    let record = state.sequence(&name(*sequence))?;
                    record.next_value()
                });
                sequences(SequenceCommand::Advance {
                    name: name(*sequence),
                    to: next? + *by as i64,
                })
            }
            Ask::Delete { sequence } => sequences(SequenceCommand::Delete {
                name: name(*sequence),
                if_revision: None,
            }),
            Ask::Create { sequence } => Some(create(*sequence)),
            Ask::Lease { owner } => Some(Command::Workers(WorkerCommand::TakeLease(TakeLease {
                tenant: seqd_state::Tenant::OPERATOR,
                layout: LAYOUT.to_owned(),
                owner: format!("owner-{owner}"),
                node: None,
                boot: 0,
                fence,
                datacenter: None,
            }))),
            Ask::Extend { .. } => self.held.map(|held| {
                Command::Workers(WorkerCommand::ExtendLease {
                    layout: LAYOUT.to_owned(),
                    worker: WorkerId(held.worker),
                    lease: LeaseId(held.lease),
                    fence,
                })
            }),
            Ask::Release { .. } => self.held.map(|held| {
                Command::Workers(WorkerCommand::ReleaseLease {
                    layout: LAYOUT.to_owned(),
                    worker: WorkerId(held.worker),
                    lease: LeaseId(held.lease),
                    last_tick: None,
                })
            }),
            Ask::Read { .. } | Ask::Change(_) => None,
        }
    }

    async fn propose(&self, node: usize, ask: &Ask, command: Command) -> Got {
        let asked = self.cluster.ask(node, GONE, |raft: Raft| async move {
            let deadline = Instant::now() + PATIENCE;
            raft.propose(vec![command], deadline).await
        });
        match asked.await {
            Some(Ok(outcomes)) => match outcomes.into_iter().next() {
                Some(outcome) => self.got(ask, outcome),
                None => Got::Unknown("an answer without an outcome".to_owned()),
            },
            Some(Err(ProposeError::OutcomeUnknown { detail })) => Got::Unknown(detail),
            Some(Err(error)) => Got::Refused(error.to_string()),
            None => Got::Unknown("no answer".to_owned()),
        }
    }

    fn got(&self, ask: &Ask, outcome: Outcome) -> Got {
        match outcome {
            Outcome::Sequences(SequenceOutcome::Next(grant)) => Got::Range {
                first: grant.first_index,
                count: grant.count,
            },
            Outcome::Sequences(SequenceOutcome::SegmentGranted(grant)) => Got::Range {
                first: grant.first_index,
                count: grant.count,
            },
            Outcome::Sequences(SequenceOutcome::Advanced { next_index, .. }) => {
                Got::Mark(next_index)
            }
            Outcome::Workers(WorkerOutcome::LeaseTaken(grant)) => Got::Window {
                worker: grant.worker.0,
                lease: grant.lease.0,
                from: grant.from_tick.0,
                fence: grant.fence.0,
            },
            Outcome::Workers(WorkerOutcome::LeaseExtended { fence }) => match self.held {
                Some(held) => Got::Window {
                    worker: held.worker,
                    lease: held.lease,
                    // The start of the lease's window is unchanged.
                    from: u64::MAX,
                    fence: fence.0,
                },
                None => Got::Unknown(format!("{ask:?} without a lease")),
            },
            Outcome::Refused(refusal) => Got::Refused(refusal.to_string()),
            other => Got::Done(format!("{other:?}")),
        }
    }
}

/// Requests a change of members from any running node. Returns whether it was carried out.
async fn change<F>(
    cluster: &Arc<Cluster>,
    what: String,
    ask: impl FnOnce(Raft, Instant) -> F,
) -> bool
where
    F: Future<Output = Result<String, MemberError>>,
{
    let Some(node) = cluster.running().into_iter().next() else {
        return false;
    };
    let record = &cluster.record;
    let number = record.begin(Op {
        node,
        ask: Ask::Change(what),
        called: record.now(),
        returned: None,
        got: Got::Waits,
    });
    let deadline = Instant::now() + CHANGE;
    let changed = cluster.ask(node, CHANGE + GONE, |raft| ask(raft, deadline));
    let (is_done, got) = match changed.await {
        Some(Ok(done)) => (true, Got::Done(done)),
        Some(Err(error)) => (false, Got::Refused(error.to_string())),
        None => (false, Got::Unknown("no answer".to_owned())),
    };
    record.end(number, got);
    is_done
}

pub(super) async fn move_leader(cluster: &Arc<Cluster>) {
    let moved = |raft: Raft, deadline| async move { raft.leader_move(None, deadline).await };
    change(cluster, "leader move".to_owned(), moved).await;
}

fn name_of(node: usize) -> String {
    format!("n{}", node + 1)
}

pub(super) async fn add(cluster: &Arc<Cluster>, node: usize) {
    let add = |raft: Raft, deadline| async move {
        let (name, peer) = (name_of(node), super::net::address(node));
        let added = raft.member_add(name, peer, None, deadline).await?;
        Ok(format!("{:?}", added.role))
    };
    change(cluster, format!("member add {}", name_of(node)), add).await;
}

pub(super) async fn promote(cluster: &Arc<Cluster>, node: usize) {
    let promote = |raft: Raft, deadline| async move {
        let promoted = raft.member_promote(name_of(node), deadline).await?;
        Ok(format!("{:?}", promoted.role))
    };
    change(
        cluster,
        format!("member promote {}", name_of(node)),
        promote,
    )
    .await;
}

pub(super) async fn remove(cluster: &Arc<Cluster>, node: usize) -> bool {
    let remove = |raft: Raft, deadline| async move {
        let removed = raft.member_remove(name_of(node), deadline).await?;
        Ok(format!("{:?}", removed.role))
    };
    change(cluster, format!("member remove {}", name_of(node)), remove).await
}
