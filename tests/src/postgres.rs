//! A PostgreSQL server for one test, in a temporary folder and on a socket in it. Dropping it ends
//! the server and removes the folder.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{skips, wait};

/// The longest start on a busy machine.
const STARTED: Duration = Duration::from_secs(60);

pub struct Postgres {
    folder: TempDir,
    programs: PathBuf,
    server: Child,
}

/// The folder of the server's programs, and the user that runs them, because the server refuses to
/// run as root.
struct Installed {
    programs: PathBuf,
    user: Option<(u32, u32)>,
}

/// The reason why PostgreSQL is not available. `None` if it is.
#[must_use]
pub fn missing() -> Option<String> {
    let is_missing = installed().is_none();
    is_missing.then(|| skips::missing("PostgreSQL", "postgresql"))
}

fn installed() -> Option<Installed> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    let programs = folders
        .filter(|folder| folder.join("initdb").exists())
        .max()?;
    let user = if rustix::process::geteuid().is_root() {
        let users = fs::read_to_string("/etc/passwd").ok()?;
        let line = users.lines().find(|line| line.starts_with("postgres:"))?;
        let mut ids = line.split(':').skip(2).map(|field| field.parse().ok());
        Some((ids.next()??, ids.next()??))
    } else {
        None
    };
    Some(Installed { programs, user })
}

impl Installed {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        // A folder that the other user may enter.
        command.current_dir("/").stdin(Stdio::null());
        command
    }
}

impl Postgres {
    /// Starts a server with an empty database.
    #[must_use]
    pub fn start() -> Self {
        let installed = installed().expect("asked before");
        let folder = tempfile::tempdir().expect("a folder");
        if let Some((user, group)) = installed.user {
            chown(folder.path(), Some(user), Some(group)).expect("as root");
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("own folder");
        let data = folder.path().join("data");
        let made = installed
            .command("initdb")
            .args(["--auth=trust", "--username=postgres", "--no-sync", "-D"])
            .arg(&data)
            .output()
            .expect("initdb starts");
        assert!(made.status.success(), "{made:?}");
        let server = installed
            .command("postgres")
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(folder.path())
            .args(["-c", "listen_addresses=", "-c", "fsync=off"])
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("log")).expect("own folder"))
            .spawn()
            .expect("the server starts");
        let postgres = Self {
            programs: installed.programs,
            folder,
            server,
        };
        wait::until("PostgreSQL answers", STARTED, || {
            let answer = postgres.sql("SELECT 1");
            answer.status.success().then_some(())
        });
        postgres
    }

    /// Runs SQL in one session, which ends at the first error.
    #[must_use]
    pub fn sql(&self, sql: &str) -> Output {
        self.session(sql).output().expect("psql starts")
    }

    /// The session, not started yet.
    #[must_use]
    pub fn session(&self, sql: &str) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command
            .arg("-h")
            .arg(self.folder.path())
            .args(["-U", "postgres", "-X", "-q", "-A", "-t"])
            .args(["-v", "ON_ERROR_STOP=1", "-c", sql])
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // An immediate shutdown: the data is never read again.
        let _ = kill_process(Pid::from_child(&self.server), Signal::QUIT);
        let _ = self.server.wait();
    }
}
