//! A network of hosts on one machine whose links can be cut, slowed, delayed and broken, separately
//! in each direction.
//!
//! Each host is a network namespace with one TUN device. The harness has a device too, in its own
//! namespace. The relay, a thread of this process, reads the packets of each host and passes them
//! to the device of the receiver, at once, later, or not at all. A fault is therefore a rule in
//! memory: it takes effect at once, ends when its guard is dropped, and counts the packets that it
//! touched. No program or kernel module except `ip` is needed. The processes use their kernel's own
//! TCP.
//!
//! It needs root, `ip` and `/dev/net/tun`; [`unavailable`] returns what is missing. Namespaces and
//! devices are removed when the network is dropped. If an ended process left any, the next network
//! with the same number removes them.

mod packet;
mod pairs;
mod relay;
mod rules;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::ports::Number;
use crate::seed::Random;
use crate::skips;

pub use pairs::{Host, MOST_NODES, Nodes, Pairs};
use relay::{Relay, Shared};
pub use rules::Condition;
use rules::Rules;

/// The length of the device's queue towards the relay, in packets: enough for a burst of 8 MiB.
const DEVICE_QUEUE: u32 = 6_000;

/// The links of a network with a namespace for each node.
#[derive(Debug)]
pub struct Links {
    number: Number,
    nodes: usize,
    shared: Arc<Shared>,
    relay: Option<JoinHandle<()>>,
}

/// A condition that is in force until this is dropped.
#[derive(Debug)]
pub struct Fault {
    number: u64,
    touched: Arc<AtomicU64>,
    shared: Arc<Shared>,
}

/// The reason why such a network is not available here, with the remedy. `None` if it is.
pub fn unavailable() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("network namespaces need root".to_owned());
    }
    if Command::new("ip").arg("-V").output().is_err() {
        return Some(skips::missing("ip", "iproute2"));
    }
    Links::try_new(1, Random::seeded(0)).err()
}

impl Links {
    /// Creates a network with this many hosts for nodes, without any fault.
    pub fn new(nodes: usize) -> Self {
        let random = Random::of_this_run("links");
        Self::try_new(nodes, random).expect("a network of namespaces")
    }

    fn try_new(nodes: usize, random: Random) -> Result<Self, String> {
        assert!(nodes <= MOST_NODES, "{MOST_NODES} nodes at most");
        let shared = Arc::new(Shared {
            rules: Mutex::new(Rules::new(random)),
            ends: AtomicBool::new(false),
            carried: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
            latest_us: AtomicU64::new(0),
        });
        let mut links = Self {
            number: Number::free(),
            nodes,
            shared: Arc::clone(&shared),
            relay: None,
        };
        links.remove();
        let mut devices = BTreeMap::new();
        for host in (0..nodes).map(Host::node).chain([Host::HARNESS]) {
            devices.insert(host, links.device(host)?);
        }
        let relay = std::thread::Builder::new().name("links".to_owned());
        let relay = relay.spawn(move || Relay::new(devices, shared).run());
        links.relay = Some(relay.map_err(|error| format!("no thread for the links: {error}"))?);
        Ok(links)
    }

    /// Creates the device of a host, in its namespace and with its address.
    fn device(&self, host: Host) -> Result<SyncDevice, String> {
        let name = format!("sq{}h{}", self.number.value(), host.number());
        let device = DeviceBuilder::new()
            .name(&name)
            .tx_queue_len(DEVICE_QUEUE)
            .build_sync()
            .map_err(|error| format!("no TUN device: {error}"))?;
        let nonblocking = device.set_nonblocking(true);
        nonblocking.map_err(|error| format!("{name}: {error}"))?;
        let address = format!("{}/24", self.address(host));
        if host == Host::HARNESS {
            let lines = format!("addr add {address} dev {name}\nlink set {name} up\n");
            ip(&[], &lines)?;
        } else {
            let space = self.namespace(host);
            let lines = format!("netns add {space}\nlink set {name} netns {space}\n");
            ip(&[], &lines)?;
            let lines =
                format!("link set lo up\naddr add {address} dev {name}\nlink set {name} up\n");
            ip(&["-n", &space], &lines)?;
        }
        Ok(device)
    }

    fn namespace(&self, host: Host) -> String {
        format!("seqd-test-{}-{}", self.number.value(), host.number())
    }

    pub fn address(&self, host: Host) -> String {
        // A part of the private range that few networks use.
        format!("10.201.{}.{}", self.number.value(), host.number())
    }

    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The command to put before a program so that it starts on a node's host. It does not use `ip
    /// netns exec`, which gives the program its own mounts: a disk that is mounted at that time
    /// could not be unmounted while the program runs.
    pub fn launcher_of(&self, node: usize) -> [String; 3] {
        let net = format!("--net={}", self.path_of(node));
        ["nsenter".to_owned(), net, "--".to_owned()]
    }

    fn path_of(&self, node: usize) -> String {
        format!("/run/netns/{}", self.namespace(Host::node(node)))
    }

    /// Runs `work` in the network namespace of a node's host.
    pub fn inside<T: Send>(&self, node: usize, work: impl FnOnce() -> T + Send) -> T {
        let space = File::open(self.path_of(node)).expect("the namespace of a node");
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(space.as_fd(), kind).expect("root may enter it");
                work()
            });
            thread.join().expect("the work on a node's host")
        })
    }

    /// Puts a condition in force between these hosts.
    #[must_use = "the condition ends when this is dropped"]
    pub fn impose(&self, pairs: Pairs, condition: Condition) -> Fault {
        let rules = self.shared.rules.lock();
        let mut rules = rules.unwrap_or_else(PoisonError::into_inner);
        let (number, touched) = rules.add(pairs, condition);
        Fault {
            number,
            touched,
            shared: Arc::clone(&self.shared),
        }
    }

    /// The number of bytes that were carried so far.
    pub fn carried(&self) -> u64 {
        self.shared.carried.load(Ordering::Relaxed)
    }

    /// The number of packets that were lost because a device or the relay had no room, which is not
    /// a requested fault.
    pub fn overflowed(&self) -> u64 {
        self.shared.overflowed.load(Ordering::Relaxed)
    }

    /// The largest delay with which a packet left the relay after its time, since the last call.
    pub fn lateness(&self) -> Duration {
        Duration::from_micros(self.shared.latest_us.swap(0, Ordering::Relaxed))
    }

    /// Breaks every TCP connection between two nodes at both ends, including idle ones. Returns the
    /// number of broken connections.
    pub fn break_connections(&self, node: usize, other: usize) -> usize {
        let launcher = self.launcher_of(node);
        let other = self.address(Host::node(other));
        let output = Command::new(&launcher[0])
            .args(&launcher[1..])
            .args(["ss", "-HtK", "dst", &other])
            .output()
            .expect("nsenter runs ss");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).lines().count()
    }

    /// Limits the cables of these nodes to this many bits per second in each direction, including
    /// the harness's requests to them.
    #[must_use = "the condition ends when this is dropped"]
    pub fn slow(&self, nodes: &[usize], bits_per_second: f64) -> Fault {
        let condition = Condition::Rate(Nodes::of(nodes), bits_per_second);
        self.impose(Pairs::cables(nodes), condition)
    }

    /// Removes the namespaces of this number, and with them their devices.
    fn remove(&self) {
        let Ok(listed) = Command::new("ip").args(["netns", "list"]).output() else {
            return;
        };
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let own = format!("seqd-test-{}-", self.number.value());
        let names = listed.lines().filter_map(|line| line.split(' ').next());
        let lines: String = names
            .filter(|name| name.starts_with(&own))
            .map(|name| format!("netns del {name}\n"))
            .collect();
        if let Err(error) = ip(&[], &lines) {
            eprintln!("namespaces are left behind: {error}");
        }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(relay) = self.relay.take() {
            // A panic of the relay was printed when it occurred.
            let _ = relay.join();
        }
        self.remove();
    }
}

impl Fault {
    /// The number of packets that the fault has dropped, delayed or answered so far.
    pub fn touched(&self) -> u64 {
        self.touched.load(Ordering::Relaxed)
    }

    /// Ends the fault. Panics if it never touched a packet.
    #[track_caller]
    pub fn heal(self) -> u64 {
        let touched = self.touched();
        assert!(touched > 0, "a fault that never bit");
        touched
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        let rules = self.shared.rules.lock();
        rules
            .unwrap_or_else(PoisonError::into_inner)
            .remove(self.number);
    }
}

/// Runs `ip` with lines of commands.
fn ip(options: &[&str], lines: &str) -> Result<(), String> {
    let started = Command::new("ip")
        .args(options)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = started.map_err(|error| format!("ip does not start: {error}"))?;
    let mut stdin = child.stdin.take().expect("a pipe");
    let written = stdin.write_all(lines.as_bytes());
    written.map_err(|error| format!("ip does not read: {error}"))?;
    drop(stdin);
    let output = child.wait_with_output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        let why = String::from_utf8_lossy(&output.stderr);
        Err(format!("ip failed on {lines:?}: {}", why.trim()))
    }
}

#[cfg(test)]
mod tests;
