//! The workload of the folder's node: the steps that a seed draws.

use std::io;
use std::sync::atomic::Ordering;

use openraft::storage::{IOFlushed, RaftLogStorage, RaftSnapshotBuilder, RaftStateMachine};
use openraft::type_config::TypeConfigExt;

use super::Plant;
use super::life::{Halt, Life, Step};
use super::log_model::{LogChange, decode};
use super::node::{CLUSTER, Node};
use crate::storage::applied::SnapshotHandle;
use crate::types::{LogId, TypeConfig, vote};
use seqd_store::folder::Identity;
use seqd_store::snapshot_file::Receiver;

impl Life {
    pub(super) fn step(&mut self, node: &mut Node) -> Step {
        match self.dice.below(100) {
            0..28 => self.append(node),
            28..46 => self.pump(node),
            46..60 => self.commit_and_apply(node),
            60..70 => self.checkpoint(node),
            70..76 => self.take_snapshot(node),
            76..82 => self.purge(node),
            82..85 => self.save_vote(node),
            85..88 => self.lose_tail(node),
            88..92 => self.install(node),
            92 => self.receive_half(node),
            93..95 => self.write_identity(node),
            95 => {
                self.note(|| "witness".to_owned());
                node.pump.write_witness();
                let failed = node.wal.failed().map(|failure| failure.to_io_error());
                self.done(failed.map_or(Ok(()), Err))
            }
            96..98 => self.restart(node, true),
            _ => self.restart(node, false),
        }
    }

    /// Lets the log write everything queued.
    fn pump(&mut self, node: &mut Node) -> Step {
        self.note(|| "pump".to_owned());
        node.pump.run();
        let failed = node.wal.failed().map(|failure| failure.to_io_error());
        self.done(failed.map_or(Ok(()), Err))?;
        // Nothing is queued after a run without a failure, so all callbacks received `Ok`.
        self.log.acknowledge_all();
        Ok(())
    }

    /// Appends the leader's entries, beginning with the entries that were committed without this
    /// node.
    fn append(&mut self, node: &mut Node) -> Step {
        let next = self.log.now.next();
        let committed = self.cluster.next();
        if let Some(conflict) = self.conflict() {
            return self.truncate(node, conflict.checked_sub(1));
        }
        let count = 1 + self.dice.below(4);
        let range = next..next + count;
        let entries: Vec<_> = range
            .map(|index| match self.cluster.at(index) {
                Some(known) if index < committed => known.entry.clone(),
                _ => self.cluster.propose(index, &mut self.dice),
            })
            .collect();
        self.note(|| format!("append {next}..{}", next + count));
        let bytes = entries
            .iter()
            .map(|entry| (entry.log_id.index(), super::log_model::encode(entry)))
            .collect();
        self.log.issue(LogChange::Append(bytes));
        let (signal, answer) = TypeConfig::oneshot();
        let appended = Node::drive(
            &node.pump,
            node.log.append(entries, IOFlushed::signal(signal)),
        );
        self.done(appended)?;
        if self.dice.chance(10) {
            node.pump.run();
            let answer = Node::drive(&node.pump, answer)
                .unwrap_or_else(|_| Err(io::Error::other("no answer")));
            self.done(answer)?;
            self.log.acknowledge_all();
        }
        Ok(())
    }

    /// The first entry of the node's log that differs from the committed entry of its index.
    fn conflict(&self) -> Option<u64> {
        let committed = self.cluster.next();
        self.log
            .now
            .entries
            .range(..committed)
            .find(|(index, bytes)| {
                self.cluster
                    .at(**index)
                    .is_some_and(|known| known.bytes != **bytes)
            })
            .map(|(index, _)| *index)
    }

    fn truncate(&mut self, node: &mut Node, after: Option<u64>) -> Step {
        self.note(|| format!("truncate after {after:?}"));
        let id = after.and_then(|index| self.log.now.id(index));
        self.log.issue(LogChange::Truncate(after));
        let done = Node::drive(&node.pump, node.log.truncate_after(id));
        self.done(done)?;
        self.log.acknowledge_all();
        self.figures.truncations += 1;
        Ok(())
    }

    fn commit_and_apply(&mut self, node: &mut Node) -> Step {
        if self.conflict().is_some() {
            return Ok(());
        }
        let mut left = self.dice.below(6);
        while left > 0 && self.cluster.next() < self.log.now.next() {
            let Some(bytes) = self.log.now.entries.get(&self.cluster.next()) else {
                break;
            };
            self.cluster.commit(decode(bytes));
            left -= 1;
        }
        let entries = self.unapplied(node, 6);
        let Some(last) = entries.last().map(|entry| entry.log_id) else {
            return Ok(());
        };
        self.note(|| format!("apply up to {}", last.index()));
        let saved = Node::drive(&node.pump, node.log.save_committed(Some(last)));
        self.done(saved)?;
        self.expected.may_apply(last);
        let applied = node.apply(entries);
        self.done(applied)
    }

    /// Committed entries of the node's own log that it has not applied, at most `below` of them.
    fn unapplied(&mut self, node: &Node, below: u64) -> Vec<crate::types::Entry> {
        let next = node.applied().map_or(0, |id| id.index() + 1);
        let end = self.cluster.next().min(self.log.now.next());
        let end = end.min(next + self.dice.below(below + 1));
        (next..end)
            .filter_map(|index| Some(self.cluster.at(index)?.entry.clone()))
            .collect()
    }

    fn checkpoint(&mut self, node: &mut Node) -> Step {
        self.note(|| "checkpoint".to_owned());
        let written = node.machine.checkpointer.tick();
        let written = self.done(written)?;
        self.expected.checkpointed(written);
        if self.plant != Plant::CheckpointAheadOfLog {
            // The checkpoint waited for the log, which wrote everything queued.
            let synced = node.wal.synced_index();
            if written.map(|id| id.index()) > synced {
                let why = format!("a checkpoint at {written:?}, the log is synced to {synced:?}");
                return Err(Halt::Wrong(why));
            }
        }
        Ok(())
    }

    fn take_snapshot(&mut self, node: &mut Node) -> Step {
        let Some(applied) = node.applied() else {
            return Ok(());
        };
        self.note(|| format!("snapshot at {}", applied.index()));
        let fed = if self.conflict().is_none() {
            self.unapplied(node, 4)
        } else {
            Vec::new()
        };
        if let Some(last) = fed.last() {
            self.expected.may_apply(last.log_id);
        }
        node.feed.lock().unwrap().extend(fed);
        if self.plant == Plant::PurgeBeforeSnapshot {
            node.purge_floor.store(applied.index(), Ordering::Release);
            self.purge_upto(node, applied)?;
        }
        let built = Node::drive(&node.pump, async {
            let mut builder = node.machine.get_snapshot_builder().await;
            builder.build_snapshot().await
        });
        node.feed.lock().unwrap().clear();
        let snapshot = self.done(built)?;
        self.figures.snapshots += 1;
        self.expected.took_snapshot(snapshot.meta.last_log_id);
        Ok(())
    }

    fn purge(&mut self, node: &mut Node) -> Step {
        let Some(newest) = self.expected.snapshot else {
            return Ok(());
        };
        let first = self.log.now.purged.map_or(0, |id| id.index() + 1);
        if newest.index() < first {
            return Ok(());
        }
        let upto = first + self.dice.below(newest.index() - first + 1);
        match self.cluster.id(upto) {
            Some(id) => self.purge_upto(node, id),
            None => Ok(()),
        }
    }

    fn purge_upto(&mut self, node: &mut Node, upto: LogId) -> Step {
        let floor = node.purge_floor.load(Ordering::Acquire);
        let upto = match floor {
            _ if upto.index() <= floor => upto,
            0 => return Ok(()),
            _ => match self.log.now.entries.get(&floor) {
                Some(bytes) => decode(bytes).log_id,
                None => return Ok(()),
            },
        };
        if self
            .log
            .now
            .purged
            .is_some_and(|purged| purged.index() >= upto.index())
        {
            return Ok(());
        }
        self.note(|| format!("purge up to {}", upto.index()));
        self.log.issue(LogChange::Purge(upto));
        let done = Node::drive(&node.pump, node.log.purge(upto));
        self.done(done)?;
        self.log.acknowledge_all();
        self.figures.purges += 1;
        Ok(())
    }

    fn save_vote(&mut self, node: &mut Node) -> Step {
        let vote = vote(
            self.cluster.term,
            1 + self.dice.below(3),
            self.dice.chance(8),
        );
        self.note(|| format!("vote {vote}"));
        self.log.issue(LogChange::Vote(vote));
        let done = Node::drive(&node.pump, node.log.save_vote(&vote));
        self.done(done)?;
        self.log.acknowledge_all();
        Ok(())
    }

    /// Elects another leader, which lacks this node's last entries.
    fn lose_tail(&mut self, node: &mut Node) -> Step {
        let (committed, next) = (self.cluster.next(), self.log.now.next());
        if committed == 0 || next <= committed || self.conflict().is_some() {
            return Ok(());
        }
        self.cluster.term += 1;
        let after = committed - 1 + self.dice.below(next - committed);
        self.truncate(node, Some(after))
    }

    /// Lets the cluster continue without this node.
    fn be_away(&mut self) {
        if self.dice.chance(8) {
            self.cluster.term += 1;
        }
        for _ in 0..=self.dice.below(12) {
            let index = self.cluster.next();
            let known = self.log.now.entries.get(&index).cloned();
            let entry = match known {
                // This node's entries may have been committed, or replaced by a new leader.
                Some(bytes) if self.conflict().is_none() && self.dice.chance(8) => decode(&bytes),
                _ => {
                    if self.log.now.entries.contains_key(&index) {
                        self.cluster.term += 1;
                    }
                    self.cluster.propose(index, &mut self.dice)
                }
            };
            self.cluster.commit(entry);
        }
    }

    fn receive(&mut self, node: &Node, bytes: &[u8]) -> Result<Receiver, Halt> {
        let snapshots = node.folder.snapshots();
        let receiver = Receiver::create(node.folder.disk(), &snapshots);
        let mut receiver = self.done(receiver)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let size = (1 + self.dice.below(4000) as usize).min(rest.len());
            let (chunk, behind) = rest.split_at(size);
            let written = receiver.write(chunk);
            self.done(written)?;
            rest = behind;
        }
        Ok(receiver)
    }

    /// Receives a part of a snapshot.
    fn receive_half(&mut self, node: &mut Node) -> Step {
        if self.cluster.next() == 0 {
            return Ok(());
        }
        self.note(|| "half a transfer".to_owned());
        let (_, bytes) = self.cluster.snapshot();
        let part = self.dice.below(bytes.len() as u64) as usize;
        let receiver = self.receive(node, &bytes[..part])?;
        let refused = receiver.finish(CLUSTER);
        if !self.disk.is_off() && refused.is_ok() {
            return Err(Halt::Wrong("half a snapshot was accepted".to_owned()));
        }
        Ok(())
    }

    fn install(&mut self, node: &mut Node) -> Step {
        self.be_away();
        let (meta, bytes) = self.cluster.snapshot();
        let Some(last) = meta.last_log_id else {
            return Ok(());
        };
        self.note(|| format!("install the snapshot at {}", last.index()));
        let receiver = self.receive(node, &bytes)?;
        let received = self.done(receiver.finish(CLUSTER))?;
        let own = self.log.now.id(last.index());
        if own.is_some_and(|own| own != last) {
            // Like openraft, removes all entries that this node does not have recorded as
            // committed.
            self.truncate(node, node.applied().map(|id| id.index()))?;
        }
        self.expected.may_install(last);
        let handle = SnapshotHandle::Received(Box::new(received));
        let installed = Node::drive(&node.pump, node.machine.install_snapshot(&meta, handle));
        self.done(installed)?;
        self.figures.installs += 1;
        self.expected.installed(last);
        self.log.issue(LogChange::Purge(last));
        let purged = Node::drive(&node.pump, node.log.purge(last));
        self.done(purged)?;
        self.log.acknowledge_all();
        Ok(())
    }

    pub(super) fn write_identity(&mut self, node: &mut Node) -> Step {
        let number = self.dice.below(1_000);
        self.note(|| format!("identity {number}"));
        let identity = Identity {
            cluster_id: CLUSTER.to_owned(),
            node: 1,
            name: "n1".to_owned(),
            members: Vec::new(),
            founder: false,
            joined: true,
            ancestors: vec![format!("A{number}")],
        };
        self.expected.identity_next = Some(identity.clone());
        let written = node.folder.write_identity(&identity);
        self.done(written)?;
        self.expected.identity = self.expected.identity_next.take();
        Ok(())
    }
}
