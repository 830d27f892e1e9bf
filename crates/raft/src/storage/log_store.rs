//! openraft's log storage over the write-ahead log.
//!
//! `append` inserts the entries in memory, passes their bytes to the log's writer thread and
//! returns at once. openraft is notified only after the `fdatasync`. Recent entries are kept
//! decoded, older ones are read from their segments.
//!
//! openraft's tasks call these functions, so none of them may block its thread on a disk. Waiting
//! for room in a full queue (for example, while the disk hangs) and reading segments therefore
//! happen on other threads.
//!
//! A purge that openraft requests is carried out only up to the older of the two kept snapshots, so
//! that if the newest snapshot turns bad, the older one and the log can replace it.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use openraft::OptionalSend;
use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use seqd_guards::is_out;
use seqd_net::Lock;
use seqd_wal::{Record, Recovered, Wal};
use tokio::sync::oneshot;

use crate::batch;
use crate::blocking;
use crate::records::{self, LogIdRecord, Restore, ToRecord, VoteRecord};
use crate::storage::entry_cache::EntryCache;
use crate::storage::failure::StorageFailure;
use crate::storage::promised::Promised;
use crate::storage::synced::Synced;
use crate::types::{Entry, LogId, Payload, TypeConfig, Vote, farther, reach};
use seqd_store::snapshot_file::InstalledMark;

/// The log for openraft. Clones share everything. One clone is a reader.
#[derive(Clone)]
pub(crate) struct LogStore {
    wal: Wal,
    shared: Arc<Shared>,
}

struct Shared {
    memory: Lock<Memory>,
    /// Index of the older kept snapshot. No purge passes it.
    purge_floor: Arc<AtomicU64>,
    /// Removed once the log is purged up to it.
    installed: OnceLock<Arc<InstalledMark>>,
    synced: Arc<Synced>,
    promised: Arc<Promised>,
    failure: StorageFailure,
}

#[derive(Default)]
struct Memory {
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
    last: Option<LogId>,
    recent: EntryCache,
}

impl LogStore {
    /// Wraps an opened log. `purge_floor` is the index up to which purges are carried out.
    pub(crate) fn new(
        wal: Wal,
        recovered: &Recovered,
        purge_floor: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let id = |bytes: &Vec<u8>| records::decode::<LogIdRecord>(bytes).map(Restore::restore);
        let vote = |bytes: &Vec<u8>| records::decode::<VoteRecord>(bytes).map(Restore::restore);
        let purged = recovered.purged.as_ref().map(|(_, meta)| id(meta));
        let purged = purged.transpose()?;
        let last = match &recovered.last {
            Some((_, bytes)) => Some(records::decode_entry(bytes)?.log_id()),
            None => purged,
        };
        let vote = recovered.vote.as_ref().map(vote).transpose()?;
        let committed = recovered.committed.as_ref().map(id).transpose()?;
        // The commit mark is not synced together with its entry, so it may be ahead of a torn tail.
        let committed = committed.and_then(|committed| last.map(|last| committed.min(last)));
        let memory = Memory {
            vote,
            committed,
            purged,
            last,
            ..Memory::default()
        };
        Ok(Self {
            wal,
            shared: Arc::new(Shared {
                memory: Lock::new(memory),
                purge_floor,
                installed: OnceLock::new(),
                synced: Arc::new(Synced::new(vote, last)),
                promised: Arc::new(Promised::new(vote)),
                failure: StorageFailure::default(),
            }),
        })
    }

    /// Sets the mark that is removed once the log is purged up to it.
    pub(crate) fn watch_mark(&self, mark: &Arc<InstalledMark>) {
        let _ = self.shared.installed.set(Arc::clone(mark));
    }

    /// The position of this log that is on the disk.
    pub(crate) fn synced(&self) -> Arc<Synced> {
        Arc::clone(&self.shared.synced)
    }

    /// The promises of this node to leaders.
    pub(crate) fn promised(&self) -> Arc<Promised> {
        Arc::clone(&self.shared.promised)
    }

    /// The place where the first error that is returned to openraft is kept.
    pub(crate) fn failure(&self) -> StorageFailure {
        self.shared.failure.clone()
    }

    /// The last entry's ID, or the purged one's if the log is empty.
    pub(crate) fn last(&self) -> Option<LogId> {
        self.shared.memory.lock().last
    }

    /// Ignores the tail that an installed snapshot covers. openraft purges the log only if the
    /// snapshot's log ID is greater than the last log ID, which is not the case for a tail of a
    /// later term.
    pub(crate) fn leave_out_covered_tail(&self, installed: Option<LogId>) {
        let mut memory = self.shared.memory.lock();
        if reach(installed) > reach(memory.last) && installed < memory.last {
            memory.last = memory.purged;
        }
    }

    pub(crate) fn purged(&self) -> Option<LogId> {
        self.shared.memory.lock().purged
    }

    pub(crate) fn vote(&self) -> Option<Vote> {
        self.shared.memory.lock().vote
    }

    /// The voters of the last membership after this position, applied or not; `None` if there is
    /// none. openraft begins with them.
    pub(crate) async fn voters_after(
        &self,
        position: Option<LogId>,
    ) -> io::Result<Option<BTreeSet<u64>>> {
        let index = |id: Option<LogId>| id.map_or(0, |id| id.index());
        let mut next = index(position).max(index(self.purged())) + 1;
        let last = index(self.last());
        let mut voters = None;
        while next <= last {
            let entries = self.read(next, last + 1, batch::MOST).await?;
            for entry in &entries {
                if let Payload::Membership(membership) = &entry.payload {
                    voters = Some(membership.voter_ids().collect());
                }
            }
            next += entries.len().max(1) as u64;
        }
        Ok(voters)
    }

    /// Returns whether neither a vote nor an entry was ever stored.
    pub(crate) fn is_pristine(&self) -> bool {
        let memory = self.shared.memory.lock();
        memory.vote.is_none() && memory.last.is_none()
    }

    /// Waits until the log's queue has room. The queue is full only while the disk hangs. openraft
    /// makes one of these calls at a time, so the room remains until the caller uses it.
    async fn room(&self) -> io::Result<()> {
        if self.wal.has_room() {
            return Ok(());
        }
        let wal = self.wal.clone();
        blocking::run(move || {
            wal.wait_for_room();
            Ok(())
        })
        .await
    }

    /// Returns the entries from `start` to before `end` without a gap; fewer only if the log ends
    /// or `max_bytes` is reached. Entries that leave the cache meanwhile are read from the disk.
    async fn read(&self, start: u64, end: u64, max_bytes: usize) -> io::Result<Vec<Entry>> {
        let read = self.read_through(start, end, max_bytes).await;
        self.shared.failure.keep("the log could not be read", read)
    }

    async fn read_through(&self, start: u64, end: u64, max_bytes: usize) -> io::Result<Vec<Entry>> {
        let mut next = start.max(self.wal.first_index());
        let mut found = Vec::new();
        let mut left = max_bytes;
        while next < end && (found.is_empty() || left > 0) {
            let (first_recent, (cached, bytes)) = {
                let memory = self.shared.memory.lock();
                (memory.recent.first(), memory.recent.slice(next, end, left))
            };
            left = left.saturating_sub(bytes);
            let before = found.len();
            found.extend(cached);
            if found.len() == before {
                let disk_end = first_recent.map_or(end, |first| end.min(first.max(next + 1)));
                let (wal, from) = (self.wal.clone(), next);
                for record in blocking::run(move || wal.read(from..disk_end, left)).await? {
                    left = left.saturating_sub(record.bytes.len());
                    found.push(records::decode_entry(&record.bytes)?);
                }
            }
            match found.last() {
                Some(entry) if found.len() > before => next = entry.index() + 1,
                _ => break,
            }
        }
        Ok(found)
    }
}

/// In a simulation, compares the entry with those of the other logs.
#[cfg(test)]
fn observe(before: Option<LogId>, entry: &Entry, bytes: &[u8]) {
    let term = |id: LogId| **id.committed_leader_id();
    if let Some(scope) = crate::platform::scope::current() {
        let terms = (term(entry.log_id()), before.map(term));
        scope.appended(entry.index(), terms, bytes);
    }
}

/// Waits for a callback of the log's writer thread.
async fn durable(start: impl FnOnce(seqd_wal::Done)) -> io::Result<()> {
    let (done, wait) = oneshot::channel();
    start(Box::new(move |result| {
        let _ = done.send(result);
    }));
    wait.await
        .unwrap_or_else(|_| Err(io::Error::other("the log's writer thread has ended")))
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        let start = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index + 1,
            Bound::Unbounded => self.purged().map_or(0, |id| id.index() + 1),
        };
        let end = match range.end_bound() {
            Bound::Included(index) => index + 1,
            Bound::Excluded(index) => *index,
            Bound::Unbounded => self.last().map_or(0, |id| id.index() + 1),
        };
        if start >= end {
            Ok(Vec::new())
        } else {
            self.read(start, end, usize::MAX).await
        }
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.vote())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        self.read(start, end, batch::MOST).await
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let memory = self.shared.memory.lock();
        Ok(LogState {
            last_purged_log_id: memory.purged,
            last_log_id: memory.last,
        })
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let bytes = records::encode(&vote.record())?;
        self.shared.promised.vote(vote);
        if !is_out!(VoteSynced) {
            self.room().await?;
            durable(|done| self.wal.save_vote(bytes, done)).await?;
        }
        self.shared.memory.lock().vote = Some(*vote);
        self.shared.synced.voted(*vote);
        #[cfg(test)]
        if let Some(scope) = crate::platform::scope::current().filter(|_| vote.committed) {
            scope.elected(vote.leader_id.term, vote.leader_id.voted_for);
        }
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        if let Some(id) = committed {
            self.wal.save_committed(records::encode(&id.record())?);
            self.shared.memory.lock().committed = Some(id);
        }
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.shared.memory.lock().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.room().await?;
        let mut batch = Vec::new();
        let last = {
            let mut memory = self.shared.memory.lock();
            for entry in entries {
                let bytes = entry.record().encode();
                let bytes = (self.shared.failure).keep("an entry could not be written", bytes)?;
                let index = entry.index();
                if let Some(last) = memory.last.filter(|last| last.index() + 1 != index) {
                    let gap = Err(io::Error::new(
                        io::ErrorKind::InvalidInput,
                        format!("entry {index} does not follow entry {}", last.index()),
                    ));
                    return (self.shared.failure).keep("an entry could not be written", gap);
                }
                #[cfg(test)]
                observe(memory.last, &entry, &bytes);
                self.shared.promised.append(&entry);
                memory.last = Some(entry.log_id());
                memory.recent.push(entry, bytes.len());
                batch.push(Record { index, bytes });
            }
            memory.last
        };
        let synced = self.synced();
        let done = move |result: io::Result<()>| {
            if let (Ok(()), Some(last)) = (&result, last) {
                synced.appended(last);
            }
            callback.io_completed(result);
        };
        if is_out!(EntriesSynced) {
            self.wal.append(batch, Box::new(|_| {}));
            done(Ok(()));
        } else {
            self.wal.append(batch, Box::new(done));
        }
        Ok(())
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> io::Result<()> {
        if self.last().map(|id| id.index()) <= last_log_id.map(|id| id.index()) {
            return Ok(());
        }
        self.room().await?;
        {
            let mut memory = self.shared.memory.lock();
            memory
                .recent
                .truncate_after(last_log_id.map(|id| id.index()));
            memory.last = last_log_id;
        }
        let index = last_log_id.map(|id| id.index());
        durable(|done| self.wal.truncate_after(index, done)).await?;
        self.shared.synced.cut(last_log_id);
        Ok(())
    }

    async fn purge(&mut self, log_id: LogId) -> io::Result<()> {
        let floor = self.shared.purge_floor.load(Ordering::Acquire);
        let upto = if log_id.index() <= floor || is_out!(PurgeClamp) {
            log_id
        } else if floor == 0 {
            // No older snapshot is kept, so the whole log stays.
            return Ok(());
        } else {
            // Purges up to the floor. The ID of its entry is known only while the entry exists.
            match self.read(floor, floor + 1, usize::MAX).await?.pop() {
                Some(entry) if entry.index() == floor => entry.log_id(),
                _ => return Ok(()),
            }
        };
        self.room().await?;
        let purged = {
            let mut memory = self.shared.memory.lock();
            if memory
                .purged
                .is_some_and(|purged| purged.index() >= upto.index())
            {
                return Ok(());
            }
            memory.recent.drop_upto(upto.index());
            memory.purged = Some(upto);
            memory.last = farther(memory.last, Some(upto));
            upto
        };
        let meta = records::encode(&purged.record())?;
        durable(|done| self.wal.purge(purged.index(), meta, done)).await?;
        self.shared.synced.purged(purged);
        match self.shared.installed.get() {
            Some(mark) => {
                let mark = Arc::clone(mark);
                let cleared = blocking::run(move || mark.clear_upto(purged.index())).await;
                (self.shared.failure).keep("cannot remove `snap/installed`", cleared)
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
