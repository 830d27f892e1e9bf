//! `seqd lock run` and `seqd elect run`: run a command while a lock is held.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use rustix::process::Signal;
use seqd_client::api::exit;
use seqd_client::{BootTime, LockError, LockGuard, LockLost, LockOptions, sleep_until};
use tokio::signal::unix::SignalKind;

use super::config::hostname;
use crate::arguments;
use crate::failure::Failure;
use crate::session::Session;
use crate::signals::Signals;
use crate::supervise::{Ends, OnLost, Supervised};

/// The environment variables that are set for the command: the name of the lock, and the fencing
/// token for the protected resource.
pub(crate) const VARIABLES: [&str; 2] = ["SEQD_LOCK_NAME", "SEQD_LOCK_TOKEN"];

/// The time limit of the release after the command has ended. If the release fails, the lock
/// expires by itself.
const RELEASED: Duration = Duration::from_secs(5);

/// The options of the hold, and the command.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Name of the lock or election
    name: String,
    /// Owner of the hold, for people; by default the host's name and the process ID
    #[arg(long)]
    owner: Option<String>,
    /// Time for which the lock is held without a renewal, 1s to 24h; it is renewed after a third of
    /// this time
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = arguments::held_for)]
    ttl: Duration,
    /// Time to wait for the lock; 0s means no wait; unlimited by default
    #[arg(long, value_name = "TIME", value_parser = arguments::duration_or_zero)]
    wait: Option<Duration>,
    /// Time for which the lock is not granted after this hold expires without a release, at most 1m
    #[arg(long, value_name = "TIME", default_value = "0s")]
    #[arg(value_parser = arguments::duration_or_zero)]
    lock_delay: Duration,
    /// Action on the command when the lock is lost: `term` sends SIGTERM, and SIGKILL at the end of
    /// the hold; `kill` sends SIGKILL; `run CMD` runs a shell command with SEQD_PID set, and sends
    /// SIGKILL at the end of the hold
    #[arg(long, value_name = "kill|term|run CMD", default_value = "term")]
    on_lost: OnLost,
    /// Time from the action of --on-lost to SIGKILL, if the hold is not renewed, at most a third of
    /// --ttl; a sixth of it by default
    #[arg(long, value_name = "TIME", value_parser = arguments::duration_or_zero)]
    grace: Option<Duration>,
    /// Command to run, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The options of `lock run` alone. An election has one winner.
#[derive(Debug, Args)]
pub(crate) struct LockRunArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Number of simultaneous holders, 1 to 1024
    #[arg(long, default_value_t = 1)]
    permits: u32,
    /// Share the lock with other shared holders
    #[arg(long)]
    shared: bool,
}

/// The options of `elect run` alone.
#[derive(Debug, Args)]
pub(crate) struct ElectRunArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Exit when an election that was won is lost, instead of running again
    #[arg(long)]
    once: bool,
}

pub(crate) async fn lock(args: LockRunArgs, session: &Session) -> Result<u8, Failure> {
    let run = Run::new(args.run)?.with(args.permits, args.shared);
    match run.once(session, &mut signals()?).await? {
        CommandEnd::Itself(code) => Ok(code),
        CommandEnd::Lost { lost, .. } => Err(lost.into()),
    }
}

pub(crate) async fn elect(args: ElectRunArgs, session: &Session) -> Result<u8, Failure> {
    let run = Run::new(args.run)?;
    // Shared by all rounds: a signal between two rounds applies to the next.
    let mut signals = signals()?;
    loop {
        match run.once(session, &mut signals).await? {
            CommandEnd::Itself(code) => return Ok(code),
            CommandEnd::Lost { lost, .. } if args.once => return Err(lost.into()),
            CommandEnd::Lost {
                asked: Some(signal),
                ..
            } => return Ok(code_of(signal)),
            CommandEnd::Lost { lost, asked: None } => {
                session.note(&format!("{lost}; acquiring it again"))
            }
        }
    }
}

/// The reason why the command ended.
enum CommandEnd {
    Itself(u8),
    Lost {
        lost: LockLost,
        /// The last signal that asked this process to end in the meantime.
        asked: Option<Signal>,
    },
}

fn signals() -> Result<Signals, Failure> {
    Signals::new()?
        .with("SIGHUP", SignalKind::hangup())?
        .with("SIGQUIT", SignalKind::quit())?
        .with("SIGUSR1", SignalKind::user_defined1())?
        .with("SIGUSR2", SignalKind::user_defined2())
}

/// The exit code of a shell for a signal.
fn code_of(signal: Signal) -> u8 {
    128 + u8::try_from(signal.as_raw()).unwrap_or(0)
}

impl From<LockLost> for Failure {
    fn from(lost: LockLost) -> Self {
        let detail = format!("the command was stopped: {lost}");
        Self::of(exit::CONFLICT, "lease-lost", detail)
    }
}

struct Run {
    name: String,
    options: LockOptions,
    on_lost: OnLost,
    grace: Duration,
    command: Vec<OsString>,
}

impl Run {
    fn new(args: RunArgs) -> Result<Self, Failure> {
        let owner = args
            .owner
            .unwrap_or_else(|| format!("{}:{}", hostname(), std::process::id()));
        let grace = args.grace.unwrap_or(args.ttl / 6);
        if grace > args.ttl / 3 {
            let detail =
                "--grace must be at most a third of --ttl: a renewal may be under way until then";
            return Err(Failure::usage(detail));
        }
        Ok(Self {
            name: args.name,
            options: LockOptions {
                ttl: args.ttl,
                wait: args.wait,
                lock_delay: args.lock_delay,
                ..LockOptions::of_owner(owner)
            },
            on_lost: args.on_lost,
            grace,
            command: args.command,
        })
    }

    fn with(mut self, permits: u32, shared: bool) -> Self {
        (self.options.permits, self.options.shared) = (permits, shared);
        self
    }

    /// The times at which the command of a hold is asked to end and is killed, both before the end
    /// of the hold.
    fn ends(&self, until: BootTime) -> Ends {
        // Time for a signal to take effect on a busy machine.
        let margin = (self.options.ttl / 20).min(Duration::from_millis(500));
        let killed = until.before(margin);
        let asked = match self.on_lost {
            OnLost::Kill => killed,
            OnLost::Term | OnLost::Run(_) => killed.before(self.grace),
        };
        Ends { asked, killed }
    }

    /// Acquires the lock and runs the command once.
    async fn once(&self, session: &Session, signals: &mut Signals) -> Result<CommandEnd, Failure> {
        let what = format!(
            "waiting for the lock {}; --verbose prints each request",
            self.name
        );
        let acquired = LockGuard::acquire(&session.client, &self.name, self.options.clone());
        let guard = tokio::select! {
            guard = session.waiting(&what, acquired) => guard.map_err(refused)?,
            name = signals.next() => {
                // The lock is not held: dropping the request withdraws it.
                return Ok(CommandEnd::Itself(code_of(signal_of(name))));
            }
        };
        session.note(&format!(
            "{} is held with token {}",
            self.name,
            guard.token()
        ));
        let ended = self.hold(&guard, signals).await;
        let released = tokio::time::timeout(RELEASED, guard.release()).await;
        if let Ok(Err(error)) = released {
            session.note(&format!(
                "{} was not released and expires by itself: {error}",
                self.name
            ));
        }
        ended
    }

    async fn hold(&self, guard: &LockGuard, signals: &mut Signals) -> Result<CommandEnd, Failure> {
        let mut known = match guard.check() {
            Ok(until) => until,
            Err(lost) => return Ok(CommandEnd::Lost { lost, asked: None }),
        };
        let mut ends = self.ends(known);
        let values = [self.name.clone(), guard.token().to_string()];
        let variables: Vec<_> = VARIABLES.into_iter().zip(values).collect();
        let mut running = Supervised::start(&self.command, &variables, &self.on_lost, ends).await?;
        let (mut lost, mut asked, mut is_killed) = (None, None, false);
        loop {
            tokio::select! {
                code = running.ended() => {
                    // The guardian may have ended the command a little before this process counts
                    // the hold as lost.
                    let is_late = ends.asked.is_over();
                    let lost = lost.or(is_late.then_some(LockLost::RanOut { why: None }));
                    return Ok(match lost {
                        Some(lost) => CommandEnd::Lost { lost, asked },
                        None => CommandEnd::Itself(code),
                    });
                }
                renewed = guard.renewed(known), if lost.is_none() => match renewed {
                    // Too late: the guardian has already asked the command to end.
                    Ok(_) if ends.asked.is_over() => {
                        running.stop().await;
                        lost = Some(LockLost::RanOut { why: None });
                    }
                    Ok(until) => {
                        known = until;
                        ends = self.ends(until);
                        running.prolong(ends).await;
                    }
                    Err(why) => {
                        running.stop().await;
                        lost = Some(why);
                    }
                },
                // A guardian that is suspended by a signal does not end the command.
                () = sleep_until(ends.killed), if !is_killed => {
                    running.kill();
                    is_killed = true;
                }
                name = signals.next() => {
                    let signal = signal_of(name);
                    if ![Signal::USR1, Signal::USR2].contains(&signal) {
                        asked = Some(signal);
                    }
                    running.pass_on(signal);
                }
            }
        }
    }
}

const ON_LOST: &str = "--on-lost";

/// Joins the two words after `--on-lost` if the first is `run`. For clap, an option has a fixed
/// number of words, and the name of the lock may follow.
pub(crate) fn join_on_lost(line: &mut Vec<OsString>) {
    let mut own = line.iter().take_while(|word| *word != "--");
    let Some(at) = own.position(|word| word == ON_LOST) else {
        return;
    };
    let has_command = own.next().is_some_and(|word| word == "run") && own.next().is_some();
    if has_command {
        let command = line.remove(at + 2);
        line[at + 1].push(" ");
        line[at + 1].push(command);
    }
}

fn refused(error: LockError) -> Failure {
    match error {
        LockError::Options(detail) => Failure::usage(detail),
        LockError::Held(problem) => seqd_client::Error::Problem(problem).into(),
        LockError::Request(error) => error.into(),
    }
}

/// The signal with this name of [`Signals`].
fn signal_of(name: &str) -> Signal {
    match name {
        "Ctrl-C" => Signal::INT,
        "SIGHUP" => Signal::HUP,
        "SIGQUIT" => Signal::QUIT,
        "SIGUSR1" => Signal::USR1,
        "SIGUSR2" => Signal::USR2,
        _ => Signal::TERM,
    }
}
