//! The events of the model, and the events that are possible in a state.

use seqd_idgen::WallMs;

use super::Check;
use super::world::World;

/// The kind of a process's next proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    Register,
    Take,
    Extend,
    Release,
    Grant,
    Return,
    Stamp,
}

/// An event. Processes are named by their index in the state, leaders by the reading of their
/// clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Action(pub(super) Event);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// One millisecond passes.
    Pass,
    /// A clock is set by this many milliseconds.
    Step {
        process: usize,
        by_ms: i64,
    },
    /// A proposal is made, committed and answered in one step.
    Done {
        process: usize,
        intent: Intent,
        leader: WallMs,
    },
    /// A proposal is made, and is in flight.
    Send {
        process: usize,
        intent: Intent,
    },
    /// The proposal that a process waits for is committed, and may be answered at once.
    Commit {
        process: usize,
        leader: WallMs,
        answered: bool,
    },
    /// A response that was in flight arrives.
    Arrive {
        process: usize,
    },
    /// A process stops waiting. Its proposal may still be in flight.
    GiveUp {
        process: usize,
    },
    /// A proposal is in flight a second time.
    Repeat {
        process: usize,
    },
    /// A proposal that no process waits for is committed.
    CommitStray {
        stray: usize,
        leader: WallMs,
    },
    Mint {
        process: usize,
    },
    /// A thread reads the clock and is stopped.
    Pause {
        process: usize,
    },
    /// The stopped thread continues and mints.
    Wake {
        process: usize,
    },
    /// A value of the segment is used.
    Use {
        process: usize,
    },
    Restart {
        process: usize,
    },
    /// A process starts on a copy of node 1's disk, from before or after its latest start.
    Twin {
        after: bool,
    },
    Backup,
    Restore,
}

impl Check {
    pub(super) fn events(&self, world: &World) -> Vec<Event> {
        let mut events = Vec::new();
        if world.ledger.broken.is_some() {
            return events;
        }
        let left = &world.left;
        let is_to_be_restored = self.scene.left.backups > 0 && world.ledger.restored.is_none();
        let last_ms = if is_to_be_restored {
            self.scene.restored_by_ms
        } else {
            self.scene.last_ms
        };
        if world.now < last_ms {
            events.push(Event::Pass);
        }
        for process in 0..world.processes.len() {
            if !world.processes[process].down {
                self.local(world, process, &mut events);
                self.proposals(world, process, &mut events);
            }
            if process < self.scene.nodes && left.restarts > 0 {
                events.push(Event::Restart { process });
            }
        }
        for stray in 0..world.strays.len() {
            let leaders = world.leaders(&self.scene).into_iter();
            events.extend(leaders.map(|leader| Event::CommitStray { stray, leader }));
        }
        if left.twins > 0 {
            events.extend([false, true].map(|after| Event::Twin { after }));
        }
        if left.backups > 0 && world.backup.is_none() {
            events.push(Event::Backup);
        }
        if world.backup.is_some() && world.ledger.restored.is_none() {
            events.push(Event::Restore);
        }
        events
    }

    /// The events of a process that do not involve the cluster.
    fn local(&self, world: &World, process: usize, events: &mut Vec<Event>) {
        let left = &world.left;
        let of = &world.processes[process];
        if left.steps > 0 {
            let steps = self.scene.clock_steps.iter();
            let steps = steps.filter(|by_ms| {
                let off_ms = of.off_ms + **by_ms;
                off_ms.abs() <= self.scene.most_off_ms
                    && world.now.checked_add_signed(off_ms).is_some()
            });
            events.extend(steps.map(|by_ms| Event::Step {
                process,
                by_ms: *by_ms,
            }));
        }
        if of.holder.is_some() {
            if left.mints > 0 && of.reading.is_some() {
                events.push(Event::Wake { process });
            }
            if left.mints > 0 {
                events.push(Event::Mint { process });
            }
            if left.pauses > 0 && of.reading.is_none() {
                events.push(Event::Pause { process });
            }
        }
        let has_value = of.segment.as_ref().is_some_and(|of| of.next < of.end);
        if left.values > 0 && has_value {
            events.push(Event::Use { process });
        }
    }

    /// The proposals of a process, and their possible fates.
    fn proposals(&self, world: &World, process: usize, events: &mut Vec<Event>) {
        let left = &world.left;
        let leaders = world.leaders(&self.scene);
        let Some(waiting) = &world.processes[process].waiting else {
            for intent in self.intents(world, process) {
                let leaders = leaders.iter();
                events.extend(leaders.map(|leader| Event::Done {
                    process,
                    intent,
                    leader: *leader,
                }));
                if left.late > 0 && intent != Intent::Stamp {
                    events.push(Event::Send { process, intent });
                }
            }
            return;
        };
        events.push(Event::GiveUp { process });
        if waiting.answer.is_some() {
            events.push(Event::Arrive { process });
            return;
        }
        for leader in leaders {
            events.extend([true, false].map(|answered| Event::Commit {
                process,
                leader,
                answered,
            }));
        }
        if left.repeats > 0 {
            events.push(Event::Repeat { process });
        }
    }

    fn intents(&self, world: &World, process: usize) -> Vec<Intent> {
        let left = &world.left;
        let of = &world.processes[process];
        if !of.started {
            return vec![Intent::Register];
        }
        let mut intents = Vec::new();
        match &of.holder {
            None if left.takes > 0 => intents.push(Intent::Take),
            Some(holder) if !holder.leaving => {
                if left.extends > 0 {
                    intents.push(Intent::Extend);
                }
                if left.releases > 0 {
                    intents.push(Intent::Release);
                }
            }
            _ => {}
        }
        let has_values = of.segment.as_ref().is_some_and(|of| of.next < of.end);
        if left.grants > 0 && !has_values {
            intents.push(Intent::Grant);
        }
        if left.returns > 0 && has_values {
            intents.push(Intent::Return);
        }
        if of.origin.node.is_some() && world.is_unstamped() {
            intents.push(Intent::Stamp);
        }
        intents
    }
}
