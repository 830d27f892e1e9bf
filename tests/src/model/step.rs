//! The effects of each event, on the processes, which act as a node's keeper and minter, and on the
//! log.

use std::fmt;

use seqd_idgen::{Mint, Tick, WallMs};
use seqd_state::{ClusterMs, Entry, Outcome, Stamp};

use super::action::{Event, Intent};
use super::ask::{Answer, Ask, Proposal};
use super::ledger::fences;
use super::minting::Kept;
use super::scene::WINDOW_MS;
use super::world::{Holder, Replicated, Segment, Waiting, World};
use super::{Check, Fault, starts};

/// The receiver of the sentences of a trace.
pub(super) type Trace<'a> = &'a mut dyn FnMut(fmt::Arguments<'_>);

impl Check {
    /// Executes an event. Returns `false` if it has no effect.
    pub(super) fn step(&self, world: &mut World, event: &Event, trace: Trace<'_>) -> bool {
        let happened = match *event {
            Event::Pass => {
                world.now += 1;
                trace(format_args!("it is {} ms", world.now));
                true
            }
            Event::Step { process, by_ms } => {
                world.left.steps -= 1;
                let of = &mut world.processes[process];
                of.off_ms += by_ms;
                let clock = of.clock(world.now);
                trace(format_args!(
                    "the clock of {of} is set by {by_ms} ms and shows {clock}"
                ));
                true
            }
            Event::Mint { process } => {
                let now = world.processes[process].clock(world.now);
                self.mint(world, process, now, trace)
            }
            Event::Pause { process } => {
                world.left.pauses -= 1;
                let now = world.now;
                let of = &mut world.processes[process];
                of.reading = Some(of.clock(now));
                let reading = of.clock(now);
                trace(format_args!(
                    "a thread of {of} reads {reading} from the clock and is stopped"
                ));
                true
            }
            Event::Wake { process } => self.wake(world, process, trace),
            Event::Use { process } => {
                world.left.values -= 1;
                self.use_value(world, process, trace);
                true
            }
            Event::Restart { process } => {
                self.restart(world, process, trace);
                true
            }
            Event::Twin { after } => {
                self.start_twin(world, after, trace);
                true
            }
            Event::Backup => {
                world.left.backups -= 1;
                world.backup = Some(world.replicated.clone());
                trace(format_args!("a backup is saved"));
                true
            }
            Event::Restore => {
                starts::restore(world, trace);
                true
            }
            _ => self.message(world, event, trace),
        };
        world.settle();
        happened
    }

    /// Executes an event that concerns a proposal.
    fn message(&self, world: &mut World, event: &Event, trace: Trace<'_>) -> bool {
        match *event {
            Event::Done {
                process,
                intent,
                leader,
            } => {
                let ask = self.ask(world, process, intent);
                let ask = match ask {
                    Ask::Stamp { .. } => Ask::Stamp { wall: leader },
                    ask => ask,
                };
                self.send(world, process, ask, trace);
                self.commit_waiting(world, process, leader, trace);
                self.arrive(world, process, trace);
            }
            Event::Send { process, intent } => {
                world.left.late -= 1;
                let ask = self.ask(world, process, intent);
                self.send(world, process, ask, trace);
                trace(format_args!("it is on its way"));
            }
            Event::Commit {
                process,
                leader,
                answered,
            } => {
                let of = &world.processes[process];
                trace(format_args!("what {of} proposed is committed"));
                self.commit_waiting(world, process, leader, trace);
                if answered {
                    self.arrive(world, process, trace);
                } else {
                    trace(format_args!("the answer is on its way"));
                }
            }
            Event::Arrive { process } => {
                trace(format_args!(
                    "the answer arrives at {}",
                    world.processes[process]
                ));
                self.arrive(world, process, trace);
            }
            Event::GiveUp { process } => give_up(world, process, trace),
            Event::Repeat { process } => {
                world.left.repeats -= 1;
                let of = &world.processes[process];
                trace(format_args!(
                    "what {of} proposed is on its way a second time"
                ));
                if let Some(waiting) = of.waiting.clone() {
                    world.stray(waiting.proposal);
                }
            }
            Event::CommitStray { stray, leader } => {
                let proposal = world.strays.remove(stray);
                let (by, ask) = (proposal.by, proposal.ask);
                trace(format_args!(
                    "what {by} proposed and waits for no longer is committed, {ask}"
                ));
                let before = world.replicated.clone();
                self.commit(world, &proposal, leader, trace);
                // A commit without a change leads to the same state as a proposal that is still in
                // flight.
                return world.replicated != before || world.ledger.broken.is_some();
            }
            _ => unreachable!("no message: {event:?}"),
        }
        true
    }

    fn mint(&self, world: &mut World, process: usize, now: WallMs, trace: Trace<'_>) -> bool {
        let of = &mut world.processes[process];
        let Some(holder) = &mut of.holder else {
            return false;
        };
        let Mint::Ready(run) = holder.kept.mint(&self.layout, self.scene.policy(), now) else {
            return false;
        };
        world.left.mints -= 1;
        let (lease, worker, tick) = (holder.lease, run.worker.0, run.tick);
        let sequence = run.first_sequence;
        trace(format_args!(
            "{of} mints with lease {lease} at a reading of {now}: worker {worker}, tick {tick}, \
             sequence {sequence}"
        ));
        for id in run.iter() {
            world.ledger.minted(lease, tick, id);
        }
        true
    }

    fn wake(&self, world: &mut World, process: usize, trace: Trace<'_>) -> bool {
        let reading = world.processes[process].reading.take();
        let of = &world.processes[process];
        trace(format_args!("the thread of {of} goes on"));
        if let Some(reading) = reading
            && !self.mint(world, process, reading, trace)
        {
            trace(format_args!("it gets no ID"));
        }
        true
    }

    fn use_value(&self, world: &mut World, process: usize, trace: Trace<'_>) {
        let of = &mut world.processes[process];
        if let Some(segment) = &mut of.segment {
            let value = segment.next;
            segment.next += 1;
            world.ledger.used(value);
            trace(format_args!("{of} uses the value at index {value}"));
        }
    }

    /// Executes the preparation of a proposal by the process, and returns the proposal.
    fn ask(&self, world: &mut World, process: usize, intent: Intent) -> Ask {
        let now = world.processes[process].clock(world.now);
        let fence = self.layout.fence_at(WallMs(now.0 + WINDOW_MS));
        let (layout, policy) = (&self.layout, self.scene.policy());
        let left = &mut world.left;
        let of = &mut world.processes[process];
        match (intent, &mut of.holder, &of.segment) {
            (Intent::Take, ..) => {
                left.takes -= 1;
                Ask::Take { fence }
            }
            (Intent::Extend, Some(holder), _) => {
                left.extends -= 1;
                if self.fault == Some(Fault::FenceBeforeCommit) {
                    holder.kept.extend(layout, policy, fence);
                }
                Ask::Extend {
                    worker: holder.kept.worker,
                    lease: holder.lease,
                    fence,
                }
            }
            (Intent::Release, Some(holder), _) => {
                left.releases -= 1;
                holder.leaving = true;
                let last = if self.fault == Some(Fault::LastTickBeforeClose) {
                    holder.kept.last_tick(layout, policy)
                } else {
                    holder.kept.close(layout, policy)
                };
                // If nothing was minted, the window may begin again where it began.
                let last = last.or_else(|| holder.kept.from.0.checked_sub(1).map(Tick));
                Ask::Release {
                    worker: holder.kept.worker,
                    lease: holder.lease,
                    last,
                }
            }
            (Intent::Grant, _, segment) => {
                left.grants -= 1;
                let after = segment.as_ref().map(|segment| segment.token);
                Ask::Grant { after }
            }
            (Intent::Return, _, Some(segment)) => {
                left.returns -= 1;
                let (token, first_unused) = (segment.token, segment.next);
                world.ledger.leaves(token, first_unused);
                if self.fault != Some(Fault::TailKept) {
                    of.segment = None;
                }
                Ask::Return {
                    token,
                    first_unused,
                }
            }
            (Intent::Stamp, ..) => Ask::Stamp { wall: now },
            (Intent::Register, ..) => Ask::Register,
            (intent, ..) => unreachable!("{intent:?} has nothing to be about"),
        }
    }

    fn send(&self, world: &mut World, process: usize, ask: Ask, trace: Trace<'_>) {
        let of = &mut world.processes[process];
        let by = of.origin;
        trace(format_args!("{of} proposes {ask}"));
        of.waiting = Some(Waiting {
            proposal: Proposal { by, ask },
            answer: None,
        });
    }

    fn commit_waiting(&self, world: &mut World, process: usize, leader: WallMs, trace: Trace<'_>) {
        let waiting = world.processes[process].waiting.clone();
        let proposal = waiting.expect("a proposal on its way").proposal;
        let answer = self.commit(world, &proposal, leader, trace);
        if let Some(waiting) = &mut world.processes[process].waiting {
            waiting.answer = Some(answer);
        }
    }

    /// Applies a proposal, as a separate entry, with the real state machine.
    fn commit(
        &self,
        world: &mut World,
        proposal: &Proposal,
        leader: WallMs,
        trace: Trace<'_>,
    ) -> Answer {
        let mut state = (*world.replicated.state).clone();
        let before = fences(&state);
        let entry = Entry {
            stamp: Stamp {
                wall_ms: leader,
                cluster_ms: ClusterMs(world.now),
            },
            commands: vec![proposal.command(self.scene.datacenter())],
        };
        let outcomes: Vec<Outcome> = state.apply(&entry, None);
        let answer = Answer::of(&outcomes[0]);
        trace(format_args!("by the leader's clock of {leader}: {answer}"));
        world
            .ledger
            .committed(proposal, answer, &before, &fences(&state));
        let with_clock = world.left.backups > 0;
        world.replicated = Replicated::new(state, with_clock);
        answer
    }

    /// Delivers an answer to the process that waits for it.
    fn arrive(&self, world: &mut World, process: usize, trace: Trace<'_>) {
        let of = &mut world.processes[process];
        let Some(waiting) = of.waiting.take() else {
            return;
        };
        let (layout, policy) = (&self.layout, self.scene.policy());
        match (waiting.answer, &mut of.holder) {
            (Some(Answer::Registered), _) => of.started = true,
            (Some(Answer::StaleStart), _) if !of.started => {
                of.down = true;
                trace(format_args!("{of} ends"));
            }
            (
                Some(Answer::Leased {
                    worker,
                    lease,
                    from,
                    fence,
                }),
                held,
            ) => {
                if self.fault == Some(Fault::GrantInstalledTwice) && held.is_none() {
                    of.waiting = Some(waiting);
                }
                of.holder = Some(Holder {
                    lease,
                    kept: Kept::new(worker, from, fence),
                    leaving: false,
                });
            }
            (Some(Answer::Extended { fence }), Some(holder)) => {
                holder.kept.extend(layout, policy, fence);
            }
            (Some(Answer::LeaseLost), Some(holder)) => {
                holder.kept.close(layout, policy);
                self.leave(world, process);
            }
            (Some(Answer::Granted { token, first, end }), _) => {
                of.segment = Some(Segment {
                    token,
                    next: first,
                    end,
                });
            }
            (_, Some(holder)) if holder.leaving => self.leave(world, process),
            (_, _) if matches!(waiting.proposal.ask, Ask::Return { .. }) => of.segment = None,
            _ => {}
        }
    }

    /// Removes the holder. A node that has released its worker has stopped.
    fn leave(&self, world: &mut World, process: usize) {
        let of = &mut world.processes[process];
        let left = of.holder.take();
        of.down = of.origin.node.is_some() && left.is_some_and(|holder| holder.leaving);
        of.reading = None;
    }
}

fn give_up(world: &mut World, process: usize, trace: Trace<'_>) {
    trace(format_args!(
        "{} waits for its answer no longer",
        world.processes[process]
    ));
    abandon(world, process);
    let of = &mut world.processes[process];
    if of.holder.as_ref().is_some_and(|holder| holder.leaving) {
        of.holder = None;
        of.reading = None;
        of.down = of.origin.node.is_some();
    }
}

/// The proposal of a process continues without it, unless it is committed.
pub(super) fn abandon(world: &mut World, process: usize) {
    if let Some(Waiting {
        proposal,
        answer: None,
    }) = world.processes[process].waiting.take()
    {
        world.stray(proposal);
    }
}
