//! The runtimes that the commands run in.

use std::pin::Pin;

use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;

/// A runtime on the calling thread.
pub(crate) fn current_thread() -> Result<Runtime, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))
}

/// Waits for `future`. Boxed: a runtime compiles what it is given several times over.
pub(crate) fn block_on<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    let future: Pin<Box<dyn Future<Output = T> + '_>> = Box::pin(future);
    runtime.block_on(future)
}
