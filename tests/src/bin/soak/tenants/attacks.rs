//! The hostile tenant: every method at the same time, each on a number of connections, which are
//! opened again when a node closes them. It never waits after a refusal. It runs in two processes,
//! one of which only occupies places, because a flood in the same process would delay its thousands
//! of connections.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seqd_tests::asker::{Answer, Asker};
use seqd_tests::checkers::Violation;
use seqd_tests::connection::connect;
use seqd_tests::seed::Random;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::guesses;
use crate::arguments::Arguments;
use crate::filling::{DAY_MS, FLOODED, Filling, MONTH_MS};
use crate::hostile::until_closed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// Waits for a lock for as long as a request may wait.
    Wait,
    /// Sends the head of a request and one byte of its body.
    OneByteOfBody,
    /// Sends nothing.
    Idle,
    /// Sends a head at one byte per second.
    SlowHead,
    /// Begins keys with a TTL of one second and completes them with the largest result.
    Results,
    /// Sends requests with an `Idempotency-Key`, a new one each time.
    KeyedRequests,
    /// Begins keys with a TTL of 30 days.
    LongKeys,
    /// Acquires locks with a TTL of 24 hours, a new name each time.
    LongLocks,
    /// Issues one-time tokens, a thousand at a time.
    OneTimeTokens,
    /// Leases workers of every layout.
    WorkerLeases,
    /// Creates sequences, a new name each time.
    Sequences,
    /// Allocates strict values as fast as they are answered.
    Flood,
    /// Requests batches of IDs and reads none of them.
    NeverReading,
    /// Guesses the holds and claims of the honest tenant.
    Guesses,
    WrongToken,
    RevokedToken,
}

/// Each method with its number of connections, to all nodes together. The waits alone are more than
/// the 4,096 connections that each of three nodes has for clients, so that no idle connection is
/// left to be closed.
const MEANS: [(Means, usize); 16] = [
    (Means::Wait, 12_600),
    (Means::OneByteOfBody, 4_500),
    (Means::Idle, 450),
    (Means::SlowHead, 450),
    (Means::Results, 48),
    (Means::KeyedRequests, 48),
    (Means::LongKeys, 24),
    (Means::LongLocks, 24),
    (Means::OneTimeTokens, 6),
    (Means::WorkerLeases, 6),
    (Means::Sequences, 24),
    (Means::Flood, 300),
    (Means::NeverReading, 60),
    (Means::Guesses, 6),
    (Means::WrongToken, 30),
    (Means::RevokedToken, 30),
];

/// The pause before a connection is opened again. Without the longer pause, connections that only
/// occupy a place would open thousands a second, which is another attack.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_OF_HOLDERS: Duration = Duration::from_secs(5);

/// The longest permitted wait for a lock.
const WAIT: Duration = Duration::from_secs(600);

/// The number of waiters of one lock, below `limits.lock_waiters`, so that all of them may wait.
const WAITERS: usize = 500;

/// The time over which the first connections are opened, in ms.
const SPREAD_MS: u64 = 5_000;

/// The results of one method.
#[derive(Debug, Default)]
struct Count {
    connections: u64,
    /// Responses by code. `ok` is status 200 or 201.
    answers: BTreeMap<String, u64>,
}

type Counts = Rc<RefCell<Count>>;

/// The arguments of the attackers' process, and the state that all attackers share.
struct Orders {
    addresses: Vec<String>,
    token: String,
    revoked: String,
    sources: usize,
    seed: u64,
    end: Instant,
    /// `true` if this process runs the methods that only occupy places, `false` for the others.
    holds: bool,
    /// The share of the connections that only occupy a place which the limit of open files allows.
    share: f64,
    /// The objects of others that an attacker obtained.
    forged: Rc<RefCell<Vec<String>>>,
}

/// The main function of the process that `tenants` starts.
pub(crate) fn attack(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow(&[
        "--addresses",
        "--token",
        "--revoked",
        "--sources",
        "--seconds",
        "--seed",
        "--holds",
    ]);
    let text = |name: &str| arguments.text(name).unwrap_or_default().to_owned();
    let orders = Orders {
        addresses: text("--addresses").split(',').map(str::to_owned).collect(),
        token: text("--token"),
        revoked: text("--revoked"),
        sources: arguments.value("--sources", 1),
        seed: arguments.value("--seed", 0),
        end: Instant::now() + Duration::from_secs(arguments.value("--seconds", 10)),
        holds: arguments.flag("--holds"),
        share: share_of_connections(),
        forged: Rc::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let attackers = LocalSet::new();
    let counts = runtime
        .expect("a runtime")
        .block_on(attackers.run_until(all_at_once(&orders)));
    for (means, count) in &counts {
        let Count {
            connections,
            answers,
        } = &*count.borrow();
        let means = format!("{means:?}");
        println!("  {means:<14} {connections:>7} connections; answers: {answers:?}");
    }
    if let Some(one) = orders.forged.borrow().first() {
        let detail = format!("{} times, the first: {one}", orders.forged.borrow().len());
        return Err(Violation::new("holds, claims and access of others", detail));
    }
    let unused = counts
        .iter()
        .find(|(_, count)| count.borrow().connections == 0);
    match unused {
        Some((means, _)) => Err(Violation::new("an attack that bites", format!("{means:?}"))),
        None => Ok(()),
    }
}

/// Runs all attackers until their end.
async fn all_at_once(orders: &Orders) -> Vec<(Means, Counts)> {
    let (mut counts, mut tasks) = (Vec::new(), Vec::new());
    let of_this_process = |(means, _): &(Means, usize)| means.holds() == orders.holds;
    for (means, connections) in MEANS.into_iter().filter(of_this_process) {
        let count = Counts::default();
        let token = match means {
            // Without access tokens no token is sent, and nobody is refused.
            _ if orders.token.is_empty() => "",
            Means::WrongToken => "seqd_0123456789abcdef_wrong",
            Means::RevokedToken => &orders.revoked,
            _ => &orders.token,
        };
        let share = if means.holds() { orders.share } else { 1.0 };
        let connections = (connections as f64 * share) as usize;
        for number in 0..connections {
            let source = source(orders.sources, tasks.len());
            let address = &orders.addresses[number % orders.addresses.len()];
            let asker = Asker::new(std::slice::from_ref(address));
            let attacker = Attacker {
                means,
                number,
                address: address.clone(),
                source,
                asker: asker.with_token(token).from_source(source),
                token: token.to_owned(),
                random: Random::seeded(orders.seed ^ tasks.len() as u64),
                sent: 0,
                count: Rc::clone(&count),
                forged: Rc::clone(&orders.forged),
            };
            tasks.push(tokio::task::spawn_local(attacker.run(orders.end)));
        }
        counts.push((means, count));
    }
    for task in tasks {
        task.await.expect("an attacker");
    }
    counts
}

/// The source address of the connection with this number.
fn source(sources: usize, number: usize) -> IpAddr {
    let host = |subnet, host| IpAddr::V4(Ipv4Addr::new(127, 0, subnet, host));
    match sources {
        1 => host(0, 2),
        _ => host(1, (number % sources.min(250)) as u8 + 1),
    }
}

/// Raises this process's limit of open files. Returns the share of the connections that it allows.
fn share_of_connections() -> f64 {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("an own limit, below the hard one");
    let held = MEANS.into_iter().filter(|(means, _)| means.holds());
    let held: usize = held.map(|(_, connections)| connections).sum();
    // A reserve for the files that the process itself has open.
    let free = maximum.unwrap_or(u64::MAX).saturating_sub(100) as f64;
    (free / held as f64).min(1.0)
}

impl Means {
    /// Returns whether this method only occupies a place for a connection.
    fn holds(self) -> bool {
        use Means::{Idle, OneByteOfBody, SlowHead, Wait};
        matches!(self, Wait | OneByteOfBody | Idle | SlowHead)
    }

    fn pause(self) -> Duration {
        if self.holds() {
            PAUSE_OF_HOLDERS
        } else {
            PAUSE
        }
    }
}

pub(super) struct Attacker {
    means: Means,
    number: usize,
    address: String,
    source: IpAddr,
    asker: Asker,
    token: String,
    pub(super) random: Random,
    sent: u64,
    count: Counts,
    /// The objects of others that it obtained.
    forged: Rc<RefCell<Vec<String>>>,
}

impl Attacker {
    async fn run(mut self, end: Instant) {
        sleep(Duration::from_millis(self.random.below(SPREAD_MS))).await;
        while Instant::now() < end {
            self.count.borrow_mut().connections += 1;
            // A node may close the connection at any time, and may refuse to accept it.
            let _ = timeout_at(end, self.act()).await;
            sleep(self.means.pause().min(end - Instant::now())).await;
        }
    }

    /// Uses one connection until it is closed.
    async fn act(&mut self) -> Option<()> {
        match self.means {
            Means::Idle => self.hold(b"").await,
            Means::OneByteOfBody => {
                let head = self.head("POST", &format!("/v1/sequences/{FLOODED}/next"), 1000);
                self.hold(format!("{head}{{").as_bytes()).await
            }
            Means::SlowHead => self.slowly().await,
            Means::NeverReading => {
                let head = self.head("GET", "/v1/ids?count=10000", 0);
                let mut stream = connect(&self.address, Some(self.source)).await.ok()?;
                stream.write_all(head.repeat(64).as_bytes()).await.ok()?;
                sleep(WAIT).await;
                Some(())
            }
            _ => loop {
                self.sent += 1;
                self.request().await?;
            },
        }
    }

    /// Sends the next request of a method that expects responses. `None` if the connection broke.
    async fn request(&mut self) -> Option<()> {
        let name = format!("hostile.{:?}.{}.{}", self.means, self.number, self.sent);
        match self.means {
            Means::Results => self.fill(Filling::Result { ttl_ms: 1_000 }, &name).await?,
            Means::LongKeys => {
                self.fill(Filling::Result { ttl_ms: MONTH_MS }, &name)
                    .await?
            }
            Means::KeyedRequests => self.fill(Filling::KeyedRequest, &name).await?,
            Means::LongLocks => self.fill(Filling::Lock, &name).await?,
            Means::OneTimeTokens => self.fill(Filling::OneTimeTokens, &name).await?,
            Means::Sequences => self.fill(Filling::Sequence, &name).await?,
            Means::Wait => {
                let lock = format!("hostile.wait.{}", self.number / WAITERS);
                let wait_ms = WAIT.as_millis() as u64;
                let body = json!({"owner": name, "ttl_ms": DAY_MS, "wait_ms": wait_ms});
                self.post(&format!("/v1/locks/{lock}/acquire"), &body)
                    .await?;
                sleep(PAUSE_OF_HOLDERS).await;
            }
            Means::WorkerLeases => {
                let layouts = ["default", "twitter", "leaf", "sonyflake", "js53"];
                let layout = layouts[self.random.below(layouts.len() as u64) as usize];
                let body = json!({"layout": layout, "owner": name});
                self.post("/v1/workers", &body).await?;
            }
            Means::Flood => {
                let path = format!("/v1/sequences/{FLOODED}/next");
                self.ask(("POST", &path, ""), "").await?;
            }
            Means::Guesses => guesses::guess(self, &name).await?,
            _ => {
                let answer = self.ask(("GET", "/v1/id", ""), "").await?;
                if answer.is_ok() && !self.token.is_empty() {
                    self.forges(format!("{:?} was let in", self.means));
                }
            }
        }
        Some(())
    }

    pub(super) async fn post(&mut self, path: &str, body: &Value) -> Option<Answer> {
        self.ask(("POST", path, ""), &body.to_string()).await
    }

    pub(super) async fn ask(&mut self, request: (&str, &str, &str), body: &str) -> Option<Answer> {
        let answer = self.asker.ask(0, request, body, WAIT).await.ok()?;
        self.counts(&answer);
        Some(answer)
    }

    async fn fill(&mut self, filling: Filling, name: &str) -> Option<()> {
        let answer = filling.send(&mut self.asker, name, WAIT).await.ok()?;
        self.counts(&answer);
        Some(())
    }

    fn counts(&self, answer: &Answer) {
        let code = match answer.status {
            200 | 201 => "ok".to_owned(),
            _ => answer.code(),
        };
        *self.count.borrow_mut().answers.entry(code).or_default() += 1;
    }

    pub(super) fn forges(&self, what: String) {
        self.forged.borrow_mut().push(what);
    }

    fn head(&self, method: &str, path: &str, length: usize) -> String {
        let authorization = match self.token.as_str() {
            "" => String::new(),
            token => format!("authorization: Bearer {token}\r\n"),
        };
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\n{authorization}content-type: \
             application/json\r\ncontent-length: {length}\r\n\r\n",
            self.address
        )
    }

    /// Opens a connection, sends only these bytes, and waits until it is closed.
    async fn hold(&self, bytes: &[u8]) -> Option<()> {
        let mut stream = connect(&self.address, Some(self.source)).await.ok()?;
        stream.write_all(bytes).await.ok()?;
        until_closed(stream).await.ok()
    }

    async fn slowly(&self) -> Option<()> {
        let head = self.head("GET", "/v1/id", 0);
        let mut stream = connect(&self.address, Some(self.source)).await.ok()?;
        for byte in head.bytes() {
            stream.write_all(&[byte]).await.ok()?;
            sleep(Duration::from_secs(1)).await;
        }
        Some(())
    }
}
