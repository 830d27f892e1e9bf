//! One `seqd server` process: its folder, its configuration file, its output, its start and its
//! end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::http::{self, Reply};
use crate::links::{Host, Links};
use crate::ports::Port;
use crate::{binary, wait};

/// The longest duration of a clean stop, which the interface specification guarantees.
const CLEAN_STOP: Duration = Duration::from_secs(10);

/// The number of lines of a node's output that a failed story prints.
const SHOWN_LINES: usize = 60;

/// Configuration in addition to names and addresses: section, key, value as TOML.
pub type Settings = BTreeMap<String, BTreeMap<String, String>>;

/// `HOST:PORT` of a node's two interfaces, and the reservation of the ports.
#[derive(Debug)]
struct Addresses {
    http: String,
    peer: String,
    _reserved: Option<[Port; 2]>,
}

impl Addresses {
    /// Free ports on loopback.
    fn free() -> Self {
        let ports = [Port::free(), Port::free()];
        Self {
            http: ports[0].address(),
            peer: ports[1].address(),
            _reserved: Some(ports),
        }
    }
}

/// The ports of a node that has its own host.
const HTTP_PORT: u16 = 7400;
const PEER_PORT: u16 = 7401;

/// A member of a cluster under test. Its process may be running or not.
#[derive(Debug)]
pub struct Node {
    name: String,
    folder: PathBuf,
    addresses: Addresses,
    peers: Vec<String>,
    settings: Settings,
    environment: BTreeMap<String, String>,
    data: PathBuf,
    launcher: Vec<String>,
    binary: Option<PathBuf>,
    child: Option<Child>,
    is_secure: bool,
}

impl Node {
    /// A node below `root` that was never started, with free ports on loopback.
    pub fn new(root: &Path, name: &str) -> Self {
        Self::at(root, name, Addresses::free())
    }

    /// Moves it to other free ports on loopback from the next start on.
    pub fn set_free_ports(&mut self) {
        self.addresses = Addresses::free();
    }

    /// A node that was never started, alone on a host of these links.
    pub fn on_host(root: &Path, name: &str, links: &Links, host: usize) -> Self {
        let address = links.address(Host::node(host));
        let addresses = Addresses {
            http: format!("{address}:{HTTP_PORT}"),
            peer: format!("{address}:{PEER_PORT}"),
            _reserved: None,
        };
        let mut node = Self::at(root, name, addresses);
        // No other program is on these links.
        node.set("node", "insecure", "true");
        let launcher = links.launcher_of(host);
        node.set_launcher(&launcher.each_ref().map(String::as_str));
        node
    }

    fn at(root: &Path, name: &str, addresses: Addresses) -> Self {
        let folder = root.join(name);
        std::fs::create_dir_all(&folder).expect("a folder for the node");
        let mut node = Self {
            name: name.to_owned(),
            data: folder.join("data"),
            folder,
            addresses,
            peers: Vec::new(),
            settings: Settings::new(),
            environment: BTreeMap::new(),
            launcher: Vec::new(),
            binary: None,
            child: None,
            is_secure: false,
        };
        // No cluster exists at these ports before.
        node.set("peer", "found_after", "\"0s\"");
        node
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// `http://HOST:PORT`, or `https` if it serves clients over TLS.
    pub fn url(&self) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        format!("{scheme}://{}", self.addresses.http)
    }

    /// `HOST:PORT` of its client interface.
    pub fn http_address(&self) -> &str {
        &self.addresses.http
    }

    /// Records that it serves clients over TLS.
    pub fn set_secure(&mut self) {
        self.is_secure = true;
    }

    /// `HOST:PORT` of its peer interface.
    pub fn peer_address(&self) -> String {
        self.addresses.peer.clone()
    }

    pub fn data(&self) -> PathBuf {
        self.data.clone()
    }

    /// Moves its data folder from the next start on.
    pub fn set_data(&mut self, folder: &Path) {
        self.data = folder.to_path_buf();
    }

    /// Starts the binary through another program from the next start on. The program must replace
    /// itself with the binary (`exec`), so that the process ID is that of the node. Empty `words`
    /// start it directly.
    pub fn set_launcher(&mut self, words: &[&str]) {
        self.launcher = words.iter().map(|word| (*word).to_owned()).collect();
    }

    /// Uses another binary from the next start on. `None` is the binary under test.
    pub fn set_binary(&mut self, binary: Option<&Path>) {
        self.binary = binary.map(Path::to_path_buf);
    }

    pub fn config(&self) -> PathBuf {
        self.folder.join("seqd.toml")
    }

    /// Sets the members that its configuration names, as `NAME=HOST:PORT`.
    pub fn set_peers(&mut self, peers: &[String]) {
        self.peers = peers.to_vec();
    }

    pub fn set(&mut self, section: &str, key: &str, value: &str) {
        let keys = self.settings.entry(section.to_owned()).or_default();
        keys.insert(key.to_owned(), value.to_owned());
    }

    /// Resets a key to its default.
    pub fn unset(&mut self, section: &str, key: &str) {
        if let Some(keys) = self.settings.get_mut(section) {
            keys.remove(key);
        }
    }

    pub fn set_environment(&mut self, key: &str, value: &str) {
        self.environment.insert(key.to_owned(), value.to_owned());
    }

    pub fn write_config(&self) {
        let mut all = self.settings.clone();
        let mut put = |section: &str, key: &str, value: String| {
            all.entry(section.to_owned())
                .or_default()
                .entry(key.to_owned())
                .or_insert(value);
        };
        put("node", "name", format!("{:?}", self.name));
        put(
            "node",
            "data_dir",
            format!("{:?}", self.data().display().to_string()),
        );
        put("http", "listen", format!("{:?}", self.addresses.http));
        put("http", "advertise", format!("{:?}", self.url()));
        put("peer", "listen", format!("{:?}", self.addresses.peer));
        put("peer", "peers", format!("{:?}", self.peers));
        let mut text = String::new();
        for (section, keys) in all {
            let _ = writeln!(text, "[{section}]");
            for (key, value) in keys {
                let _ = writeln!(text, "{key} = {value}");
            }
        }
        std::fs::write(self.config(), text).expect("the configuration file");
    }

    pub fn start(&mut self) {
        assert!(!self.is_running(), "{} runs already", self.name);
        self.write_config();
        let out = |name: &str| {
            let file = File::options()
                .create(true)
                .append(true)
                .open(self.folder.join(name));
            Stdio::from(file.expect("a file for the node's output"))
        };
        let binary = self.binary.as_deref().unwrap_or_else(|| binary::seqd());
        let mut command = match self.launcher.split_first() {
            None => Command::new(binary),
            Some((program, words)) => {
                let mut command = Command::new(program);
                command.args(words).arg(binary);
                command
            }
        };
        binary::remove_variables(&mut command);
        command
            .args(["server", "--config"])
            .arg(self.config())
            .current_dir(&self.folder)
            .env("TMPDIR", &self.folder)
            .envs(&self.environment)
            .stdin(Stdio::null())
            .stdout(out("stdout"))
            .stderr(out("stderr"));
        self.child = Some(command.spawn().expect("seqd starts"));
    }

    pub fn pid(&self) -> Pid {
        let child = self.child.as_ref().expect("the node runs");
        Pid::from_child(child)
    }

    /// Returns whether the process runs. A process that has ended is reaped.
    pub fn is_running(&mut self) -> bool {
        self.child
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// The exit status if the process ended by itself. `None` if it runs, or if the harness ended
    /// it.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let child = self.child.as_mut()?;
        child.try_wait().expect("an own child")
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a signal to an own child");
    }

    /// Kills the process with SIGKILL, and waits until it has ended.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends SIGTERM and waits for the clean stop.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.exit_within(CLEAN_STOP)
    }

    /// Waits until the process has ended by itself.
    pub fn exit_within(&mut self, deadline: Duration) -> ExitStatus {
        let child = self.child.as_mut().expect("the node runs");
        let status = wait::within(deadline, || child.try_wait().expect("an own child"));
        let status = status.unwrap_or_else(|| {
            panic!(
                "{} still runs after {deadline:?}\n{}",
                self.name,
                self.tail()
            )
        });
        self.child = None;
        status
    }

    pub fn is_ready(&self) -> bool {
        let probe = http::get(&format!("{}/readyz", self.url())).patience(Duration::from_secs(1));
        probe.send().is_ok_and(|reply| reply.status == 200)
    }

    /// The node's own view of the cluster, if the node responds.
    pub fn cluster_view(&self) -> Option<serde_json::Value> {
        let url = format!("{}/v1/cluster", self.url());
        let reply: Reply = http::get(&url)
            .patience(Duration::from_secs(2))
            .send()
            .ok()?;
        (reply.status == 200).then(|| reply.json())
    }

    /// The file with the node's stderr.
    pub fn stderr_file(&self) -> PathBuf {
        self.folder.join("stderr")
    }

    /// The node's stderr over all of its starts.
    pub fn stderr(&self) -> String {
        let bytes = std::fs::read(self.stderr_file()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn last_line(&self) -> String {
        self.stderr().lines().last().unwrap_or_default().to_owned()
    }

    /// The end of stderr, for a failure message.
    pub fn tail(&self) -> String {
        let text = self.stderr();
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(SHOWN_LINES);
        format!(
            "--- {} stderr, last lines ---\n{}\n",
            self.name,
            lines[from..].join("\n")
        )
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}
