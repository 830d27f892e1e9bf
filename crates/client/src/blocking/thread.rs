//! A thread with a runtime, which ends when its owner lets go of it.

use std::io;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Dropped, it ends the thread.
pub(super) type Ends = oneshot::Sender<()>;

/// Starts it; its runtime is entered by the handle.
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
