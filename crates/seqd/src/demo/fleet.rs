//! The processes of the demo: starts and signals them, reports their ends, and starts them again.

use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use seqd_client::api::address::base_url;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use crate::demo::event::Event;
use crate::demo::plan::NodePlan;
use crate::demo::secure::Secured;
use crate::failure::Failure;
use crate::supervise::own_program;

/// A node's own clean stop takes at most ten seconds. A node that is still running afterwards is
/// killed.
const STOP_PATIENCE: Duration = Duration::from_secs(11);

#[derive(Debug)]
pub(crate) struct Fleet {
    nodes: Vec<NodePlan>,
    /// The credentials that clients need. `None` without `--secure`.
    secured: Option<Secured>,
    /// The channel on which each process receives signals. `None` for a process that has ended.
    running: Vec<Option<mpsc::Sender<Signal>>>,
    /// The leader that was printed last.
    leader: String,
    events: mpsc::Sender<Event>,
}

impl Fleet {
    pub(crate) fn start(
        (nodes, secured): (Vec<NodePlan>, Option<Secured>),
        events: mpsc::Sender<Event>,
    ) -> Result<Self, Failure> {
        let running = nodes.iter().map(|_| None).collect();
        let mut fleet = Self {
            nodes,
            secured,
            running,
            leader: String::new(),
            events,
        };
        for node in 0..fleet.nodes.len() {
            fleet.spawn(node)?;
        }
        Ok(fleet)
    }

    pub(crate) fn secured(&self) -> Option<&Secured> {
        self.secured.as_ref()
    }

    /// All nodes, running or not.
    pub(crate) fn nodes(&self) -> &[NodePlan] {
        &self.nodes
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &NodePlan> {
        self.nodes
            .iter()
            .zip(&self.running)
            .filter(|(_, orders)| orders.is_some())
            .map(|(n, _)| n)
    }

    pub(crate) fn none_runs(&self) -> bool {
        self.running.iter().all(Option::is_none)
    }

    /// The sender of events about the nodes.
    pub(crate) fn events(&self) -> mpsc::Sender<Event> {
        self.events.clone()
    }

    /// Records the leader that was printed.
    pub(crate) fn led_by(&mut self, name: &str) {
        name.clone_into(&mut self.leader);
    }

    /// The line about a leader. `None` if this leader was printed last.
    pub(crate) fn leads(&mut self, name: &str, term: u64, took: Duration) -> Option<String> {
        if name == self.leader {
            return None;
        }
        self.led_by(name);
        Some(format!(
            "{name} leads (term {term}, detected after {} ms)",
            took.as_millis()
        ))
    }

    /// Kills the node of that name with SIGKILL.
    pub(crate) fn kill(&self, name: &str) {
        let at = self.nodes.iter().position(|node| node.name == name);
        if let Some(Some(orders)) = at.map(|at| &self.running[at]) {
            // A process that has just ended needs no signal.
            let _ = orders.try_send(Signal::KILL);
        }
    }

    /// Records the end of a node and returns the line about it.
    pub(crate) fn ended(&mut self, node: usize, status: Option<ExitStatus>) -> String {
        self.running[node] = None;
        self.why(node, status)
    }

    pub(crate) fn why(&self, node: usize, status: Option<ExitStatus>) -> String {
        let node = &self.nodes[node];
        end_text(&node.name, status, last_line(node).as_deref())
    }

    /// Starts every node that has ended. Returns the line about them.
    pub(crate) fn revive(&mut self) -> Result<String, Failure> {
        let gone: Vec<usize> = (0..self.nodes.len())
            .filter(|node| self.running[*node].is_none())
            .collect();
        if gone.is_empty() {
            return Ok("all three run".to_owned());
        }
        let mut names = Vec::new();
        for node in gone {
            self.spawn(node)?;
            names.push(self.nodes[node].name.clone());
        }
        Ok(format!("{} started again", names.join(" and ")))
    }

    /// Stops every node: first with SIGTERM, then with SIGKILL.
    pub(crate) async fn stop(&mut self, inbox: &mut mpsc::Receiver<Event>) {
        for signal in [Signal::TERM, Signal::KILL] {
            for orders in self.running.iter().flatten() {
                // A process that has just ended needs no signal.
                let _ = orders.try_send(signal);
            }
            let all_gone = async {
                while !self.none_runs() {
                    match inbox.recv().await {
                        Some(Event::Ended { node, .. }) => self.running[node] = None,
                        Some(_) => {}
                        None => break,
                    }
                }
            };
            if tokio::time::timeout(STOP_PATIENCE, all_gone).await.is_ok() {
                return;
            }
        }
    }

    fn spawn(&mut self, node: usize) -> Result<(), Failure> {
        let plan = &self.nodes[node];
        let failed =
            |error: std::io::Error| Failure::failed(format!("cannot start {}: {error}", plan.name));
        let executable = own_program().map_err(failed)?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&plan.log)
            .map_err(failed)?;
        let mut command = Command::new(executable);
        command
            .arg("server")
            .arg("--config")
            .arg(&plan.config)
            .arg("--die-with-parent")
            .arg(std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            // Ctrl-C is for the demo, which then stops the nodes in order.
            .process_group(0)
            .kill_on_drop(true);
        for (name, _) in std::env::vars_os() {
            // The user's variables are for another server.
            if name.to_string_lossy().starts_with("SEQD_") {
                command.env_remove(name);
            }
        }
        let child = command.spawn().map_err(failed)?;
        let (orders, inbox) = mpsc::channel(4);
        self.running[node] = Some(orders);
        tokio::spawn(tend(child, node, inbox, self.events.clone()));
        Ok(())
    }
}

/// Forwards signals while the process runs, and reports its end. Only the owner of the child may
/// signal it: after it is reaped, another process may have its process ID.
async fn tend(
    mut child: Child,
    node: usize,
    mut orders: mpsc::Receiver<Signal>,
    events: mpsc::Sender<Event>,
) {
    let status = loop {
        tokio::select! {
            status = child.wait() => break status.ok(),
            Some(signal) = orders.recv() => {
                let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
                if let Some(pid) = pid {
                    // It fails only if the process has ended, which `wait` reports.
                    let _ = kill_process(pid, signal);
                }
            }
        }
    };
    // The queue is closed when the demo ends.
    let _ = events.send(Event::Ended { node, status }).await;
}

fn end_text(name: &str, status: Option<ExitStatus>, last_line: Option<&str>) -> String {
    let Some(status) = status else {
        return format!("{name} has ended");
    };
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("{name} was killed (signal {signal})"),
        (None, Some(0)) => format!("{name} has stopped"),
        (None, code) => {
            let code = code.unwrap_or_default();
            // The demo prints only the addresses of its banner, because scripts read addresses from
            // its output.
            let line = last_line.map(|line| line.replace(&base_url(""), ""));
            let why = line.map(|line| format!(": {line}")).unwrap_or_default();
            format!("{name} has stopped with exit code {code}{why}")
        }
    }
}

fn last_line(node: &NodePlan) -> Option<String> {
    let text = std::fs::read(&node.log).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines()
        .rfind(|line| !line.trim().is_empty())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_node_is_reported_with_its_cause() {
        let text = |raw| end_text("n2", Some(ExitStatus::from_raw(raw)), Some("code=corrupt"));
        assert_eq!(text(9), "n2 was killed (signal 9)");
        assert_eq!(text(0), "n2 has stopped");
        assert_eq!(
            text(10 << 8),
            "n2 has stopped with exit code 10: code=corrupt"
        );
        assert_eq!(end_text("n2", None, None), "n2 has ended");
    }
}
