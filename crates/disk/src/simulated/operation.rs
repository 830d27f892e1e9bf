//! Recorded operations of a simulated disk, and planted errors and lies.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A kind of call. All but the last three change the disk, and are recorded and numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    CreateDir,
    Create,
    /// Renames a file or folder.
    Rename,
    Remove,
    /// Removes a folder with its content.
    RemoveDir,
    /// `fsync` of a folder.
    SyncDir,
    Write,
    Reserve,
    /// Truncates or extends a file.
    SetLen,
    /// `fdatasync`.
    SyncData,
    /// `fsync` of a file.
    SyncAll,
    Open,
    Read,
    /// Lists a folder, or looks up a name or a length.
    Look,
}

/// One recorded call.
#[derive(Clone, Debug)]
pub struct Operation {
    pub number: u64,
    pub call: Call,
    /// The path of the object at that time.
    pub path: PathBuf,
    pub to: Option<PathBuf>,
    /// The offset of a write.
    pub offset: u64,
    /// The number of written bytes, or the requested length.
    pub len: u64,
    /// A hash of the written bytes.
    pub digest: u64,
    pub outcome: Outcome,
}

impl Operation {
    pub(super) fn new(call: Call, path: &Path) -> Self {
        Self {
            number: 0,
            call,
            path: path.to_path_buf(),
            to: None,
            offset: 0,
            len: 0,
            digest: 0,
            outcome: Outcome::Done,
        }
    }

    pub(super) fn hash_into(&self, hash: &mut u64) {
        mix(hash, self.call as u64);
        for byte in self.path.as_os_str().as_encoded_bytes() {
            mix(hash, u64::from(*byte));
        }
        for word in [self.offset, self.len, self.digest, self.outcome as u64] {
            mix(hash, word);
        }
    }
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Failed,
    /// The operation was not possible: the name does not exist or already exists, or there is no
    /// space.
    Refused,
    /// The operation returned `Ok` but was not performed.
    Lied,
    PowerFailed,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>5} {:?} {}",
            self.number,
            self.call,
            self.path.display()
        )?;
        match self.call {
            Call::Rename => {
                if let Some(to) = &self.to {
                    write!(f, " to {}", to.display())?;
                }
            }
            Call::Write => write!(f, " at {} {} bytes", self.offset, self.len)?,
            Call::Reserve | Call::SetLen => write!(f, " {} bytes", self.len)?,
            _ => {}
        }
        match self.outcome {
            Outcome::Done => Ok(()),
            Outcome::Failed => write!(f, ": failed"),
            Outcome::Refused => write!(f, ": refused"),
            Outcome::Lied => write!(f, ": a lie"),
            Outcome::PowerFailed => write!(f, ": the power failed"),
        }
    }
}

/// FNV-1a over words. It is fast and the same on every machine.
pub(super) fn mix(hash: &mut u64, word: u64) {
    *hash = (*hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
}

/// Returns a hash of bytes, eight at a time.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        mix(&mut hash, u64::from_le_bytes(word));
    }
    for byte in chunks.remainder() {
        mix(&mut hash, u64::from(*byte));
    }
    hash
}

/// The effect of a planted fault on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `EIO`. For a sync, the data that should have become durable counts as clean afterwards, but
    /// is not durable.
    InputOutput,
    /// `ENOSPC`.
    NoSpace,
    /// A write ends after this many bytes with `ENOSPC`. Any other call fails with `ENOSPC`.
    ShortWrite(usize),
}

impl Failure {
    pub(super) fn error(self) -> io::Error {
        match self {
            Self::InputOutput => rustix::io::Errno::IO.into(),
            Self::NoSpace | Self::ShortWrite(_) => rustix::io::Errno::NOSPC.into(),
        }
    }
}

/// An error on selected calls.
#[derive(Clone, Debug)]
pub struct Fault {
    call: Call,
    failure: Failure,
    part: String,
    skip: u64,
    spent: bool,
}

impl Fault {
    /// Makes the next such call fail, once.
    #[must_use]
    pub fn on(call: Call, failure: Failure) -> Self {
        Self {
            call,
            failure,
            part: String::new(),
            skip: 0,
            spent: false,
        }
    }

    /// Limits the fault to paths that contain `part`.
    #[must_use]
    pub fn at(mut self, part: impl Into<String>) -> Self {
        self.part = part.into();
        self
    }

    /// Lets this many such calls succeed first.
    #[must_use]
    pub fn after(mut self, calls: u64) -> Self {
        self.skip = calls;
        self
    }

    pub(super) fn strikes(&mut self, call: Call, path: &Path) -> Option<Failure> {
        let meant = call == self.call && path.to_string_lossy().contains(&self.part);
        if !meant || self.spent {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.spent = true;
        Some(self.failure)
    }

    pub(super) fn failure(&self) -> Failure {
        self.failure
    }

    pub(super) fn is_spent(&self) -> bool {
        self.spent
    }
}

/// Selects the operations that return `Ok` without being performed.
pub(super) type Lie = Arc<dyn Fn(&Operation) -> bool + Send + Sync>;

/// The error of every call after the power is off.
pub(super) fn power_is_off() -> io::Error {
    io::Error::other("the power is off")
}
