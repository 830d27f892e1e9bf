//! A node's access to its process: tasks and random numbers.
//!
//! In the test build, a task may belong to a simulated node. The tasks that it spawns belong to
//! that node too, its random numbers are the node's, and its blocking calls run inline. The shipped
//! build has none of this: a task is tokio's, and random numbers come from the operating system.

#[cfg(test)]
pub(crate) mod scope;
#[cfg(test)]
mod simulated;

use seqd_peers::tasks::{Task, Tasks};
use seqd_store::cluster_id;
use tokio::task::JoinHandle;

use crate::handle::Stop;

#[cfg(not(test))]
pub(crate) use openraft::impls::TokioRuntime as Runtime;
#[cfg(test)]
pub(crate) use simulated::SimulatedRuntime as Runtime;

/// Spawns a task. Every task of this crate starts here, or in a set of tasks of [`owned`] futures.
pub(crate) fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    #[cfg(test)]
    if let Some(scope) = scope::current() {
        return scope.spawn(future);
    }
    tokio::spawn(future)
}

/// Binds a future that is spawned by other means than [`spawn`] to the caller's node.
#[cfg(not(test))]
pub(crate) fn owned<F: Future>(future: F) -> F {
    future
}

#[cfg(test)]
pub(crate) fn owned<F: Future>(future: F) -> scope::Owned<F> {
    scope::Owned::new(scope::current(), future)
}

/// Spawns the tasks of connections to peers.
pub(crate) struct NodeTasks;

impl Tasks for NodeTasks {
    fn spawn(&self, task: Task) -> JoinHandle<()> {
        spawn(task)
    }

    fn bind(&self, task: Task) -> Task {
        Box::pin(owned(task))
    }
}

/// Fills `bytes` with random bytes.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), Stop> {
    #[cfg(test)]
    if let Some(scope) = scope::current() {
        scope.fill_random(bytes);
        return Ok(());
    }
    cluster_id::fill_random(bytes)
}
