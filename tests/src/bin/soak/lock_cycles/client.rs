//! A client of one lock of seqd, of etcd over its JSON gateway, or of Redis with `SET NX PX` and
//! the script that deletes its own value.

use std::io;
use std::time::Duration;

use seqd_tests::connection::Connection;
use seqd_tests::resp::command;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The duration of a hold that is not released, on every server.
const TTL: Duration = Duration::from_secs(30);

/// The wait of a request to seqd.
const WAIT: Duration = Duration::from_secs(20);

/// The pause of a Redis client between two attempts at a lock that is held.
const AGAIN: Duration = Duration::from_millis(1);

const RELEASE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Seqd,
    Etcd,
    Redis,
    /// The Redis protocol of seqd.
    SeqdAsRedis,
}

pub(super) struct Client {
    wire: Wire,
    lock: String,
    owner: String,
    asked: u64,
}

enum Wire {
    Seqd(Connection),
    /// A connection, and the lease with which the client holds locks.
    Etcd(Connection, String),
    Redis(TcpStream),
}

fn other(detail: impl ToString) -> io::Error {
    io::Error::other(detail.to_string())
}

async fn ask(connection: &mut Connection, path: &str, body: Value) -> io::Result<Value> {
    let (status, answer) = connection.post(path, &body.to_string()).await?;
    if status != 200 {
        let answer = String::from_utf8_lossy(answer);
        return Err(other(format!("{path}: {status} {answer}")));
    }
    serde_json::from_slice(answer).map_err(other)
}

fn text(answer: &Value, field: &str) -> io::Result<String> {
    let value = answer[field].as_str().map(str::to_owned);
    value.ok_or_else(|| other(format!("no {field} in {answer}")))
}

impl Client {
    /// Opens a client of the lock with this number.
    pub(super) async fn open(kind: Kind, address: &str, lock: usize, at: usize) -> Self {
        let wire = Wire::open(kind, address).await;
        Self {
            wire: wire.unwrap_or_else(|error| panic!("{kind:?} at {address}: {error}")),
            // Eight letters and digits are also valid base64, which etcd's gateway requires for
            // keys.
            lock: format!("bench{lock:03}"),
            owner: format!("owner-{at}"),
            asked: 0,
        }
    }

    /// Acquires the lock, after a wait if necessary, and releases it.
    pub(super) async fn cycle(&mut self) -> io::Result<()> {
        self.asked += 1;
        let (lock, owner, ttl_ms) = (&self.lock, &self.owner, TTL.as_millis() as u64);
        let value = format!("{owner}-{}", self.asked);
        match &mut self.wire {
            Wire::Seqd(connection) => {
                let acquire = json!({
                    "owner": owner, "ttl_ms": ttl_ms, "wait_ms": WAIT.as_millis() as u64,
                    "nonce": value,
                });
                let path = |what| format!("/v1/locks/{lock}/{what}");
                let held = ask(connection, &path("acquire"), acquire).await?;
                let release = json!({"lease": text(&held, "lease")?});
                ask(connection, &path("release"), release).await?;
            }
            Wire::Etcd(connection, lease) => {
                let hold = json!({"name": lock, "lease": lease});
                let held = ask(connection, "/v3/lock/lock", hold).await?;
                let unlock = json!({"key": text(&held, "key")?});
                ask(connection, "/v3/lock/unlock", unlock).await?;
            }
            Wire::Redis(stream) => {
                let set = ["SET", lock, &value, "NX", "PX", &ttl_ms.to_string()];
                while redis(stream, &set).await? != "+OK" {
                    tokio::time::sleep(AGAIN).await;
                }
                let released = redis(stream, &["EVAL", RELEASE, "1", lock, &value]).await?;
                if released != ":1" {
                    return Err(other(released));
                }
            }
        }
        Ok(())
    }
}

impl Wire {
    async fn open(kind: Kind, address: &str) -> io::Result<Self> {
        if matches!(kind, Kind::Redis | Kind::SeqdAsRedis) {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            return Ok(Self::Redis(stream));
        }
        let mut connection = Connection::plain(address).await?;
        if kind == Kind::Seqd {
            return Ok(Self::Seqd(connection));
        }
        let grant = json!({"TTL": TTL.as_secs()});
        let granted = ask(&mut connection, "/v3/lease/grant", grant).await?;
        Ok(Self::Etcd(connection, text(&granted, "ID")?))
    }
}

/// Sends one Redis command whose response is one line.
async fn redis(stream: &mut TcpStream, words: &[&str]) -> io::Result<String> {
    stream.write_all(&command(words)).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n") {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(String::from_utf8_lossy(answer.trim_ascii_end()).into_owned())
}
