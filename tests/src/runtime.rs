//! The runtime of a load: all of its clients on one thread, so that a two-core machine keeps a core
//! for the servers.

use std::future::Future;

use tokio::runtime::Builder;
use tokio::task::LocalSet;

/// Blocks until the work is done; it may spawn local tasks.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime on this thread");
    runtime.block_on(LocalSet::new().run_until(work))
}
