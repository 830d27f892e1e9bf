//! `seqd demo`: three real nodes on loopback, each in its own process with its own folder.
//!
//! The nodes are `seqd server` processes of this same executable. They end with the demo: by a
//! clean stop, or by the kernel if the demo is killed. The demo prints the nodes' addresses when
//! all three serve, and then reports events.

mod event;
mod fleet;
mod folder;
mod keys;
mod plan;
mod secure;
mod watch;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use seqd_client::api::exit;
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;

use crate::arguments;
use crate::failure::Failure;
use crate::output::write_stdout;
use crate::runtime::{block_on, current_thread};
use crate::signals::Signals;
use event::Event;
use fleet::Fleet;
use folder::Folder;
use keys::Keys;
use plan::NodePlan;

/// Room for all keys, exits and reports that can occur at once. A sender waits when the queue is
/// full.
const EVENTS: usize = 64;

/// The options of the demo.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Keep the nodes' folders here, and continue the cluster that is in them; by default a
    /// temporary folder, removed at the end
    #[arg(long, env = "SEQD_DEMO_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Use TLS for clients and between nodes, and require a token from clients
    #[arg(long, env = "SEQD_DEMO_SECURE", value_parser = arguments::switch)]
    secure: bool,
}

/// Spawns the nodes from the calling thread, which lives as long as the demo: the kernel ends them
/// when the *thread* that spawned them ends.
pub(crate) fn run(args: DemoArgs) -> Result<u8, Failure> {
    let runtime = current_thread()?;
    let code = block_on(&runtime, demo(args));
    // The thread that reads keys may wait for a key that never comes.
    runtime.shutdown_background();
    code
}

/// Starts and stops all parts, in order.
async fn demo(args: DemoArgs) -> Result<u8, Failure> {
    let started = Instant::now();
    // A closed terminal sends SIGHUP.
    let mut signals = Signals::new()?.with("SIGHUP", SignalKind::hangup())?;
    let folder = Folder::open(args.data_dir)?;
    // Held until the nodes listen, so that two demos do not choose the same ports.
    let turn = plan::take_turn()?;
    let plan = plan::make(&folder.path, args.secure)?;
    let (events, mut inbox) = mpsc::channel(EVENTS);
    let mut fleet = Fleet::start(plan, events.clone())?;
    let ready = tokio::select! {
        ready = watch::all_ready(&fleet, &mut inbox) => ready,
        _ = signals.next() => Ok(None),
    };
    drop(turn);
    let outcome = match ready {
        Ok(Some(cluster)) => {
            fleet.led_by(&cluster.leader);
            let keys = Keys::open(events.clone());
            let text = banner(&fleet, &cluster, &folder, started.elapsed(), keys.is_some());
            let outcome = match write_stdout(&text) {
                // A script that reads only the addresses may close the pipe. The nodes continue.
                Ok(_) => react(&mut fleet, &mut inbox, &mut signals, keys.is_some()).await,
                Err(failure) => Err(failure),
            };
            drop(keys);
            outcome
        }
        Ok(None) => Ok(exit::OK),
        Err(failure) => Err(failure),
    };
    tokio::select! {
        () = fleet.stop(&mut inbox) => {}
        // A second signal: the nodes end with this process.
        _ = signals.next() => {}
    }
    folder.close()?;
    outcome
}

/// Reports events and handles keys until `q` or a signal.
async fn react(
    fleet: &mut Fleet,
    inbox: &mut mpsc::Receiver<Event>,
    signals: &mut Signals,
    keys: bool,
) -> Result<u8, Failure> {
    loop {
        let event = tokio::select! {
            event = inbox.recv() => event,
            _ = signals.next() => return Ok(exit::OK),
        };
        match event {
            Some(Event::Ended { node, status }) => {
                let text = fleet.ended(node, status);
                let revive = if keys { "; r revives it" } else { "" };
                write_stdout(&format!("  {text}{revive}\n"))?;
                if fleet.none_runs() && !keys {
                    return Err(Failure::failed("all three nodes have ended"));
                }
                watch::report_next_leader(fleet);
            }
            Some(Event::Leads { name, term, took }) => {
                if let Some(text) = fleet.leads(&name, term, took) {
                    write_stdout(&format!("  {text}\n"))?;
                }
            }
            Some(Event::Note(text)) => {
                write_stdout(&format!("  {text}\n"))?;
            }
            Some(Event::Key(b'k')) => watch::kill_leader(fleet).await,
            Some(Event::Key(b'r')) => {
                // The other nodes continue if one cannot be started.
                let revived = fleet.revive();
                let text = revived.unwrap_or_else(|failure| failure.detail().to_owned());
                write_stdout(&format!("  {text}\n"))?;
            }
            // Ctrl-C and Ctrl-D reach a program as signals or as these bytes.
            Some(Event::Key(b'q' | 3 | 4)) | None => return Ok(exit::OK),
            Some(Event::Key(_)) => {}
        }
    }
}

/// The text that is printed when all three nodes serve.
fn banner(
    fleet: &Fleet,
    cluster: &watch::ReadyCluster,
    folder: &Folder,
    took: std::time::Duration,
    keys: bool,
) -> String {
    let (data, kept) = (folder.path.display(), folder.is_kept());
    let fate = if kept {
        "kept"
    } else {
        "removed on Ctrl-C; keep with --data-dir"
    };
    let mut text = format!(
        "  cluster {}  3 nodes ready in {:.1}s       data: {data} ({fate})\n",
        cluster.id,
        took.as_secs_f64(),
    );
    for node in fleet.nodes() {
        let role = if node.name == cluster.leader {
            "leader"
        } else {
            "follower"
        };
        let url = node.url(fleet.secured().is_some());
        text.push_str(&format!("  {} {role:<9} {url}\n", node.name));
    }
    text.push_str(&protocols(fleet.nodes()));
    let end = if keys {
        "keys: k kill the leader, r revive it, q quit"
    } else {
        "Ctrl-C ends it."
    };
    match fleet.secured() {
        None => text.push_str(&format!(
            "  DEV MODE: no TLS, no auth, loopback only.   {end}\n"
        )),
        Some(secured) => text.push_str(&format!(
            "  TLS for clients and between nodes; clients need a token.   {end}\n\n{}",
            secured.how_to(fleet.nodes())
        )),
    }
    text
}

/// The lines about other protocols, and about pages and routes below the addresses of the nodes.
fn protocols(nodes: &[NodePlan]) -> String {
    let addresses = |port: fn(&NodePlan) -> u16| {
        let ports = nodes.iter().map(port);
        let addresses: Vec<String> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
        addresses.join(" ")
    };
    let first = nodes.first().map_or(0, |node| node.redis);
    format!(
        "  redis      {}     redis-cli -p {first} INCR order\n  memcached  {}\n  pages      /ui/ and /docs \
         on each node; URLs of Leaf, TinyID, CosId and katsubushi too\n",
        addresses(|node| node.redis),
        addresses(|node| node.memcached),
    )
}
