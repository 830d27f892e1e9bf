//! A thread with a runtime. It ends when its owner drops the `Ends` value.

use std::io;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Ends the thread when it is dropped.
pub(super) type Ends = oneshot::Sender<()>;

/// Starts the thread. The handle gives access to its runtime.
pub(super) fn start(name: &str) -> io::Result<(Handle, Ends)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let (ends, ended) = oneshot::channel::<()>();
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || {
        let _ = runtime.block_on(ended);
    })?;
    Ok((handle, ends))
}
