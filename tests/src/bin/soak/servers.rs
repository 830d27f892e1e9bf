//! The servers for comparison, on loopback and in temporary folders. They end with the run.
//! Debian's packages are `etcd-server` and `redis-server`.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use seqd_tests::ports::Port;
use seqd_tests::wait;
use tempfile::TempDir;

const STARTED: Duration = Duration::from_secs(30);

struct Server(Child);

impl Server {
    /// Starts a program with these words as its arguments.
    fn start(program: &str, words: &str) -> Self {
        let mut command = Command::new(program);
        command.args(words.split_whitespace()).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.unwrap_or_else(|error| panic!("{command:?}: {error} (is it installed?)")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn listens(port: &Port) -> Option<()> {
    std::net::TcpStream::connect(("127.0.0.1", port.number()))
        .ok()
        .map(drop)
}

/// Three nodes with the defaults of their package.
pub(crate) struct Etcd {
    clients: Vec<Port>,
    _nodes: Vec<Server>,
    _peers: Vec<Port>,
    _folder: TempDir,
}

impl Etcd {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let ports = || (0..3).map(|_| Port::free()).collect::<Vec<_>>();
        let (clients, peers) = (ports(), ports());
        let url = |port: &Port| format!("http://127.0.0.1:{}", port.number());
        let all: Vec<String> = (0..3)
            .map(|at| format!("e{at}={}", url(&peers[at])))
            .collect();
        let nodes = (0..3).map(|at| {
            let (client, peer, all) = (url(&clients[at]), url(&peers[at]), all.join(","));
            let data = folder.path().join(format!("e{at}"));
            let words = format!(
                "--name e{at} --initial-cluster {all} --data-dir {} \
                 --listen-client-urls {client} --advertise-client-urls {client} \
                 --listen-peer-urls {peer} --initial-advertise-peer-urls {peer}",
                data.display()
            );
            Server::start("etcd", &words)
        });
        let nodes = nodes.collect();
        for port in &clients {
            wait::until("etcd serves", STARTED, || listens(port));
        }
        Self {
            clients,
            _nodes: nodes,
            _peers: peers,
            _folder: folder,
        }
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        let ports = self.clients.iter();
        ports
            .map(|port| format!("127.0.0.1:{}", port.number()))
            .collect()
    }
}

/// The times at which a Redis server syncs its log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Log {
    /// Before each response.
    Always,
    EverySecond,
    /// The server has no log.
    Never,
}

/// One server without a replica.
pub(crate) struct Redis {
    port: Port,
    _server: Server,
    _folder: TempDir,
}

impl Redis {
    pub(crate) fn start(log: Log) -> Self {
        let (folder, port) = (tempfile::tempdir().expect("a folder"), Port::free());
        let log = match log {
            Log::Always => "--appendonly yes --appendfsync always",
            Log::EverySecond => "--appendonly yes --appendfsync everysec",
            Log::Never => "--appendonly no",
        };
        let words = format!(
            "--port {} --bind 127.0.0.1 {log} --dir {}",
            port.number(),
            folder.path().display()
        );
        let server = Server::start("redis-server", &(words + " --save \"\""));
        wait::until("Redis serves", STARTED, || listens(&port));
        Self {
            port,
            _server: server,
            _folder: folder,
        }
    }

    pub(crate) fn port(&self) -> &Port {
        &self.port
    }
}
