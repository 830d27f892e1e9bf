//! HAProxy in front of a cluster, configured as by an operator: it checks the health port of each
//! node, and hides no failure from its clients.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cluster::{Cluster, READY};
use crate::http;
use crate::ports::Port;
use crate::skips;
use crate::wait;

/// A balancer that runs until it is dropped.
#[derive(Debug)]
pub struct Balancer {
    child: Child,
    clients: Port,
    status: Port,
    /// Reserved for as long as the nodes use them.
    _health: Vec<Port>,
}

/// The reason why no balancer can run here.
pub fn unavailable() -> Option<String> {
    let found = Command::new("haproxy").arg("-v").output();
    found.is_err().then(|| skips::missing("haproxy", "haproxy"))
}

/// Gives each node a health port, before it starts.
pub fn with_health_ports(cluster: &mut Cluster) -> Vec<Port> {
    (0..cluster.size())
        .map(|index| {
            let port = Port::free();
            let listen = format!("{:?}", port.address());
            cluster.node_mut(index).set("health", "listen", &listen);
            port
        })
        .collect()
}

impl Balancer {
    /// Starts a balancer, and waits until it uses every node. A node is used after two successful
    /// checks, and no longer after two failed ones.
    pub fn start(cluster: &Cluster, health: Vec<Port>, check_every: Duration) -> Self {
        let (clients, status) = (Port::free(), Port::free());
        let mut text = format!(
            "defaults\n mode http\n timeout connect 2s\n timeout client 30s\n timeout server 30s\n \
             retries 0\nfrontend clients\n bind {}\n default_backend nodes\nfrontend status\n \
             bind {}\n stats enable\n stats uri /\nbackend nodes\n balance roundrobin\n \
             option httpchk GET /readyz\n http-check expect status 200\n",
            clients.address(),
            status.address()
        );
        for (index, port) in health.iter().enumerate() {
            let (name, address) = (cluster.node(index).name(), cluster.address(index));
            let check = port.address();
            let check = check.rsplit(':').next().expect("a port");
            let every = check_every.as_millis();
            let _ = writeln!(
                text,
                " server {name} {address} check port {check} inter {every}ms fall 2 rise 2"
            );
        }
        let config = cluster.folder().join("haproxy.cfg");
        std::fs::write(&config, text).expect("the configuration of the balancer");
        let balancer = Self {
            child: spawn(&config),
            clients,
            status,
            _health: health,
        };
        wait::until("the balancer uses every node", READY, || {
            (balancer.used() == Some(cluster.size())).then_some(())
        });
        balancer
    }

    /// `http://HOST:PORT` for clients.
    pub fn url(&self) -> String {
        format!("http://{}", self.clients.address())
    }

    /// The number of nodes to which the balancer sends requests.
    pub fn used(&self) -> Option<usize> {
        let url = format!("http://{}/;csv", self.status.address());
        let table = http::get(&url).send().ok()?.body;
        let servers = table.lines().filter(|line| line.starts_with("nodes,n"));
        Some(servers.filter(|line| line.contains(",UP,")).count())
    }
}

fn spawn(config: &Path) -> Child {
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(config);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
        .stderr(Stdio::null())
        .spawn()
        .expect("haproxy starts")
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
