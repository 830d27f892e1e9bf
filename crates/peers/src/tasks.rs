//! The tasks of connections.
//!
//! The tasks of a process belong to the runtime of consensus, whichever task calls a peer: a busy
//! runtime of the clients must not delay heartbeats and votes.
//!
//! In a simulated cluster a task belongs to one of the simulated nodes: it pauses and ends with its
//! node. The code that sets up a node therefore passes in how tasks start.

use std::future::Future;
use std::pin::Pin;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

pub trait Tasks: Send + Sync {
    fn spawn(&self, task: Task) -> JoinHandle<()>;

    /// Binds a task to the caller's node. The caller spawns it by other means than
    /// [`spawn`](Self::spawn).
    fn bind(&self, task: Task) -> Task;
}

/// Tasks of a process, spawned on one runtime.
#[derive(Clone, Debug)]
pub struct RuntimeTasks(pub Handle);

impl Tasks for RuntimeTasks {
    fn spawn(&self, task: Task) -> JoinHandle<()> {
        self.0.spawn(task)
    }

    fn bind(&self, task: Task) -> Task {
        task
    }
}
