//! `seqd server`: runs one node, from its configuration to its exit code.
//!
//! If the node stops by itself, the last line on stderr contains the reason and `code=`, on which
//! programs can rely. After a signal there is no such line.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use seqd_client::api::exit;
use seqd_node::config::{self, Resolved};
use seqd_node::{Config, Descriptors, Node, Ports, Stop, StopReason};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Instant;

use crate::commands::config::{ConfigSource, check_access};
use crate::failure::Failure;
use crate::format::Format;
use crate::logging::Log;
use crate::private;
use crate::reload::on_hangup;
use crate::runtime::block_on;
use crate::service_manager;
use crate::signals::{CTRL_C, Signals};

/// The time limit of a clean stop, after `http.drain`. When it has passed, the process exits, as in
/// a crash.
const STOP_PATIENCE: Duration = Duration::from_millis(9500);

/// Signals within this time after the first are the same request: a service manager may signal the
/// process and its group, and a terminal and a wrapper may both send one.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// The options of `seqd server`.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    #[command(flatten)]
    source: ConfigSource,
    /// End as soon as the process with this ID, which must be the parent, ends
    #[arg(long, hide = true, value_name = "PID")]
    die_with_parent: Option<i32>,
}

pub(crate) fn run(args: ServerArgs) -> Result<u8, Failure> {
    if let Some(parent) = args.die_with_parent {
        die_with(parent)?;
    }
    let mut resolved = args.source.resolve()?;
    check_access(&mut resolved)?;
    let log = Log::install(&resolved.config.log);
    let is_text = log.is_text;
    match run_logged(args.source, resolved, log) {
        // In a JSON log, each line is one document.
        Err(failure) if !is_text => {
            failure.print(Format::Json);
            Ok(failure.exit)
        }
        ended => ended,
    }
}

/// The part of the run in which lines are logged.
fn run_logged(source: ConfigSource, resolved: Resolved, log: Log) -> Result<u8, Failure> {
    log_start(&resolved.config);
    for warning in &resolved.warnings {
        tracing::warn!("{warning}");
    }
    let folder = &resolved.config.node.data_dir;
    if let Err(error) = private::keep(folder) {
        let folder = folder.display();
        tracing::warn!("other users can access {folder}, and its mode cannot be changed: {error}");
    }
    if has_secrets(&resolved.config)
        && let Err(error) = private::no_core_dumps()
    {
        tracing::warn!(
            "core dumps cannot be disabled, and a core dump would contain keys and tokens: {error}"
        );
    }
    let no_threads = |error| Failure::failed(format!("cannot start threads: {error}"));
    let runtime = runtime(resolved.config.node.threads).map_err(no_threads)?;
    let consensus = runtime_of_consensus().map_err(no_threads)?;
    let handle = consensus.handle().clone();
    let entries = resolved.config.entries.clone();
    let stop = block_on(&runtime, async {
        on_hangup(source, log, entries)?;
        serve(resolved.config, handle).await
    });
    // A task that waits for a disk must not delay the exit.
    runtime.shutdown_timeout(Duration::from_millis(100));
    consensus.shutdown_timeout(Duration::from_millis(100));
    Ok(stop?.map_or(exit::OK, |stop| ended(&stop)))
}

/// Returns whether this process has keys or tokens in its memory.
fn has_secrets(config: &Config) -> bool {
    let has_keys = config.tls.key.is_some() || config.tls.peer_key.is_some();
    has_keys || config.auth.enabled || config.compat.tinyid_tokens.is_some()
}

/// Logs the first facts that an operator needs: the program's version, its addresses and the
/// configured values.
fn log_start(config: &Config) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        revision = option_env!("SEQD_REVISION"),
        name = config.node.name,
        data_dir = %config.node.data_dir.display(),
        "seqd starts"
    );
    let (http, peer) = (&config.http, &config.peer);
    tracing::info!(
        clients = %http.listen,
        clients_advertise = http.advertise,
        peers = %peer.listen,
        peers_advertise = peer.advertise,
        "addresses"
    );
    let given = config::given(&config.entries);
    tracing::info!("configuration that differs from the defaults: {given}");
}

/// Starts the node, waits for a signal or until the node stops by itself, and stops it. Returns the
/// reason if it stopped by itself, `None` after a signal.
async fn serve(config: Config, consensus: Handle) -> Result<Option<Stop>, Failure> {
    let runtime_of_consensus = consensus.clone();
    let patience = config.http.drain + STOP_PATIENCE;
    let mut signals = Signals::of_server()?;
    let descriptors = Descriptors::raised().map_err(|error| Failure::failed(error.to_string()))?;
    tracing::info!(
        all = descriptors.all,
        clients = descriptors.clients,
        peers = descriptors.peers,
        "the limit of open files, and the maximum numbers of connections"
    );
    let ports = match Ports::os(&config, descriptors, consensus) {
        Ok(ports) => ports,
        Err(_) if is_locked(&config.node.data_dir) => return Ok(Some(folder_in_use(&config))),
        Err(error) => return Err(Failure::failed(format!("cannot listen: {error}"))),
    };
    let node = tokio::select! {
        started = Node::start(config, ports) => match started {
            Ok(node) => {
                tracing::info!(clients = %node.http_addr(), "serving clients");
                tokio::spawn(service_manager::started(runtime_of_consensus));
                node
            }
            Err(stop) => return Ok(Some(stop)),
        },
        // The node has acknowledged nothing yet.
        name = signals.next() => {
            tracing::info!("{name} while starting: stopped");
            return Ok(None);
        }
    };
    let ended = tokio::select! {
        ended = node.stopped() => Some(ended),
        name = signals.next() => {
            tracing::info!("{name}: stopping");
            service_manager::stopping(patience);
            None
        }
    };
    stop(&node, &mut signals, patience).await;
    Ok(ended)
}

/// Stops the node cleanly. The next signal ends the drain, and a Ctrl-C after that ends the process
/// at once. A SIGTERM does not, because a clean stop takes only seconds, and SIGKILL is available.
async fn stop(node: &Node, signals: &mut Signals, patience: Duration) {
    let mut stopping = node.stop();
    let mut too_long = pin!(tokio::time::sleep(patience));
    let mut signalled = Instant::now();
    loop {
        let name = tokio::select! {
            () = &mut stopping => return tracing::info!("stopped"),
            () = &mut too_long => {
                return tracing::warn!("stopped before the shutdown was complete");
            }
            name = signals.next() => name,
        };
        if signalled.elapsed() < SAME_REQUEST {
            tracing::info!("another {name} within a second: part of the same request");
            continue;
        }
        signalled = Instant::now();
        if node.end_drain() {
            tracing::info!("another {name}: the drain ends early");
        } else if name == CTRL_C {
            return tracing::warn!("another {name}: stopped immediately");
        } else {
            tracing::info!("another {name}: the node is stopping already");
        }
    }
}

/// Returns whether another process holds the lock of the folder. If so, the same process occupies
/// the busy port, and a message about the folder is more helpful.
fn is_locked(folder: &Path) -> bool {
    File::open(folder.join("LOCK")).is_ok_and(|lock| {
        flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
    })
}

fn folder_in_use(config: &Config) -> Stop {
    let message = format!(
        "{} is in use by another process",
        config.node.data_dir.display()
    );
    Stop::new(StopReason::FolderInUse, message)
}

/// Writes the last line on stderr and returns the exit code.
fn ended(stop: &Stop) -> u8 {
    let line = format!("seqd stopped: {} code={}", stop.message, stop.code());
    // An error is ignored: stderr is closed.
    let _ = writeln!(io::stderr(), "{}", line.replace('\n', " "));
    stop.exit()
}

/// The runtime of the clients' ports. A single thread is the calling thread, which avoids switches
/// between threads.
fn runtime(threads: usize) -> io::Result<Runtime> {
    match threads {
        0 => Builder::new_multi_thread().enable_all().build(),
        1 => Builder::new_current_thread().enable_all().build(),
        many => Builder::new_multi_thread()
            .worker_threads(many)
            .enable_all()
            .build(),
    }
}

/// Consensus has a thread of its own, so that many requests do not delay heartbeats.
fn runtime_of_consensus() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("seqd-raft")
        .enable_all()
        .build()
}

/// Makes the kernel kill this process when its parent ends for any reason.
#[cfg(target_os = "linux")]
fn die_with(parent: i32) -> Result<(), Failure> {
    use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| {
        Failure::failed(format!("cannot tie this process to its parent: {error}"))
    })?;
    // The parent may have ended before the call, and another process has adopted this one.
    if getppid().map(Pid::as_raw_pid) == Some(parent) {
        Ok(())
    } else {
        Err(Failure::failed("the parent has already ended"))
    }
}

/// Other systems have no such call. There the process ends only with the parent's clean stop.
#[cfg(not(target_os = "linux"))]
fn die_with(_parent: i32) -> Result<(), Failure> {
    Ok(())
}
