//! The memcached protocol, as katsubushi and other ID servers use it: each key of a get has a
//! fresh ID as its value. Nothing is stored.
//!
//! [`splitter`] splits the bytes of a connection into requests, [`text`] and [`binary`] read and
//! write the two forms of the protocol. The protocol has no tokens, so with authentication every
//! request is refused.

mod binary;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod request;
mod splitter;
#[cfg(test)]
mod tests;
mod text;

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use seqd_api::{Problem, Typed as _, op};
use seqd_net::{BoxStream, Listen};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use self::request::{Asked, Form, Request};
use self::splitter::Splitter;
use super::session::{Protocol, Session, incomplete};
use crate::connections::{Bounds, Buffered, Filled, Paced, Port, Stopping};
use crate::minting::Minted;
use crate::services::Services;

/// The response to a client without TLS.
pub(super) const WITHOUT_TLS: &str = "SERVER_ERROR this port requires TLS\r\n";

/// The version of memcached whose commands are served, and that of this program. Clients read the
/// first number, which must not be 0.
const VERSION: &str = concat!("1.6.0-seqd-", env!("CARGO_PKG_VERSION"));

/// Serves a listener.
///
/// # Errors
/// The operating system refuses the listener.
pub(super) fn start(listener: Box<dyn Listen>, protocol: Arc<Protocol>) -> io::Result<Port> {
    let served = Arc::new(PortStats::new());
    let bounds = (Bounds::POOLED, None);
    Port::start(listener, bounds, move |stream, client, stopping| {
        let session = Session::new(&protocol, client);
        serve(stream, session, Arc::clone(&served), stopping)
    })
}

async fn serve(
    stream: Paced<BoxStream>,
    session: Session,
    served: Arc<PortStats>,
    stopping: Stopping,
) {
    let stop = pin!(stopping.wait());
    let from = Buffered::pooled(stream);
    let _open = Open::new(&served);
    if let Err(error) = connection(from, session, &served, stop).await {
        tracing::debug!("memcached connection: {error}");
    }
}

/// The statistics of the port.
struct PortStats {
    since: Instant,
    connections: AtomicU64,
    all_connections: AtomicU64,
    gets: AtomicU64,
    ids: AtomicU64,
}

/// Counts an open connection.
struct Open<'a>(&'a PortStats);

impl<'a> Open<'a> {
    fn new(served: &'a PortStats) -> Open<'a> {
        served.connections.fetch_add(1, Ordering::Relaxed);
        served.all_connections.fetch_add(1, Ordering::Relaxed);
        Open(served)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The response to a request, before it is encoded in a form.
enum Answer {
    Ids(Vec<Bytes>, Minted),
    Version,
    Stats(Vec<(&'static str, String)>),
    Nothing,
    Unknown,
}

async fn connection<T: AsyncRead + AsyncWrite + Unpin>(
    mut from: Buffered<T>,
    mut session: Session,
    served: &PortStats,
    mut stop: Pin<&mut impl Future<Output = ()>>,
) -> io::Result<()> {
    let mut splitter = Splitter::default();
    loop {
        while let Some(request) = splitter.next(&mut from.bytes) {
            from.end_request();
            let is_last = request.is_last;
            let answering = session.connection().begin();
            let answered = pin!(respond(&session, served, request));
            let Some(response) = from.while_connected(answered, |_| 0).await? else {
                return Ok(());
            };
            drop(answering);
            from.reply(&response);
            if is_last || session.ends_after_reply() {
                return from.close_unread().await;
            }
            from.flush_many().await?;
        }
        let refused = match session.hold(from.bytes.len()) {
            Ok(()) => match from.fill(stop.as_mut()).await? {
                Filled::More => continue,
                Filled::End => return from.close().await,
                Filled::Late => incomplete(),
            },
            Err(refused) => refused,
        };
        session.hold_back(&refused).await;
        from.reply(&write(splitter.form(), Err(refused)));
        return from.close_unread().await;
    }
}

/// The bytes of the response to a request.
async fn respond(session: &Session, served: &PortStats, request: Request) -> Vec<u8> {
    let (form, is_silent) = (request.form, request.is_silent);
    if request.asked == Asked::Quit {
        return match form {
            Form::Binary { .. } if !is_silent => write(form, Ok(Answer::Nothing)),
            _ => Vec::new(),
        };
    }
    let is_get = matches!(request.asked, Asked::Ids(_) | Asked::Refused(_));
    let operation = match is_get {
        true => op::GetIds::ROW,
        false => op::GetVersion::ROW,
    };
    let asked = session.request(request.command(), operation, "");
    let answer = session.call(asked, async |admitted| {
        served
            .answer(session.services(), request.asked, admitted.deadline)
            .await
    });
    let answer = answer.await;
    if is_silent {
        return Vec::new();
    }
    write(form, answer)
}

impl PortStats {
    fn new() -> PortStats {
        PortStats {
            since: Instant::now(),
            connections: AtomicU64::new(0),
            all_connections: AtomicU64::new(0),
            gets: AtomicU64::new(0),
            ids: AtomicU64::new(0),
        }
    }

    async fn answer(
        &self,
        node: &Services,
        asked: Asked,
        deadline: Instant,
    ) -> Result<Answer, Problem> {
        match asked {
            Asked::Ids(keys) => {
                self.gets.fetch_add(1, Ordering::Relaxed);
                let layout = &node.config.memcached.layout;
                let count = keys.len() as u64;
                let minted = node.ids.of_layout(layout, count, deadline).await?;
                self.ids.fetch_add(count, Ordering::Relaxed);
                Ok(Answer::Ids(keys, minted))
            }
            Asked::Refused(problem) => Err(problem),
            Asked::Version => Ok(Answer::Version),
            Asked::Stats => Ok(Answer::Stats(self.stats(node))),
            Asked::Nothing | Asked::Quit => Ok(Answer::Nothing),
            Asked::Unknown => Ok(Answer::Unknown),
        }
    }

    fn stats(&self, node: &Services) -> Vec<(&'static str, String)> {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed).to_string();
        vec![
            ("pid", std::process::id().to_string()),
            ("uptime", self.since.elapsed().as_secs().to_string()),
            ("time", (node.ids.clock.wall().0 / 1000).to_string()),
            ("version", VERSION.to_owned()),
            ("curr_connections", read(&self.connections)),
            ("total_connections", read(&self.all_connections)),
            ("cmd_get", read(&self.gets)),
            ("get_hits", read(&self.ids)),
            ("get_misses", "0".to_owned()),
        ]
    }
}

fn write(form: Form, answer: Result<Answer, Problem>) -> Vec<u8> {
    match form {
        Form::Text { with_cas } => match answer {
            Ok(Answer::Ids(keys, minted)) => text::write_ids(&keys, minted.ids(), with_cas),
            Ok(Answer::Version) => format!("VERSION {VERSION}\r\n").into(),
            Ok(Answer::Stats(stats)) => text::write_stats(&stats),
            Ok(Answer::Nothing) => Vec::new(),
            Ok(Answer::Unknown) => b"ERROR\r\n".to_vec(),
            Err(problem) => format!("SERVER_ERROR {}\r\n", text::refusal(&problem)).into(),
        },
        Form::Binary { opcode, opaque } => {
            let to = (opcode, opaque);
            match answer {
                Ok(Answer::Ids(keys, minted)) => {
                    let ids = keys.iter().zip(minted.ids());
                    ids.flat_map(|(key, id)| binary::write_id(to, key, id))
                        .collect()
                }
                Ok(Answer::Version) => binary::write_text(to, binary::OK, VERSION),
                Ok(Answer::Stats(stats)) => binary::write_stats(to, &stats),
                Ok(Answer::Nothing) => binary::write_text(to, binary::OK, ""),
                Ok(Answer::Unknown) => {
                    binary::write_text(to, binary::UNKNOWN_COMMAND, "Unknown command")
                }
                Err(problem) => {
                    binary::write_text(to, binary::INTERNAL_ERROR, &text::refusal(&problem))
                }
            }
        }
    }
}
