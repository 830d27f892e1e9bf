//! A command that runs while something is held, and not longer.
//!
//! Three processes. This one holds: it renews, and sends each new end to the [guardian], its child,
//! which starts the command and ends it in time. So the command ends before the hold does also where
//! this process is stopped or killed, or cannot reach anybody; where the guardian is killed this process
//! ends the command. Only who kills both leaves the command behind, and the fencing token tells it from
//! the next one.

mod control;
pub(crate) mod guardian;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
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

/// What is done to a command whose hold ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OnLost {
    /// SIGKILL.
    Kill,
    /// SIGTERM, and SIGKILL at the end.
    Term,
    /// This command of the shell with the process ID in `SEQD_PID`, and SIGKILL at the end.
    Run(String),
}

/// When a command is asked to end, and when it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) asked: BootTime,
    pub(crate) killed: BootTime,
}

/// How long the guardian may take to start the command.
const STARTS: Duration = Duration::from_secs(10);

/// A command that runs under a guardian.
pub(crate) struct Supervised {
    guardian: Child,
    control: Control,
    command: Target,
}

/// Whom signals for the command go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    pid: Pid,
    /// Whether the command leads a process group of its own. Not on a terminal: there it could not
    /// read.
    has_group: bool,
}

impl Target {
    /// Whether a process of it is left.
    fn is_there(self) -> bool {
        let found = if self.has_group {
            test_kill_process_group(self.pid)
        } else {
            test_kill_process(self.pid)
        };
        found.is_ok()
    }

    fn signal(self, signal: Signal) {
        // It may have ended.
        let _ = if self.has_group {
            kill_process_group(self.pid, signal)
        } else {
            kill_process(self.pid, signal)
        };
    }
}

impl Supervised {
    /// Starts the command with these variables.
    pub(crate) async fn start(
        command: &[OsString],
        variables: &[(&str, String)],
        on_lost: &OnLost,
        ends: Ends,
    ) -> Result<Self, Failure> {
        let failed =
            |what: &str, error: std::io::Error| Failure::failed(format!("{what}: {error}"));
        let folder = tempfile::tempdir().map_err(|error| failed("no temporary folder", error))?;
        let socket = folder.path().join("control");
        let listener = UnixListener::bind(&socket)
            .map_err(|error| failed("no socket for the guardian", error))?;
        let program = std::env::current_exe().map_err(|error| failed("no path to seqd", error))?;
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
            // It came without a connection: the guardian was not started as it should be.
            () = sleep(STARTS) => {}
            _ = guardian.wait() => {}
        }
        // Without a holder it ends what it has started, or starts nothing. One that could not start the
        // command has written why.
        drop(listener);
        let code = guardian.wait().await.map_or(1, code_of);
        Err(Failure::of(
            code,
            "command-not-started",
            "the command was not started",
        ))
    }

    /// The hold is renewed: the command may run until then.
    pub(crate) async fn prolong(&mut self, ends: Ends) {
        self.send(Line::Until(ends)).await;
    }

    /// The hold is lost: the command is ended.
    pub(crate) async fn stop(&mut self) {
        self.send(Line::Stop).await;
    }

    /// Ends the command without its guardian.
    pub(crate) fn kill(&self) {
        self.command.signal(Signal::KILL);
    }

    /// Passes a signal on, unless the terminal has sent it to the command too.
    pub(crate) fn pass_on(&self, signal: Signal) {
        let from_terminal = [Signal::INT, Signal::QUIT].contains(&signal);
        if self.command.has_group || !from_terminal {
            self.command.signal(signal);
        }
    }

    /// The exit code of the command once it has ended.
    pub(crate) async fn ended(&mut self) -> u8 {
        let status = self.guardian.wait().await;
        if !status.as_ref().is_ok_and(|status| status.code().is_some()) {
            // Nobody guards it any more.
            self.command.signal(Signal::KILL);
        }
        status.map_or(1, code_of)
    }

    async fn send(&mut self, line: Line) {
        // A guardian that has ended is seen by its end.
        let _ = self.control.send(line).await;
    }
}

/// As a shell has it: 128 and the signal.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code();
    let code = code.or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
