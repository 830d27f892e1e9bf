//! A client of one lock: of seqd, of etcd through its JSON gateway, or of Redis with `SET NX PX`
//! and the script that deletes the client's own key.

use std::io;
use std::time::Duration;

use seqd_tests::connection::Connection;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The TTL of a hold in all systems.
const TTL: Duration = Duration::from_secs(30);

/// The time for which a request to seqd waits for the lock.
const WAIT: Duration = Duration::from_secs(20);

/// The pause of a Redis client between two attempts to acquire a held lock.
const AGAIN: Duration = Duration::from_millis(1);

const RELEASE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Seqd,
    Etcd,
    Redis,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Seqd => "seqd",
            Self::Etcd => "etcd",
            Self::Redis => "Redis",
        }
    }
}

pub(super) enum Client {
    Seqd {
        connection: Connection,
        lock: String,
        owner: String,
        asked: u64,
    },
    Etcd {
        connection: Connection,
        lock: String,
        lease: String,
    },
    Redis {
        connection: Redis,
        lock: String,
        owner: String,
        asked: u64,
    },
}

fn other(detail: impl ToString) -> io::Error {
    io::Error::other(detail.to_string())
}

async fn ask(connection: &mut Connection, path: &str, body: &Value) -> io::Result<Value> {
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
    pub(super) async fn open(kind: Kind, address: &str, lock: &str, at: usize) -> Self {
        let opened = Self::try_open(kind, address, lock, at).await;
        opened.unwrap_or_else(|error| panic!("{} at {address}: {error}", kind.name()))
    }

    async fn try_open(kind: Kind, address: &str, lock: &str, at: usize) -> io::Result<Self> {
        let owner = format!("owner-{at}");
        match kind {
            Kind::Seqd => Ok(Self::Seqd {
                connection: Connection::plain(address).await?,
                lock: lock.to_owned(),
                owner,
                asked: 0,
            }),
            Kind::Etcd => {
                let mut connection = Connection::plain(address).await?;
                let grant = json!({"TTL": TTL.as_secs()});
                let answer = ask(&mut connection, "/v3/lease/grant", &grant).await?;
                Ok(Self::Etcd {
                    connection,
                    lock: base64(lock.as_bytes()),
                    lease: text(&answer, "ID")?,
                })
            }
            Kind::Redis => Ok(Self::Redis {
                connection: Redis::connect(address).await?,
                lock: lock.to_owned(),
                owner,
                asked: 0,
            }),
        }
    }

    /// Acquires the lock, waiting if necessary, and releases it.
    pub(super) async fn cycle(&mut self) -> io::Result<()> {
        match self {
            Self::Seqd {
                connection,
                lock,
                owner,
                asked,
            } => {
                *asked += 1;
                let acquire = json!({
                    "owner": owner, "ttl_ms": TTL.as_millis() as u64,
                    "wait_ms": WAIT.as_millis() as u64, "nonce": format!("{owner}-{asked}"),
                });
                let path = format!("/v1/locks/{lock}/acquire");
                let lease = text(&ask(connection, &path, &acquire).await?, "lease")?;
                let release = json!({"lease": lease});
                let path = format!("/v1/locks/{lock}/release");
                ask(connection, &path, &release).await.map(drop)
            }
            Self::Etcd {
                connection,
                lock,
                lease,
            } => {
                let held = json!({"name": lock, "lease": lease});
                let answer = ask(connection, "/v3/lock/lock", &held).await?;
                let unlock = json!({"key": text(&answer, "key")?});
                ask(connection, "/v3/lock/unlock", &unlock).await.map(drop)
            }
            Self::Redis {
                connection,
                lock,
                owner,
                asked,
            } => {
                *asked += 1;
                let (value, ttl) = (format!("{owner}-{asked}"), TTL.as_millis().to_string());
                let set = ["SET", lock, &value, "NX", "PX", &ttl];
                while connection.ask(&set).await? != "+OK" {
                    tokio::time::sleep(AGAIN).await;
                }
                let release = ["EVAL", RELEASE, "1", lock, &value];
                match connection.ask(&release).await?.as_str() {
                    ":1" => Ok(()),
                    answer => Err(other(answer)),
                }
            }
        }
    }
}

/// A connection to Redis: one command at a time, with responses of one line.
pub(super) struct Redis {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Redis {
    pub(super) async fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            answer: Vec::new(),
        })
    }

    pub(super) async fn ask(&mut self, words: &[&str]) -> io::Result<String> {
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.write_all(command.as_bytes()).await?;
        self.answer.clear();
        while !self.answer.ends_with(b"\r\n") {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(String::from_utf8_lossy(self.answer.trim_ascii_end()).into_owned())
    }
}

/// Base64, in which etcd's gateway encodes keys in JSON.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut group = [0u8; 4];
        group[1..=three.len()].copy_from_slice(three);
        let group = u32::from_be_bytes(group);
        for digit in 0..4 {
            let index = (group >> (18 - 6 * digit)) & 63;
            let is_there = digit <= three.len();
            text.push(if is_there {
                char::from(DIGITS[index as usize])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    /// The examples of RFC 4648, section 10.
    #[test]
    fn base64_is_as_published() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
