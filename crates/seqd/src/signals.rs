//! Signals that ask a command to end.

use std::future::poll_fn;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// SIGTERM and Ctrl-C; while this is there, they do not end the process.
pub(crate) struct Signals(Vec<(&'static str, Signal)>);

impl Signals {
    pub(crate) fn new() -> Result<Self, Failure> {
        Self(Vec::new())
            .with("SIGTERM", SignalKind::terminate())?
            .with("Ctrl-C", SignalKind::interrupt())
    }

    pub(crate) fn with(mut self, name: &'static str, kind: SignalKind) -> Result<Self, Failure> {
        let signal = signal(kind)
            .map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))?;
        self.0.push((name, signal));
        Ok(self)
    }

    /// The name of the next one.
    pub(crate) async fn next(&mut self) -> &'static str {
        poll_fn(|context| {
            let mut signals = self.0.iter_mut();
            let received = signals
                .find_map(|(name, signal)| signal.poll_recv(context).is_ready().then_some(*name));
            received.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}
