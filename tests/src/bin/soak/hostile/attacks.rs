//! The attacks: each kind on this many concurrent connections, which are opened again when the node
//! closes them.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::report::{Counts, Report, count};
use seqd_tests::runtime::block_on;
use seqd_tests::seed::Random;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::arguments::Arguments;
use crate::attackers::{self, again_and_again, hold, never_read, slowly};

/// The attack of a connection after it was opened.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Sends nothing.
    Idle,
    /// Sends half of a head.
    HalfOpen,
    /// Sends a request at one byte per second.
    Slow,
    /// Sends many requests with large responses, and reads none of them.
    NeverReading,
    /// Sends random lines.
    Malformed,
    /// Sends heads and bodies without end.
    Oversized,
    /// Begins with HTTP/2.
    Http2,
    /// Sends requests as fast as they are answered.
    Flood,
    /// Connects and closes.
    Churn,
    /// Sends the beginning of a frame to the peers' port, with an invalid length.
    Frame,
    /// Sends half of a valid frame to the peers' port.
    HalfFrame,
    /// Opens a peer's connection and sends calls as fast as they are answered.
    PeerFlood,
}

/// Each kind with its share of the connections in percent, at the clients' port and at the peers'.
const KINDS: [(Kind, usize, usize); 12] = [
    (Kind::Idle, 30, 30),
    (Kind::HalfOpen, 20, 0),
    (Kind::Slow, 15, 10),
    (Kind::NeverReading, 10, 0),
    (Kind::Malformed, 5, 20),
    (Kind::Oversized, 5, 10),
    (Kind::Http2, 5, 0),
    (Kind::Flood, 4, 0),
    (Kind::Churn, 6, 10),
    (Kind::Frame, 0, 10),
    (Kind::HalfFrame, 0, 6),
    (Kind::PeerFlood, 0, 4),
];

/// More connections than the node has places: of the clients' port and of the peers'.
const MOST_CLIENTS: usize = 6000;
const MOST_PEERS: usize = 1500;

/// The most connections that flood: more would only take the processor from each other.
const MOST_FLOODS: usize = 64;

/// A pause before a connection is opened again.
const PAUSE: Duration = Duration::from_millis(100);

/// The time for which a connection is kept open if the node does not close it.
const HELD: Duration = Duration::from_secs(120);

/// The body of the process that `hostile` starts.
pub(crate) fn attack(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--clients --peers --seconds --places");
    let address = |name: &str| arguments.text(name).expect("an address").to_owned();
    let end = Instant::now() + Duration::from_secs(arguments.value("--seconds", 10));
    let places: usize = arguments.value("--places", 1024);
    let connections = Rc::new(RefCell::new(Counts::new()));
    let mut attackers = Vec::new();
    for (kind, clients, peers) in KINDS {
        let at_clients = places.saturating_mul(2).min(MOST_CLIENTS) * clients / 100;
        let at_peers = places.min(MOST_PEERS) * peers / 100;
        let most = match kind {
            Kind::Flood | Kind::PeerFlood => MOST_FLOODS,
            _ => usize::MAX,
        };
        for (port, attackers_there) in [("--clients", at_clients), ("--peers", at_peers)] {
            for number in 0..attackers_there.min(most) {
                let connections = Rc::clone(&connections);
                attackers.push(attacker(
                    kind,
                    address(port),
                    number as u64,
                    end,
                    connections,
                ));
            }
        }
    }
    block_on(attackers::all(attackers));
    let mut report = Report::default();
    let kinds = KINDS.map(|(kind, ..)| format!("{kind:?}"));
    attackers::judge(
        kinds.iter().map(String::as_str),
        &connections.borrow(),
        &mut report,
    );
    report.verdict()
}

async fn attacker(
    kind: Kind,
    address: String,
    number: u64,
    end: Instant,
    connections: Rc<RefCell<Counts>>,
) {
    let mut random = Random::seeded(number);
    let pause = match kind {
        Kind::PeerFlood => Duration::ZERO,
        _ => PAUSE,
    };
    let delay_ms = random.below(2000);
    again_and_again(end, delay_ms, pause, async || {
        if let Ok(stream) = TcpStream::connect(&address).await {
            count(&mut connections.borrow_mut(), format!("{kind:?}"));
            let _ = timeout(HELD, act(kind, stream, &mut random)).await;
        }
    })
    .await;
}

async fn act(kind: Kind, mut stream: TcpStream, random: &mut Random) -> io::Result<()> {
    const ID: &[u8] = b"GET /v1/id HTTP/1.1\r\nhost: localhost\r\n\r\n";
    match kind {
        Kind::Idle => hold(stream, b"").await,
        Kind::HalfOpen => hold(stream, b"GET /v1/id HTTP/1.1\r\nhost: loc").await,
        Kind::Slow => {
            let request = b"POST /v1/sequences/range/next HTTP/1.1\r\nhost: localhost\r\n\
                            content-type: application/json\r\ncontent-length: 1000\r\n\r\n{";
            slowly(stream, request.iter().chain(std::iter::repeat(&b' '))).await
        }
        Kind::NeverReading => {
            never_read(
                stream,
                "GET /v1/ids?count=10000 HTTP/1.1\r\nhost: localhost\r\n\r\n",
            )
            .await
        }
        Kind::Malformed => malformed(stream, random).await,
        Kind::Oversized => oversized(stream, random).await,
        Kind::Http2 => {
            hold(
                stream,
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
            )
            .await
        }
        Kind::Flood => loop {
            stream.write_all(ID).await?;
            let mut answer = [0; 1024];
            if stream.read(&mut answer).await? == 0 {
                return Ok(());
            }
        },
        Kind::Churn => Ok(()),
        Kind::Frame => {
            let mut bytes = vec![0xff; 64];
            bytes[0] = random.below(256) as u8;
            hold(stream, &bytes).await
        }
        Kind::HalfFrame => {
            let bytes = opening();
            hold(stream, &bytes[..bytes.len() / 2]).await
        }
        Kind::PeerFlood => peer_flood(stream, random).await,
    }
}

/// A frame of the peers' port, as specified in `docs/internals/PEERS.md`.
fn frame(kind: u8, call: u64, body: &[u8]) -> Vec<u8> {
    let mut rest = vec![kind];
    rest.extend_from_slice(&call.to_le_bytes());
    rest.extend_from_slice(body);
    let mut bytes = (rest.len() as u32 + 4).to_le_bytes().to_vec();
    bytes.extend_from_slice(&crc32c::crc32c(&rest).to_le_bytes());
    bytes.extend_from_slice(&rest);
    bytes
}

/// The first frame of a connection: version 1, the link for hellos.
fn opening() -> Vec<u8> {
    frame(1, 0, b"seqdpeer\x01\0\x03")
}

/// Sends calls of a random route, with valid frames and invalid bodies.
async fn peer_flood(mut stream: TcpStream, random: &mut Random) -> io::Result<()> {
    stream.write_all(&opening()).await?;
    let mut answer = [0; 1024];
    for call in 1.. {
        if stream.read(&mut answer).await? == 0 {
            return Ok(());
        }
        // A route, no limit, the last part; every other call is a hello.
        let route = if call % 2 == 0 {
            11
        } else {
            random.below(20) as u8
        };
        let mut body = vec![route, 0, 0, 0, 0, 1];
        body.extend((0..random.below(200)).map(|_| random.below(256) as u8));
        stream.write_all(&frame(2, call, &body)).await?;
    }
    Ok(())
}

async fn malformed(mut stream: TcpStream, random: &mut Random) -> io::Result<()> {
    let lines = [
        &b"GET"[..],
        b" /v1/id",
        b" HTTP/1.1",
        b"\r\n",
        b"\0",
        b"host: a",
        b"\xff",
        b": ",
    ];
    let mut bytes = Vec::new();
    for _ in 0..random.below(40) {
        bytes.extend_from_slice(lines[random.below(lines.len() as u64) as usize]);
    }
    bytes.extend_from_slice(b"\r\n\r\n");
    stream.write_all(&bytes).await?;
    let mut answer = [0; 512];
    // There is no response yet if the bytes are a valid beginning.
    let _ = timeout(Duration::from_secs(1), stream.read(&mut answer)).await;
    Ok(())
}

async fn oversized(mut stream: TcpStream, random: &mut Random) -> io::Result<()> {
    let head = if random.below(2) == 0 {
        &b"GET /v1/id HTTP/1.1\r\nhost: localhost\r\na: "[..]
    } else {
        b"PUT /v1/sequences/big HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
          transfer-encoding: chunked\r\n\r\nfffffff\r\n"
    };
    stream.write_all(head).await?;
    let part = vec![b'x'; 64 * 1024];
    for _ in 0..64 {
        stream.write_all(&part).await?;
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
