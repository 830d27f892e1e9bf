//! A client of the Redis protocol: commands as words, replies as values.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::cluster::Cluster;
use crate::ports::Port;

/// Longer than a request may take.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(String),
    /// The null reply of protocol version 2.
    Nil,
    /// The null reply of protocol version 3.
    Null,
    Array(Vec<Value>),
    Map(Vec<Value>),
}

impl Value {
    pub fn bulk(text: &str) -> Self {
        Self::Bulk(text.to_owned())
    }

    /// The integer. Panics for another value.
    pub fn integer(&self) -> i64 {
        match self {
            Self::Integer(number) => *number,
            other => panic!("{other:?} is no integer"),
        }
    }

    /// The text of an error. Panics for another value.
    pub fn error(&self) -> &str {
        match self {
            Self::Error(text) => text,
            other => panic!("{other:?} is no error"),
        }
    }
}

#[derive(Debug)]
pub struct Resp {
    stream: BufReader<TcpStream>,
}

/// Gives every node a port for the protocol. The reservations of the ports must be kept.
#[must_use]
pub fn with_redis(mut cluster: Cluster) -> (Cluster, Vec<Port>) {
    let ports: Vec<Port> = (0..cluster.size()).map(|_| Port::free()).collect();
    for (index, port) in ports.iter().enumerate() {
        let listen = format!("{:?}", port.address());
        cluster.node_mut(index).set("redis", "listen", &listen);
    }
    (cluster, ports)
}

impl Resp {
    pub fn connect(port: &Port) -> Self {
        Self::try_connect(port).expect("a connection")
    }

    pub fn try_connect(port: &Port) -> std::io::Result<Self> {
        let stream = TcpStream::connect(port.address())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Sends a command, whose words have no spaces, and returns the reply.
    pub fn call(&mut self, words: &str) -> Value {
        self.send(&words.split_whitespace().collect::<Vec<_>>())
    }

    pub fn send(&mut self, words: &[&str]) -> Value {
        self.try_send(words).expect("a reply")
    }

    pub fn try_send(&mut self, words: &[&str]) -> std::io::Result<Value> {
        self.write(&command(words))?;
        self.reply()
    }

    /// Writes bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Closes the sending direction. Replies can still be read.
    pub fn finish(&self) {
        let stream = self.stream.get_ref();
        stream.shutdown(Shutdown::Write).expect("a connection");
    }

    pub fn reply(&mut self) -> std::io::Result<Value> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, rest) = line.trim_end().split_at(1);
        let number = || rest.parse::<i64>().expect("a number");
        Ok(match kind {
            "+" => Value::Simple(rest.to_owned()),
            "-" => Value::Error(rest.to_owned()),
            ":" => Value::Integer(number()),
            "_" => Value::Null,
            "$" if number() < 0 => Value::Nil,
            "$" => {
                let length = usize::try_from(number()).expect("a length");
                let mut text = vec![0; length + 2];
                self.stream.read_exact(&mut text)?;
                text.truncate(length);
                Value::Bulk(String::from_utf8(text).expect("a text"))
            }
            "*" | ">" => Value::Array(self.replies(number())?),
            "%" => Value::Map(self.replies(2 * number())?),
            _ => panic!("{line:?} is no reply"),
        })
    }

    fn replies(&mut self, count: i64) -> std::io::Result<Vec<Value>> {
        (0..count).map(|_| self.reply()).collect()
    }
}

/// The bytes of a command.
pub fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    bytes.into_bytes()
}
