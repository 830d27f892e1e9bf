//! A thread with a runtime. It ends when its owner drops the `Ends` value.

use std::io;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Ends the thread when it is dropped. In a forked child, which does not have the thread, it does
/// nothing.
#[derive(Debug)]
pub(super) struct Ends {
    sender: Option<oneshot::Sender<()>>,
    process: u32,
}

impl Drop for Ends {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            // The thread may have held a lock of the runtime in the moment of the fork.
            std::mem::forget(self.sender.take());
        }
    }
}

/// Starts the thread. The handle gives access to its runtime.
pub(super) fn start(name: &str) -> io::Result<(Handle, Ends)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let (ends, ended) = oneshot::channel::<()>();
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || {
        let _ = runtime.block_on(ended);
    })?;
    let ends = Ends {
        sender: Some(ends),
        process: std::process::id(),
    };
    Ok((handle, ends))
}
