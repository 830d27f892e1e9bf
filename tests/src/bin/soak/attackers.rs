//! Attackers in a process of their own. Each uses one connection, which it opens again when the
//! node closes it. Also the attacks that only occupy a place.

use std::future::Future;
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use seqd_tests::report::{Counts, Report};
use seqd_tests::wait;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};

/// The time limit from the end of the last attack to the end of the process, which has thousands of
/// connections.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// A process of attackers, which is killed when this is dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().expect("the attackers"))
    }

    /// Waits until the process has ended. Returns its failure, if there is one.
    pub(crate) fn ended(mut self) -> Option<String> {
        let ended = || self.0.try_wait().expect("an own child");
        match wait::within(ENDS_WITHIN, ended) {
            Some(status) if status.success() => None,
            Some(status) => Some(format!("the attackers complain, see above ({status})")),
            None => Some("the attackers did not end".to_owned()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends these bytes and no more, and reads until the node closes the connection.
pub(crate) async fn hold(mut stream: TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    let mut answer = [0; 1024];
    while stream.read(&mut answer).await? > 0 {}
    Ok(())
}

/// Sends one byte per second.
pub(crate) async fn slowly(
    mut stream: TcpStream,
    bytes: impl Iterator<Item = &u8>,
) -> io::Result<()> {
    for byte in bytes {
        stream.write_all(&[*byte]).await?;
        sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// Sends many requests with large responses, and reads none of them.
pub(crate) async fn never_read(mut stream: TcpStream, request: &str) -> io::Result<()> {
    stream.write_all(request.repeat(64).as_bytes()).await?;
    sleep(Duration::from_secs(600)).await;
    Ok(())
}

/// Repeats an attack until the end, with a pause after each. The first one begins after a delay, so
/// that not all begin at the same moment.
pub(crate) async fn again_and_again(
    end: Instant,
    delay_ms: u64,
    pause: Duration,
    mut act: impl AsyncFnMut(),
) {
    sleep(Duration::from_millis(delay_ms)).await;
    while Instant::now() < end {
        // A node may close at any time, and may refuse to accept.
        let _ = timeout_at(end, act()).await;
        sleep(pause.min(end - Instant::now())).await;
    }
}

/// Waits for all attackers.
pub(crate) async fn all<T: 'static>(attackers: Vec<impl Future<Output = T> + 'static>) {
    let tasks = attackers.into_iter().map(tokio::task::spawn_local);
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("an attacker");
    }
}

/// Checks that each kind of attack had a connection.
pub(crate) fn judge<'a>(
    kinds: impl IntoIterator<Item = &'a str>,
    connections: &Counts,
    report: &mut Report,
) {
    println!("  attackers' connections: {connections:?}");
    for kind in kinds {
        report.require(connections.contains_key(kind), "an attack that bites", kind);
    }
}
