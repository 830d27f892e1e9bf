//! Runs a command only while a lock is held.
//!
//! There are three processes. This process is the holder: it renews the lock and sends each new end
//! of the hold to its child, the [guardian], which starts the command and ends it in time. The
//! command therefore ends before the hold does, even if this process is stopped or killed or cannot
//! reach the cluster. If the guardian is killed, this process ends the command. Only if both are
//! killed does the command continue, and the fencing token distinguishes it from the next one.

mod control;
pub(crate) mod guardian;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, IsTerminal as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::str::FromStr;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, kill_process, kill_process_group, test_kill_process, test_kill_process_group,
};
use seqd_client::BootTime;
use tokio::net::UnixListener;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use self::control::{Control, Line};
use crate::failure::Failure;

/// The action on a command whose hold ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OnLost {
    /// SIGKILL.
    Kill,
    /// SIGTERM, then SIGKILL at the end of the hold.
    Term,
    /// This shell command with the process ID in `SEQD_PID`, then SIGKILL at the end of the hold.
    Run(String),
}

impl FromStr for OnLost {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.strip_prefix("run ")) {
            ("kill", _) => Ok(Self::Kill),
            ("term", _) => Ok(Self::Term),
            (_, Some(command)) => Ok(Self::Run(command.to_owned())),
            _ => Err("the action must be `kill`, `term` or `run CMD`"),
        }
    }
}

impl fmt::Display for OnLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill => f.write_str("kill"),
            Self::Term => f.write_str("term"),
            Self::Run(command) => write!(f, "run {command}"),
        }
    }
}

/// The times at which a command is asked to end and is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) asked: BootTime,
    pub(crate) killed: BootTime,
}

/// The time limit for the guardian to start the command.
const STARTS: Duration = Duration::from_secs(10);

/// A command that runs under a guardian.
pub(crate) struct Supervised {
    guardian: Child,
    control: Control,
    command: Target,
}

/// The recipient of signals for the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    pid: Pid,
    /// `true` if the command leads its own process group. On a terminal it does not, because it
    /// could not read from it.
    has_group: bool,
}

impl Target {
    /// Returns whether any of its processes exists.
    fn is_there(self) -> bool {
        let found = if self.has_group {
            test_kill_process_group(self.pid)
        } else {
            test_kill_process(self.pid)
        };
        found.is_ok()
    }

    fn signal(self, signal: Signal) {
        // The process may have ended.
        let _ = if self.has_group {
            kill_process_group(self.pid, signal)
        } else {
            kill_process(self.pid, signal)
        };
    }
}

/// The program of this process. Its file may have been replaced since the start, by an upgrade: on
/// Linux, the link still leads to the file that runs.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    std::env::current_exe().map(still_there)
}

/// Processes are listed with the name of their program, so the link is only used if it is needed.
fn still_there(program: PathBuf) -> PathBuf {
    let link = Path::new("/proc/self/exe");
    match program.exists() || !link.exists() {
        true => program,
        false => link.to_owned(),
    }
}

impl Supervised {
    /// Starts the command with these environment variables.
    pub(crate) async fn start(
        command: &[OsString],
        variables: &[(&str, String)],
        on_lost: &OnLost,
        ends: Ends,
    ) -> Result<Self, Failure> {
        let failed = |what: &str, error: io::Error| Failure::failed(format!("{what}: {error}"));
        let folder = tempfile::tempdir().map_err(|error| failed("no temporary folder", error))?;
        let socket = folder.path().join("control");
        let listener = UnixListener::bind(&socket)
            .map_err(|error| failed("no socket for the guardian", error))?;
        let program = own_program().map_err(|error| failed("no path to seqd", error))?;
        let has_group = !std::io::stdin().is_terminal();
        let mut guardian = Command::new(program);
        guardian
            .arg(guardian::COMMAND)
            .arg("--control")
            .arg(&socket);
        guardian.args(guardian::options(on_lost, ends));
        if has_group {
            guardian.arg("--group").process_group(0);
        }
        guardian.arg("--").args(command);
        guardian.envs(variables.iter().map(|(name, value)| (name, value)));
        let mut guardian = guardian
            .spawn()
            .map_err(|error| failed("the command was not started", error))?;
        let met = async {
            let (stream, _) = listener.accept().await.ok()?;
            let mut control = Control::new(stream);
            let Some(Line::Started { pid }) = control.next().await else {
                return None;
            };
            let pid = Pid::from_raw(pid)?;
            Some((control, Target { pid, has_group }))
        };
        tokio::select! {
            biased;
            Some((control, command)) = met => return Ok(Self { guardian, control, command }),
            // The time limit passed or the guardian ended, without a connection: it was not started
            // correctly.
            () = sleep(STARTS) => {}
            _ = guardian.wait() => {}
        }
        // Without a holder the guardian ends the command, or starts none.
        drop(listener);
        Err(not_started(guardian).await)
    }

    /// Reports a renewed hold: the command may run until its new end.
    pub(crate) async fn prolong(&mut self, ends: Ends) {
        self.send(Line::Until(ends)).await;
    }

    /// Reports a lost hold: the guardian ends the command.
    pub(crate) async fn stop(&mut self) {
        self.send(Line::Stop).await;
    }

    /// Kills the command without the guardian.
    pub(crate) fn kill(&self) {
        self.command.signal(Signal::KILL);
    }

    /// Forwards a signal, unless the terminal has sent it to the command too.
    pub(crate) fn pass_on(&self, signal: Signal) {
        let from_terminal = [Signal::INT, Signal::QUIT].contains(&signal);
        if self.command.has_group || !from_terminal {
            self.command.signal(signal);
        }
    }

    /// Waits until the command has ended and returns its exit code.
    pub(crate) async fn ended(&mut self) -> u8 {
        let status = self.guardian.wait().await;
        if !status.as_ref().is_ok_and(|status| status.code().is_some()) {
            // The guardian is gone, and nothing else ends the command.
            self.command.signal(Signal::KILL);
        }
        status.map_or(1, code_of)
    }

    async fn send(&mut self, line: Line) {
        // The end of the guardian is detected elsewhere, by waiting for it.
        let _ = self.control.send(line).await;
    }
}

/// Waits for the end of a guardian that has not reported the start of its command. It is not killed,
/// because it may have started the command, and alone can end it.
async fn not_started(mut guardian: Child) -> Failure {
    let pid = guardian.id().and_then(|id| i32::try_from(id).ok());
    if let Some(pid) = pid.and_then(Pid::from_raw) {
        // A suspended guardian ends the command only after SIGCONT.
        let _ = kill_process(pid, Signal::CONT);
    }
    // A guardian that could not start the command has printed the reason.
    let code = guardian.wait().await.map_or(1, code_of);
    Failure::of(code, "command-not-started", "the command was not started")
}

/// The exit code of a shell: 128 plus the signal for a killed process.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code();
    let code = code.or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_replaced_program_is_found_by_its_link() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("seqd");
        std::fs::write(&program, "").unwrap();
        assert_eq!(still_there(program.clone()), program);
        let replaced = folder.path().join("seqd (deleted)");
        assert_eq!(still_there(replaced), Path::new("/proc/self/exe"));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_suspended_guardian_continues_and_ends() {
        let guardian = Command::new("sh")
            .args(["-c", "kill -STOP $$; exit 7"])
            .spawn()
            .unwrap();
        let status = format!("/proc/{}/stat", guardian.id().unwrap());
        let is_suspended = async {
            while !std::fs::read_to_string(&status).unwrap().contains(") T ") {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(STARTS, is_suspended).await.unwrap();
        assert_eq!(not_started(guardian).await.exit, 7);
    }
}
