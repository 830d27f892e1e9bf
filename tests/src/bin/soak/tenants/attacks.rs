//! The hostile tenant: every means at the same time, each on this many connections, which are
//! opened again when a node closes them. It never waits after a refusal. It runs in two processes,
//! one of which only occupies places: a flood in the same process would delay its thousands of
//! connections.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use seqd_tests::asker::Asker;
use seqd_tests::checkers::Violation;
use seqd_tests::connection::{connect, raise_open_files};
use seqd_tests::http::Reply;
use seqd_tests::report::{Counts, Report, count};
use seqd_tests::runtime::block_on;
use seqd_tests::seed::Random;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::guesses;
use crate::arguments::Arguments;
use crate::attackers::{self, again_and_again, hold, never_read, slowly};
use crate::filling::{DAY_MS, FLOODED, Filling, MONTH_MS};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// Waits for a lock, as long as a request may wait.
    Wait,
    /// Sends the head of a request and one byte of its body.
    OneByteOfBody,
    /// Sends nothing.
    Idle,
    /// Sends a head at one byte per second.
    SlowHead,
    /// Begins keys that live for a second and completes them with the largest result.
    Results,
    /// Sends requests with an `Idempotency-Key`, a new one each time.
    KeyedRequests,
    /// Begins keys of 30 days.
    LongKeys,
    /// Acquires locks of 24 hours, a new name each time.
    LongLocks,
    /// Issues one-time tokens, a thousand at a time.
    OneTimeTokens,
    /// Leases workers of every layout.
    WorkerLeases,
    /// Creates sequences, a new name each time.
    Sequences,
    /// Requests strict values as fast as the node answers.
    Flood,
    /// Requests batches of IDs and reads none of them.
    NeverReading,
    /// Guesses at the holds and claims of the honest tenant.
    Guesses,
    WrongToken,
    RevokedToken,
}

/// Each means with its connections to all nodes together. The waits alone are more than the 4,096
/// client connections of each of three nodes, so the nodes have no idle connection to close.
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

/// The pause before a connection is opened again. Connections that only occupy a place would
/// otherwise be opened at thousands per second, which is another attack.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_OF_HOLDERS: Duration = Duration::from_secs(5);

/// The longest wait for a lock that a request may have.
const WAIT: Duration = Duration::from_secs(600);

/// Waiters of one lock: fewer than `limits.lock_waiters`, so that all of them may wait.
const WAITERS: usize = 500;

/// The first connections are opened over this time.
const SPREAD_MS: u64 = 5_000;

/// The results of all means, by their names.
#[derive(Debug, Default)]
struct Book {
    connections: Counts,
    /// Responses by code; `ok` for status 200 or 201.
    answers: BTreeMap<String, Counts>,
    /// Objects of other tenants to which a request gained access.
    forged: Vec<String>,
}

/// The parameters of the attackers' process, which all attackers share.
struct Orders {
    addresses: Vec<String>,
    token: String,
    revoked: String,
    sources: usize,
    seed: u64,
    end: Instant,
    /// True if this process has the means that only occupy places; false if it has the others.
    holds: bool,
    /// The share of place-occupying connections that the limit of open files permits.
    share: f64,
    /// The names of the means, separated by commas; empty for all.
    means: String,
}

impl Orders {
    /// The means of this process, with their connections.
    fn means(&self) -> impl Iterator<Item = (Means, usize)> {
        MEANS.into_iter().filter(|(means, _)| {
            let is_ordered = || self.means.split(',').any(|name| name == means.to_string());
            means.holds() == self.holds && (self.means.is_empty() || is_ordered())
        })
    }
}

/// Fails if `--means` has an unknown name.
pub(super) fn allow_means(arguments: &Arguments) {
    let names = MEANS.map(|(means, _)| means.to_string());
    let given = arguments.text("--means").map(|text| text.split(','));
    let mut given = given.into_iter().flatten();
    let unknown = given.find(|given| names.iter().all(|name| name != given));
    if let Some(unknown) = unknown {
        panic!("--means {unknown} is unknown: {}", names.join(","));
    }
}

/// The body of the process that `tenants` starts.
pub(crate) fn attack(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--addresses --token --revoked --sources --seconds --seed --holds --means");
    allow_means(arguments);
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
        means: text("--means"),
    };
    let book = Rc::new(RefCell::new(Book::default()));
    block_on(attackers::all(attackers(&orders, &book)));
    let book = book.borrow();
    println!("  answers: {:#?}", book.answers);
    let mut report = Report::default();
    report.none("holds, claims and access of others", &book.forged);
    let used: Vec<String> = orders.means().map(|(means, _)| means.to_string()).collect();
    attackers::judge(
        used.iter().map(String::as_str),
        &book.connections,
        &mut report,
    );
    report.verdict()
}

/// All attackers of this process.
fn attackers(orders: &Orders, book: &Rc<RefCell<Book>>) -> Vec<impl Future<Output = ()> + use<>> {
    let mut attackers = Vec::new();
    for (means, connections) in orders.means() {
        let token = match means {
            // Without access tokens there is nothing to send, and no client is refused.
            _ if orders.token.is_empty() => "",
            Means::WrongToken => "seqd_0123456789abcdef_wrong",
            Means::RevokedToken => &orders.revoked,
            _ => &orders.token,
        };
        let share = if means.holds() { orders.share } else { 1.0 };
        let connections = (connections as f64 * share) as usize;
        for number in 0..connections {
            let source = source(orders.sources, attackers.len());
            let address = &orders.addresses[number % orders.addresses.len()];
            let asker = Asker::new(std::slice::from_ref(address));
            let attacker = Attacker {
                means,
                number,
                address: address.clone(),
                source,
                asker: asker.with_token(token).from_source(source),
                token: token.to_owned(),
                random: Random::seeded(orders.seed ^ attackers.len() as u64),
                sent: 0,
                book: Rc::clone(book),
            };
            attackers.push(attacker.run(orders.end));
        }
    }
    attackers
}

/// The source address of the connection with this number.
fn source(sources: usize, number: usize) -> IpAddr {
    let host = |subnet, host| IpAddr::V4(Ipv4Addr::new(127, 0, subnet, host));
    match sources {
        1 => host(0, 2),
        _ => host(1, (number % sources.min(250)) as u8 + 1),
    }
}

/// The share of place-occupying connections that the limit of open files permits.
fn share_of_connections() -> f64 {
    // Leaves room for the files of the process itself.
    let free = raise_open_files().saturating_sub(100) as f64;
    let held = MEANS.into_iter().filter(|(means, _)| means.holds());
    let held: usize = held.map(|(_, connections)| connections).sum();
    (free / held as f64).min(1.0)
}

impl fmt::Display for Means {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self:?}")
    }
}

impl Means {
    /// Returns whether it only occupies a place of a connection.
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
    book: Rc<RefCell<Book>>,
}

impl Attacker {
    async fn run(mut self, end: Instant) {
        let (delay_ms, pause) = (self.random.below(SPREAD_MS), self.means.pause());
        again_and_again(end, delay_ms, pause, async || {
            let means = self.means.to_string();
            count(&mut self.book.borrow_mut().connections, means);
            self.act().await;
        })
        .await;
    }

    /// Uses one connection until it is closed.
    async fn act(&mut self) -> Option<()> {
        match self.means {
            Means::Idle => hold(self.connected().await?, b"").await.ok(),
            Means::OneByteOfBody => {
                let head = self.head("POST", &format!("/v1/sequences/{FLOODED}/next"), 1000);
                hold(self.connected().await?, format!("{head}{{").as_bytes())
                    .await
                    .ok()
            }
            Means::SlowHead => {
                let head = self.head("GET", "/v1/id", 0);
                slowly(self.connected().await?, head.as_bytes().iter())
                    .await
                    .ok()
            }
            Means::NeverReading => {
                let head = self.head("GET", "/v1/ids?count=10000", 0);
                never_read(self.connected().await?, &head).await.ok()
            }
            _ => loop {
                self.sent += 1;
                self.request().await?;
            },
        }
    }

    /// Sends the next request of a means that reads responses. Returns `None` if the connection
    /// broke.
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

    pub(super) async fn post(&mut self, path: &str, body: &Value) -> Option<Reply> {
        self.ask(("POST", path, ""), &body.to_string()).await
    }

    pub(super) async fn ask(&mut self, request: (&str, &str, &str), body: &str) -> Option<Reply> {
        let answer = self.asker.ask(0, request, body, WAIT).await.ok()?;
        self.counts(&answer);
        Some(answer)
    }

    async fn fill(&mut self, filling: Filling, name: &str) -> Option<()> {
        let answer = filling.send(&mut self.asker, name, WAIT).await.ok()?;
        self.counts(&answer);
        Some(())
    }

    fn counts(&self, answer: &Reply) {
        let code = match answer.status {
            200 | 201 => "ok".to_owned(),
            _ => answer.code(),
        };
        let mut book = self.book.borrow_mut();
        count(
            book.answers.entry(self.means.to_string()).or_default(),
            code,
        );
    }

    pub(super) fn forges(&self, what: String) {
        self.book.borrow_mut().forged.push(what);
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

    async fn connected(&self) -> Option<TcpStream> {
        connect(&self.address, Some(self.source)).await.ok()
    }
}
