//! Recorded operations of a simulated disk, and planted errors and lies.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A kind of call. All but the last three change the disk, are recorded and numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    CreateDir,
    Create,
    /// A file or folder gets another name.
    Rename,
    Remove,
    /// A folder is removed with all that is in it.
    RemoveDir,
    /// `fsync` of a folder.
    SyncDir,
    Write,
    Reserve,
    /// A file is cut off or extended.
    SetLen,
    /// `fdatasync`.
    SyncData,
    /// `fsync` of a file.
    SyncAll,
    Open,
    Read,
    /// A folder is listed, or a name or a length is looked up.
    Look,
}

/// One recorded call.
#[derive(Clone, Debug)]
pub struct Operation {
    pub number: u64,
    pub call: Call,
    /// Of what, by the name that it had then.
    pub path: PathBuf,
    pub to: Option<PathBuf>,
    /// Where a write begins.
    pub offset: u64,
    /// How many bytes are written, or the length that is asked for.
    pub len: u64,
    /// A hash of the bytes that are written.
    pub digest: u64,
    pub zeroes: bool,
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
            zeroes: false,
            outcome: Outcome::Done,
        }
    }

    /// Whether the path contains `part`.
    #[must_use]
    pub fn is_on(&self, part: &str) -> bool {
        self.path.to_string_lossy().contains(part)
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

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Failed,
    /// It was not possible: nothing of that name, something of that name, no room.
    Refused,
    /// Its caller got `Ok`, and it was not done.
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

/// FNV-1a over words: quick, and the same everywhere.
pub(super) fn mix(hash: &mut u64, word: u64) {
    *hash = (*hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
}

/// A hash of bytes, eight at a time.
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

/// What a planted fault makes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `EIO`. For a sync: what should have become durable counts as clean afterwards, and is not.
    InputOutput,
    /// `ENOSPC`.
    NoSpace,
    /// A write ends after this many bytes with `ENOSPC`; any other call just fails with it.
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

/// An error on chosen calls.
#[derive(Clone, Debug)]
pub struct Fault {
    call: Call,
    failure: Failure,
    part: String,
    skip: u64,
    spent: bool,
}

impl Fault {
    /// The next such call fails, once.
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

    /// Only on paths that contain this.
    #[must_use]
    pub fn at(mut self, part: impl Into<String>) -> Self {
        self.part = part.into();
        self
    }

    /// So many such calls go well first.
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

/// Picks the operations that return `Ok` and are not done.
pub(super) type Lie = Arc<dyn Fn(&Operation) -> bool + Send + Sync>;

/// The error of every call once the power is off.
pub(super) fn power_is_off() -> io::Error {
    io::Error::other("the power is off")
}
