//! Signals that request the end of a command.

use std::future::poll_fn;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The name of SIGINT.
pub(crate) const CTRL_C: &str = "Ctrl-C";

/// A handler for signals. While it exists, they do not end the process.
pub(crate) struct Signals(Vec<(&'static str, Signal)>);

impl Signals {
    /// Handles SIGTERM and Ctrl-C, unless the process was started with them ignored.
    pub(crate) fn new() -> Result<Self, Failure> {
        Self(Vec::new())
            .with("SIGTERM", SignalKind::terminate())?
            .with(CTRL_C, SignalKind::interrupt())
    }

    /// Handles SIGTERM and Ctrl-C in any case: a server must be able to stop in order.
    pub(crate) fn of_server() -> Result<Self, Failure> {
        Self(Vec::new())
            .always_with("SIGTERM", SignalKind::terminate())?
            .always_with(CTRL_C, SignalKind::interrupt())
    }

    /// Handles another signal, unless the process was started with it ignored, as by `nohup`. A
    /// child then inherits that: a handler is reset to the default action in a child.
    pub(crate) fn with(self, name: &'static str, kind: SignalKind) -> Result<Self, Failure> {
        if is_ignored(kind) {
            return Ok(self);
        }
        self.always_with(name, kind)
    }

    fn always_with(mut self, name: &'static str, kind: SignalKind) -> Result<Self, Failure> {
        let signal = signal(kind)
            .map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))?;
        self.0.push((name, signal));
        Ok(self)
    }

    /// Waits for the next signal and returns its name.
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

/// Returns whether the process was started with this signal ignored. `false` where `/proc` is
/// missing.
fn is_ignored(signal: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw_value() - 1) & 1 == 1)
}
