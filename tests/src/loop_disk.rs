//! A separate disk for one node: a file system in a file, mounted through a loop device, whose
//! power can be cut.
//!
//! It needs root, loop devices, the tools of the file system and `xfs_io`. [`unavailable`] returns
//! what is missing. Dropping a disk unmounts it, frees its loop device and removes the file.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::FallocateFlags;

use crate::{skips, wait};

/// The smallest file system that `mkfs.xfs` makes without a warning has 300 MiB. The file is
/// sparse.
pub const ROOMY: u64 = 600 << 20;

/// The longest time for which a file system may stay busy after the processes that used it have
/// ended.
const BUSY: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    Xfs,
    /// ext4 with its default options.
    Ext4,
    /// A tmpfs instead of a disk. It can only be full; its power cannot be cut.
    Tmpfs,
}

impl FileSystem {
    pub fn named(name: &str) -> Option<Self> {
        [Self::Xfs, Self::Ext4, Self::Tmpfs]
            .into_iter()
            .find(|one| one.to_string() == name)
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Xfs => "xfs",
            Self::Ext4 => "ext4",
            Self::Tmpfs => "tmpfs",
        })
    }
}

/// The fate of data that was written but not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Data and names are lost.
    All,
    /// The journal of the file system still reaches the disk, data does not: names remain without
    /// contents.
    Data,
}

/// A mounted file system in a file.
#[derive(Debug)]
pub struct LoopDisk {
    kind: FileSystem,
    bytes: u64,
    image: PathBuf,
    mount: PathBuf,
    mounted: bool,
}

/// The reason why a disk whose power can be cut cannot be made here, with the remedy. `None` if it
/// can.
pub fn unavailable(kind: FileSystem) -> Option<String> {
    let cutter = (kind != FileSystem::Tmpfs).then(|| missing_tool("xfs_io", "xfsprogs"));
    cutter.flatten().or_else(|| cannot_mount(kind))
}

fn missing_tool(tool: &str, package: &str) -> Option<String> {
    let found = Command::new(tool).arg("-V").output();
    found.is_err().then(|| skips::missing(tool, package))
}

/// The reason why such a disk cannot be made here, with the remedy. `None` if it can.
pub fn cannot_mount(kind: FileSystem) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("mounting needs root".to_owned());
    }
    let package = match kind {
        FileSystem::Xfs => Some("xfsprogs"),
        FileSystem::Ext4 => Some("e2fsprogs"),
        FileSystem::Tmpfs => None,
    };
    let missing = package.and_then(|package| missing_tool(&format!("mkfs.{kind}"), package));
    if missing.is_some() {
        return missing;
    }
    let folder = tempfile::tempdir().expect("a folder");
    LoopDisk::try_create(kind, ROOMY, folder.path(), "probe").err()
}

impl LoopDisk {
    pub fn create(kind: FileSystem, bytes: u64, folder: &Path, name: &str) -> Self {
        Self::try_create(kind, bytes, folder, name).expect("a disk of its own")
    }

    fn try_create(kind: FileSystem, bytes: u64, folder: &Path, name: &str) -> Result<Self, String> {
        let mut disk = Self {
            kind,
            bytes,
            image: folder.join(format!("{name}.img")),
            mount: folder.join(format!("{name}.disk")),
            mounted: false,
        };
        let io = |error: std::io::Error| error.to_string();
        std::fs::create_dir_all(&disk.mount).map_err(io)?;
        if kind != FileSystem::Tmpfs {
            let image = File::create(&disk.image).map_err(io)?;
            image.set_len(bytes).map_err(io)?;
            let image = disk.image.display().to_string();
            run(&format!("mkfs.{kind}"), &["-q", &image])?;
        }
        disk.try_mount(&[])?;
        Ok(disk)
    }

    pub fn path(&self) -> &Path {
        &self.mount
    }

    /// Cuts the power: from now on nothing reaches the disk, and every use of it fails with `EIO`.
    /// The caller must then unmount it. After the next mount it contains what was synced.
    pub fn cut(&self, loss: Loss) {
        let command = match loss {
            Loss::All => "shutdown",
            Loss::Data => "shutdown -f",
        };
        run("xfs_io", &["-x", "-c", command, &self.mount_text()]).expect("a cut");
        let dead = File::create(self.mount.join("is-the-power-off"));
        assert!(dead.is_err(), "the cut did not bite");
    }

    pub fn unmount(&mut self) {
        let mut why = String::new();
        let done = wait::within(BUSY, || match run("umount", &[&self.mount_text()]) {
            Ok(()) => Some(()),
            Err(error) => {
                why = error;
                None
            }
        });
        assert!(done.is_some(), "{why}");
        self.mounted = false;
    }

    pub fn mount(&mut self) {
        self.try_mount(&[]).expect("it mounts again");
    }

    pub fn mount_read_only(&mut self) {
        self.try_mount(&["ro"]).expect("it mounts for reading");
    }

    fn try_mount(&mut self, options: &[&str]) -> Result<(), String> {
        let mount = self.mount_text();
        let size = format!("size={}", self.bytes);
        let mut options = options.to_vec();
        if self.kind == FileSystem::Tmpfs {
            options.push(&size);
            run(
                "mount",
                &["-t", "tmpfs", "-o", &options.join(","), "none", &mount],
            )?;
        } else {
            options.push("loop");
            let image = self.image.display().to_string();
            run("mount", &["-o", &options.join(","), &image, &mount])?;
        }
        self.mounted = true;
        Ok(())
    }

    /// Fills the disk except for `left` bytes. Free space never falls below that, because otherwise
    /// a node that is to refuse requests would exit.
    pub fn fill_but(&self, left: u64) -> Ballast {
        let known = rustix::fs::statvfs(&self.mount).expect("its free space");
        let free = known.f_bavail * known.f_frsize;
        self.take(free.saturating_sub(left))
    }

    /// Occupies this many bytes. Dropping the ballast frees them.
    pub fn take(&self, bytes: u64) -> Ballast {
        let ballast = Ballast(self.mount.join("ballast"));
        let file = File::create(&ballast.0).expect("a file");
        // Whole MiB, which leaves room for the file system's own records of the file.
        let whole = bytes >> 20 << 20;
        let taken = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, whole.max(1));
        taken.expect("room for a ballast");
        file.sync_all().expect("a ballast on the disk");
        ballast
    }

    /// Freezes the disk: a process that writes to it waits, and cannot even be killed. The disk
    /// thaws when the returned guard is dropped, and after `limit` in any case, even if this
    /// process has ended.
    pub fn freeze(&self, limit: Duration) -> Frozen {
        let mount = self.mount_text();
        // The timer is started first. It is a process that also thaws the disk when this process
        // ends, because its input then ends.
        let limit = limit.as_secs().max(1);
        let script = format!("timeout {limit} cat >/dev/null; fsfreeze -u '{mount}'");
        let timer = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a timer that thaws");
        let frozen = Frozen { timer };
        run("fsfreeze", &["-f", &mount]).expect("the disk freezes");
        frozen
    }

    fn mount_text(&self) -> String {
        self.mount.display().to_string()
    }

    /// Returns whether a file system is mounted there, in which case the folder is on another
    /// device than its parent.
    fn is_mounted(&self) -> bool {
        let device = |path: &Path| std::fs::symlink_metadata(path).map(|data| data.dev()).ok();
        let parent = self.mount.parent().and_then(device);
        // A file system whose power was cut may not respond at all.
        device(&self.mount) != parent
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        if self.mounted && self.is_mounted() {
            let gone = wait::within(BUSY, || run("umount", &[&self.mount_text()]).ok());
            if gone.is_none() {
                // Detached from the tree at once. The kernel frees it when its last user ends.
                let _ = run("umount", &["-l", &self.mount_text()]);
            }
        }
        let _ = std::fs::remove_dir(&self.mount);
        let _ = std::fs::remove_file(&self.image);
    }
}

/// A file that fills a disk. Dropping it removes the file.
#[derive(Debug)]
pub struct Ballast(PathBuf);

impl Drop for Ballast {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A frozen disk. Dropping this thaws it.
#[derive(Debug)]
pub struct Frozen {
    timer: Child,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        drop(self.timer.stdin.take());
        let _ = self.timer.wait();
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{program} {}: {}",
        arguments.join(" "),
        stderr.trim()
    ))
}
