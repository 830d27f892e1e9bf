//! The starting point of this crate's blocking calls and threads.

use std::io;
use std::thread::{Builder, JoinHandle};

#[cfg(test)]
use crate::platform;

/// Runs a blocking call, for example to the disk, without blocking other tasks.
pub(crate) async fn run<T: Send + 'static>(
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    // A simulation has one thread, and possibly no runtime.
    #[cfg(test)]
    if platform::scope::current().is_some() || tokio::runtime::Handle::try_current().is_err() {
        return call();
    }
    let done = tokio::task::spawn_blocking(call).await;
    done.map_err(io::Error::other)?
}

pub(crate) fn thread(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).spawn(body)
}
