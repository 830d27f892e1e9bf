//! The tasks of connections.
//!
//! In a simulated cluster a task belongs to one of the simulated nodes: it pauses and ends with its
//! node. The code that sets up a node therefore passes in how tasks start.

use std::future::Future;
use std::pin::Pin;

use tokio::task::JoinHandle;

pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

pub trait Tasks: Send + Sync {
    fn spawn(&self, task: Task) -> JoinHandle<()>;

    /// Binds a task to the caller's node. The caller spawns it by other means than
    /// [`spawn`](Self::spawn).
    fn bind(&self, task: Task) -> Task;
}

/// Tasks of a process, spawned with tokio.
#[derive(Clone, Copy, Debug)]
pub struct TokioTasks;

impl Tasks for TokioTasks {
    fn spawn(&self, task: Task) -> JoinHandle<()> {
        tokio::spawn(task)
    }

    fn bind(&self, task: Task) -> Task {
        task
    }
}
