//! An open file of a simulated disk.

use std::io;
use std::sync::MutexGuard;

use super::names::NodeId;
use super::operation::{Call, Failure, Operation, Outcome, digest};
use super::{SimulatedDisk, State};
use crate::DiskFile;

pub(super) struct SimulatedFile {
    pub(super) disk: SimulatedDisk,
    pub(super) node: NodeId,
    /// As with the operating system, changes to such a file fail with `EBADF`.
    pub(super) read_only: bool,
}

impl SimulatedFile {
    fn operation(&self, state: &State, call: Call) -> Operation {
        Operation::new(call, &state.tree.path_of(self.node))
    }

    /// Returns the disk if the file was opened for writing.
    fn writable(&self) -> io::Result<MutexGuard<'_, State>> {
        if self.read_only {
            return Err(rustix::io::Errno::BADF.into());
        }
        Ok(self.disk.lock())
    }

    fn sync(&self, call: Call) -> io::Result<()> {
        let mut state = self.disk.lock();
        let operation = self.operation(&state, call);
        state.record(operation)?;
        if call == Call::SyncData {
            state = self.disk.hold(state);
        }
        state.sync(self.node)
    }
}

impl DiskFile for SimulatedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        let path = state.tree.path_of(self.node);
        state.begin_look(Call::Read, &path)?;
        state.content(self.node)?.read(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.writable()?;
        let operation = Operation {
            offset,
            len: buf.len() as u64,
            digest: digest(buf),
            ..self.operation(&state, Call::Write)
        };
        if let Some(short) = state.short_write(&operation) {
            state.record(Operation {
                outcome: Outcome::Failed,
                ..operation
            })?;
            let written = &buf[..short.min(buf.len())];
            state.content(self.node)?.write(written, offset);
            return Err(Failure::NoSpace.error());
        }
        let to_len = offset.saturating_add(buf.len() as u64);
        state.change_content(self.node, operation, to_len, |content| {
            content.write(buf, offset);
        })
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        let mut state = self.writable()?;
        let operation = Operation {
            len,
            ..self.operation(&state, Call::Reserve)
        };
        state.change_content(self.node, operation, len, |content| {
            content.set_len(len.max(content.len()));
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.writable()?;
        let operation = Operation {
            len,
            ..self.operation(&state, Call::SetLen)
        };
        state.change_content(self.node, operation, 0, |content| content.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(Call::SyncData)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync(Call::SyncAll)
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.lock();
        let path = state.tree.path_of(self.node);
        state.begin_look(Call::Look, &path)?;
        Ok(state.content(self.node)?.len())
    }
}
