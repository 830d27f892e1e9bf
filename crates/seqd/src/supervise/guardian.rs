//! The process between the holder and the command. It starts the command and ends it in time, even
//! if the holder is stopped, killed or cut off.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rustix::process::{Pid, Signal};
use seqd_client::api::exit;
use seqd_client::{BootTime, sleep_until};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::signal::unix::SignalKind;
use tokio::time::sleep;

use super::control::{Control, Line};
use super::{Ends, OnLost, Target, code_of};
use crate::failure::Failure;
use crate::signals::Signals;

/// The name of the command, which is hidden from the help.
pub(crate) const COMMAND: &str = "lock-guardian";

/// The time within which processes that the command has left must end.
const REST: Duration = Duration::from_secs(1);

/// The polling interval for such processes.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The options of the guardian.
#[derive(Debug, Args)]
pub(crate) struct GuardianArgs {
    /// Socket of the holder
    #[arg(long)]
    control: PathBuf,
    /// Time at which the command is asked to end, in milliseconds since the boot of the machine
    #[arg(long)]
    asked: u64,
    /// Time at which the command is killed, in milliseconds since the boot of the machine
    #[arg(long)]
    killed: u64,
    /// Action that asks the command to end: kill, term or run CMD
    #[arg(long)]
    on_lost: OnLost,
    /// The command has a process group of its own
    #[arg(long)]
    group: bool,
    /// Command to run
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// The options as the holder passes them.
pub(super) fn options(on_lost: &OnLost, ends: Ends) -> Vec<String> {
    vec![
        format!("--asked={}", ends.asked.as_millis()),
        format!("--killed={}", ends.killed.as_millis()),
        format!("--on-lost={on_lost}"),
    ]
}

/// Runs the command and returns its exit code.
pub(crate) async fn run(args: GuardianArgs) -> Result<u8, Failure> {
    // Signals that the holder forwards, or that the terminal sends to all processes, are for the
    // command.
    let _ignored = Signals::new()?
        .with("SIGHUP", SignalKind::hangup())?
        .with("SIGQUIT", SignalKind::quit())?
        .with("SIGUSR1", SignalKind::user_defined1())?
        .with("SIGUSR2", SignalKind::user_defined2())?;
    let stream = UnixStream::connect(&args.control).await;
    let stream = stream.map_err(|error| Failure::failed(format!("cannot hold it: {error}")))?;
    let (mut control, ends) = (Control::new(stream), ends(&args));
    if ends.killed.is_over() {
        let detail = "the hold expired before the command began";
        return Err(Failure::of(exit::CONFLICT, "lease-lost", detail));
    }
    let (program, arguments) = (&args.command[0], &args.command[1..]);
    let mut command = Command::new(program);
    command.args(arguments);
    if args.group {
        command.process_group(0);
    }
    let child = command.spawn().map_err(|error| {
        let code = match error.kind() {
            ErrorKind::NotFound => 127,
            _ => 126,
        };
        let detail = format!("{}: {error}", program.to_string_lossy());
        Failure::of(code, "command-not-started", detail)
    })?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    let pid = pid.and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Failure::failed("the command has no process ID"))?;
    // A holder that has ended in the meantime is detected by the end of the lines.
    let _ = control
        .send(Line::Started {
            pid: pid.as_raw_pid(),
        })
        .await;
    let guard = Guard {
        target: Target {
            pid,
            has_group: args.group,
        },
        on_lost: args.on_lost,
        ends,
        is_stopping: false,
    };
    guard.wait(child, control).await
}

fn ends(args: &GuardianArgs) -> Ends {
    Ends {
        asked: BootTime::from_millis(args.asked),
        killed: BootTime::from_millis(args.killed),
    }
}

struct Guard {
    target: Target,
    on_lost: OnLost,
    ends: Ends,
    /// `true` if the command was asked to end.
    is_stopping: bool,
}

impl Guard {
    async fn wait(mut self, mut child: Child, mut control: Control) -> Result<u8, Failure> {
        let mut has_holder = true;
        loop {
            let next = if self.is_stopping {
                self.ends.killed
            } else {
                self.ends.asked
            };
            tokio::select! {
                biased;
                ended = child.wait() => {
                    self.end_rest().await;
                    return ended.map(code_of).map_err(|error| {
                        Failure::failed(format!("the command cannot be monitored: {error}"))
                    });
                }
                line = control.next(), if has_holder => match line {
                    // The renewal came too late: the command was already asked to end.
                    Some(Line::Until(_)) if self.is_stopping => {}
                    Some(Line::Until(ends)) => self.ends = ends,
                    Some(Line::Started { .. }) => {}
                    Some(Line::Stop) => {
                        // The hold ended before its time, and another holder may have the lock.
                        let grace = self.ends.killed.since(self.ends.asked);
                        let soon = BootTime::now().after(grace);
                        self.ends.killed = self.ends.killed.min(soon);
                        self.stop();
                    }
                    None => {
                        has_holder = false;
                        self.stop();
                    }
                },
                () = sleep_until(next) => {
                    if self.ends.killed.is_over() {
                        self.target.signal(Signal::KILL);
                        let ended = child.wait().await;
                        return Ok(ended.map_or(1, code_of));
                    }
                    self.stop();
                }
            }
        }
    }

    /// Ends the processes that the command has left in its process group: the command of the next
    /// holder may begin when this process has ended.
    async fn end_rest(&self) {
        if !self.target.has_group {
            return;
        }
        if !self.is_stopping {
            let until = BootTime::now().after(REST).min(self.ends.killed);
            self.target.signal(Signal::TERM);
            self.target.signal(Signal::CONT);
            while self.target.is_there() && !until.is_over() {
                sleep(LOOK_EVERY).await;
            }
        }
        self.target.signal(Signal::KILL);
    }

    fn stop(&mut self) {
        if std::mem::replace(&mut self.is_stopping, true) {
            return;
        }
        match &self.on_lost {
            OnLost::Kill => self.target.signal(Signal::KILL),
            OnLost::Term => {
                self.target.signal(Signal::TERM);
                // A stopped process handles SIGTERM only after SIGCONT.
                self.target.signal(Signal::CONT);
            }
            OnLost::Run(command) => {
                let mut shell = Command::new("sh");
                let pid = self.target.pid.as_raw_pid().to_string();
                shell.arg("-c").arg(command).env("SEQD_PID", pid);
                if let Err(error) = shell.spawn() {
                    tracing::warn!(%error, "the command of --on-lost was not started");
                    self.target.signal(Signal::TERM);
                }
            }
        }
    }
}
