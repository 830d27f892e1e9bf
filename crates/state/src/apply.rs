//! `apply`: the only operation that changes the state.
//!
//! It is a function of the state, the entry and the applied membership. It reads no clock, uses no
//! randomness, hash order or float, and touches only maps in memory, never a disk. It cannot fail:
//! a refusal is an outcome.

mod access;
mod cluster;
mod locks;
mod sequences;
mod workers;

use locks::Locks;
use seqd_guards::is_out;
use seqd_idgen::WallMs;

use crate::cluster::commands::{ClusterCommand, ClusterRefusal};
use crate::cluster::settings::Clock;
use crate::context::ApplyContext;
use crate::deadlines::{PASSED_PER_ENTRY, Passing};
use crate::domains::{Command, Outcome, Refusal};
use crate::entry::Entry;
use crate::keys::commands::KeyCommand;
use crate::level::LogPosition;
use crate::locks::commands::LockCommand;
use crate::sequences::commands::SequenceCommand;
use crate::stamp::Stamp;
use crate::state::State;
use crate::tokens::commands::OneTimeCommand;
use crate::workers::commands::WorkerCommand;
use crate::workers::past::Past;

/// The maximum number of deadlines per table that an entry with these commands passes. It is at
/// least the number of records that the entry creates, so that expired records are removed as fast
/// as new ones are added.
///
/// Part of the replicated state: another number requires another level.
fn most_passed(commands: &[Command]) -> usize {
    let made = commands.iter().map(|command| match command {
        Command::OneTime(OneTimeCommand::Issue { tokens, .. }) => tokens.len(),
        _ => 1,
    });
    made.sum::<usize>().max(PASSED_PER_ENTRY)
}

impl State {
    /// Applies the commands of an entry in order and returns one outcome for each.
    ///
    /// `membership` is the position of the entry that set the applied membership, which is compared
    /// with that of a raise of the level. Like the entry, it is determined by the log.
    pub fn apply(&mut self, entry: &Entry, membership: Option<LogPosition>) -> Vec<Outcome> {
        self.pass_time(entry.stamp, most_passed(&entry.commands));
        let wall_ms = entry.stamp.wall_ms;
        let apply = |command| {
            self.apply_command(wall_ms, membership, command)
                .unwrap_or_else(Outcome::Refused)
        };
        entry.commands.iter().map(apply).collect()
    }

    /// Sets the clock. The wall clock is that of the last entry, not the highest: an entry that a
    /// leader stamped while its clock was wrong has no effect on a backup that is taken later.
    fn pass_time(&mut self, stamp: Stamp, most_passed: usize) {
        let clock = self.tables.clock.entry((), Clock::default);
        clock.wall_ms = stamp.wall_ms.0;
        clock.cluster_ms = if is_out!(ClusterTimeRises) {
            stamp.cluster_ms
        } else {
            clock.cluster_ms.max(stamp.cluster_ms)
        };
        let now = clock.cluster_ms;
        self.lock_tally.ended.clear();
        for row_key in self.deadlines.pass(now, most_passed) {
            let (deadlines, tally) = (&mut self.deadlines, &mut self.lock_tally);
            self.tables.pass(&row_key, deadlines, tally);
        }
    }

    fn apply_command(
        &mut self,
        wall_ms: WallMs,
        membership: Option<LogPosition>,
        command: &Command,
    ) -> Result<Outcome, Refusal> {
        self.check_stamped(command)?;
        let cluster_ms = self.cluster_ms();
        let (tables, deadlines) = (&mut self.tables, &mut self.deadlines);
        let Some(settings) = tables.settings.get(&()) else {
            return match command {
                Command::Cluster(command @ ClusterCommand::Found(_)) => tables
                    .apply_to_cluster(membership, command)
                    .map(Outcome::from),
                _ => Err(ClusterRefusal::NotFounded.into()),
            };
        };
        let context = ApplyContext {
            settings,
            layouts: &tables.layouts,
            nodes: &tables.nodes,
            restoration: tables.restoration.get(&()),
            wall_ms,
            cluster_ms,
        };
        let counter = &mut tables.counter;
        Ok(match command {
            Command::Cluster(command) => tables.apply_to_cluster(membership, command)?.into(),
            Command::Workers(command) => {
                let past = Past {
                    leases: &mut tables.past_leases,
                    start: &mut tables.past_start,
                    index: &mut self.past_index,
                };
                let workers = &mut tables.workers;
                let outcome = workers.apply(counter, deadlines, past, &context, command);
                outcome?.into()
            }
            Command::Sequences(command) => tables.sequences.apply(counter, command)?.into(),
            Command::Layouts(command) => tables.layouts.apply(wall_ms, command)?.into(),
            Command::Access(command) => tables.access.apply(wall_ms, command)?.into(),
            Command::Keys(command) => {
                let keys = &mut tables.keys;
                keys.apply(counter, deadlines, &context, command)?.into()
            }
            Command::OneTime(command) => {
                tables.one_time.apply(deadlines, &context, command)?.into()
            }
            Command::Locks(command) => {
                let passing = Passing {
                    stamp_wall_ms: wall_ms,
                    cluster_ms,
                    counter,
                    deadlines,
                    tally: &mut self.lock_tally,
                };
                let mut locks = Locks::new(&mut tables.locks, passing);
                locks.apply(command)?.into()
            }
            #[cfg(feature = "test-next-level")]
            Command::Notes(command) => tables.notes.apply(deadlines, &context, command)?.into(),
        })
    }

    /// Refuses commands that draw from the counter until the start time of a restored cluster is
    /// stamped.
    fn check_stamped(&self, command: &Command) -> Result<(), Refusal> {
        let draws = matches!(
            command,
            Command::Cluster(
                ClusterCommand::AllocateNodeId(_)
                    | ClusterCommand::ResetWorkers { .. }
                    | ClusterCommand::RaiseTimestamps { .. }
            ) | Command::Workers(WorkerCommand::TakeLease(_))
                | Command::Sequences(
                    SequenceCommand::GrantSegment { .. } | SequenceCommand::GrantWindow { .. }
                )
                | Command::Keys(KeyCommand::Begin(_))
                | Command::Locks(LockCommand::Acquire(_))
        );
        match self.restoration() {
            Some(record) if draws && !record.stamped => {
                let backup_wall_ms = record.backup_wall_ms;
                Err(ClusterRefusal::RestorationNotStamped { backup_wall_ms }.into())
            }
            _ => Ok(()),
        }
    }
}
