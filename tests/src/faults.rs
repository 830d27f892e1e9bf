//! Faults from outside the process: pauses, and system calls that strace delays or counts.
//!
//! Each fault is a guard that ends when it is dropped, and each checks that it had an effect before
//! it counts as injected.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::checkers::{Violation, require};
use crate::node::Node;
use crate::{skips, wait};

/// The violation for a fault that had no effect: such a run proves nothing.
pub const FAULT_WITHOUT_EFFECT: &str = "a fault that never bit";

/// A process, mostly of a node, that is stopped until this is dropped.
#[derive(Debug)]
pub struct Paused {
    pid: Pid,
}

impl Paused {
    /// Stops the process (SIGSTOP).
    pub fn new(node: &Node) -> Self {
        Self::process(node.pid())
    }

    /// Stops another own child.
    pub fn process(pid: Pid) -> Self {
        kill_process(pid, Signal::STOP).expect("a signal to an own child");
        Self { pid }
    }

    /// Continues the process. Returns an error if it ran meanwhile.
    pub fn heal(self) -> Result<(), Violation> {
        let detail = format!("the stopped process {} ran", self.pid.as_raw_nonzero());
        require(self.stands(), FAULT_WITHOUT_EFFECT, detail)
    }

    /// Returns whether the kernel shows the process as stopped.
    pub fn stands(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid.as_raw_nonzero()));
        // The state follows the name, which is in parentheses and may contain any character.
        let stat = stat.unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('T'))
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        // A process that was killed meanwhile needs no signal.
        let _ = kill_process(self.pid, Signal::CONT);
    }
}

/// strace attached to a node. Dropping this detaches it, and the node continues to run.
#[derive(Debug)]
pub struct Strace {
    child: Child,
    output: PathBuf,
}

/// The reason why tracing is unavailable here, and the remedy; `None` if it is available.
pub fn why_no_trace() -> Option<String> {
    let run = |arguments: &[&str]| {
        let mut command = Command::new("strace");
        command.args(arguments).stdout(Stdio::null());
        command.stderr(Stdio::null()).status()
    };
    if run(&["-V"]).is_err() {
        return Some(skips::missing("strace", "strace"));
    }
    let traces = run(&["-o", "/dev/null", "true"]).is_ok_and(|status| status.success());
    (!traces).then(|| "strace may not trace here".to_owned())
}

impl Strace {
    pub fn delay_fdatasync(node: &Node, delay: Duration, folder: &Path) -> Self {
        let inject = format!("inject=fdatasync:delay_enter={}", delay.as_micros());
        Self::attach(node, &["-e", "trace=fdatasync", "-e", &inject], folder)
    }

    pub fn watch_fdatasync(node: &Node, folder: &Path) -> Self {
        Self::attach(node, &["-e", "trace=fdatasync"], folder)
    }

    /// Makes the next `fdatasync` of a file fail with this error (`EIO`), once.
    pub fn fail_fdatasync(node: &Node, file: &Path, error: &str, folder: &Path) -> Self {
        let inject = &format!("inject=fdatasync:error={error}:when=1");
        let path = file.display().to_string();
        Self::attach(
            node,
            &["-P", &path, "-e", "trace=fdatasync", "-e", inject],
            folder,
        )
    }

    fn attach(node: &Node, arguments: &[&str], folder: &Path) -> Self {
        let pid = node.pid();
        let output = folder.join(format!("{}.strace", node.name()));
        let child = Command::new("strace")
            // Without --seccomp-bpf (it needs a start under strace) each call stops twice anyway.
            .args(["-f", "-qq", "-p"])
            .arg(pid.as_raw_nonzero().to_string())
            .arg("-o")
            .arg(&output)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("strace starts");
        let strace = Self { child, output };
        // A call may fail before the last thread is traced, and the process then ends.
        wait::until(
            "every thread of the node is traced",
            Duration::from_secs(10),
            || (all_traced(pid) || strace.had_effect()).then_some(()),
        );
        strace
    }

    /// Returns whether a call was made to fail.
    pub fn had_effect(&self) -> bool {
        let text = std::fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&text).contains("(INJECTED)")
    }

    /// The number of `fdatasync` calls that have ended so far.
    pub fn fdatasyncs(&self) -> usize {
        let text = std::fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&text)
            .lines()
            .filter(|line| line.contains("fdatasync") && line.contains(" = "))
            .count()
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        // SIGINT makes strace detach and leave the process running.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        let _ = self.child.wait();
    }
}

fn all_traced(pid: Pid) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else {
        return false;
    };
    tasks.flatten().all(|task| {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let tracer = status
            .lines()
            .find_map(|line| line.strip_prefix("TracerPid:"));
        tracer.is_some_and(|tracer| tracer.trim() != "0")
    })
}
