//! One connection: its requests in turn.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use seqd_net::Connection;

use super::commands::{self, Run};
use super::reply::{Reply, Version};
use super::request::{Parsed, parse};
use super::scripts::Remembered;
use crate::connections::{Buffered, ClientConnection, Paced, Stopping};
use crate::protocols::{Protocol, Session};

/// The most requests that are read before the first of them is served.
const MOST_TOGETHER: usize = 1024;

/// Numbers the connections of this process.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// The client of a connection.
pub(super) struct Client {
    pub(super) session: Session,
    pub(super) scripts: Arc<Remembered>,
    pub(super) version: Version,
    /// The name that the client has given itself.
    pub(super) name: String,
    pub(super) id: u64,
    /// The connection ends after the next reply.
    pub(super) is_over: bool,
    /// A transaction was refused, and the rest of its requests may follow in the bytes at hand.
    pub(super) in_refused: bool,
}

/// Serves a connection until it ends.
pub(super) async fn serve(
    stream: Paced<Connection>,
    connection: ClientConnection,
    (protocol, scripts): (Arc<Protocol>, Arc<Remembered>),
    stopping: Stopping,
) {
    let client = Client {
        session: Session::new(&protocol, connection),
        scripts,
        version: Version::default(),
        name: String::new(),
        id: CONNECTIONS.fetch_add(1, Ordering::Relaxed),
        is_over: false,
        in_refused: false,
    };
    if let Err(error) = exchange(Buffered::pooled(stream), client, stopping).await {
        tracing::debug!("redis connection: {error}");
    }
}

async fn exchange(
    mut stream: Buffered<Connection>,
    mut client: Client,
    stopping: Stopping,
) -> io::Result<()> {
    let mut stop = pin!(stopping.wait());
    let mut out = BytesMut::new();
    loop {
        let (requests, end) = requests(&mut stream.bytes);
        if !requests.is_empty() {
            let answering = client.session.connection().begin();
            let is_connected = serve_all(&mut stream, &mut client, &requests, &mut out).await?;
            drop(answering);
            if !is_connected {
                return Ok(());
            }
        }
        if let Some(why) = end {
            Reply::Error(format!("ERR Protocol error: {why}").into())
                .write(client.version, &mut out);
            client.is_over = true;
        } else if requests.is_empty() && !client.session.hold(stream.bytes.len()) {
            let text = "TRYAGAIN overloaded: incomplete requests take all the memory that there is \
                        for them";
            Reply::error(text).write(client.version, &mut out);
            client.is_over = true;
        }
        stream.reply(&out);
        out.clear();
        if client.is_over {
            return stream.close().await;
        }
        if requests.is_empty() {
            client.in_refused = false;
            if !stream.fill(stop.as_mut()).await? {
                return stream.close().await;
            }
        }
    }
}

/// The complete requests among the received bytes, and the reason if no more can follow.
fn requests(bytes: &mut BytesMut) -> (Vec<Vec<Bytes>>, Option<String>) {
    let mut requests = Vec::new();
    while requests.len() < MOST_TOGETHER {
        match parse(bytes) {
            Parsed::Request(request) if request.is_empty() => {}
            Parsed::Request(request) => requests.push(request),
            Parsed::Incomplete => break,
            Parsed::Invalid(why) => return (requests, Some(why)),
        }
    }
    (requests, None)
}

/// Serves requests in their order. Returns `false` if the client has disconnected.
async fn serve_all(
    stream: &mut Buffered<Connection>,
    client: &mut Client,
    requests: &[Vec<Bytes>],
    out: &mut BytesMut,
) -> io::Result<bool> {
    let mut rest = requests;
    while !rest.is_empty() && !client.is_over {
        let is_increment = |request: &&Vec<Bytes>| commands::is(request, Run::Incr);
        let together = match client.in_refused {
            true => 0,
            false => rest.iter().take_while(is_increment).count(),
        };
        let replies = async {
            if together > 1 {
                return client.increment_all(&rest[..together]).await;
            }
            vec![commands::execute(client, &rest[0]).await]
        };
        let Some(replies) = stream.while_connected(pin!(replies)).await? else {
            return Ok(false);
        };
        rest = &rest[replies.len()..];
        for reply in &replies {
            reply.write(client.version, out);
        }
        stream.reply(out);
        out.clear();
        stream.flush_many().await?;
        // A connection in a reserved place is for one request, and a node that stops sends its
        // clients to another one.
        client.is_over |= client.session.connection().is_reserved() || client.session.is_closing();
    }
    Ok(true)
}
