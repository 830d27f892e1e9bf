//! The scope of a simulated node's tasks. The node can be paused, and it can end at any moment.

use std::cell::RefCell;
use std::future::Future;
use std::hash::{DefaultHasher, Hasher as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use seqd_disk::simulated::Dice;
use seqd_net::Lock;
use tokio::task::{AbortHandle, JoinHandle};

thread_local! {
    /// The node whose task is polled on this thread.
    static CURRENT: RefCell<Option<Arc<Scope>>> = const { RefCell::new(None) };
}

/// The node of the caller's task; `None` outside simulations.
pub(crate) fn current() -> Option<Arc<Scope>> {
    CURRENT.with_borrow(Option::clone)
}

/// One process of a simulated node.
pub(crate) struct Scope {
    state: Lock<State>,
    observer: Arc<dyn Observer>,
    node: usize,
}

struct State {
    dice: Dice,
    is_over: bool,
    is_paused: bool,
    /// Tasks that were due to run while the node was paused.
    parked: Vec<Waker>,
    tasks: Vec<AbortHandle>,
    /// The number of tasks that were left when ended tasks were last removed.
    kept: usize,
    /// Duration of a write to the log with its sync.
    sync: Duration,
    is_hung: bool,
}

/// Receives events from inside the nodes of a simulation.
pub(crate) trait Observer: Send + Sync {
    /// A node has applied an entry.
    fn applied(&self, node: usize, entry: Applied);
    /// A node has applied an entry. `windows` are those in its state afterwards.
    fn granted(&self, windows: &[Window]);
    /// A node has appended an entry to its log.
    fn appended(&self, node: usize, entry: Appended);
    /// A node has stored a vote that makes `leader` the leader of `term`.
    fn elected(&self, node: usize, term: u64, leader: u64);
}

/// An applied entry, and the digest of the state after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) index: u64,
    pub(crate) term: u64,
    pub(crate) digest: u128,
}

/// An entry of a log, identified by index and term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) index: u64,
    pub(crate) term: u64,
    /// The term of the preceding entry.
    pub(crate) term_before: Option<u64>,
    /// A hash of the entry's bytes.
    pub(crate) bytes: u64,
}

/// The latest lease of a worker, and the ticks that its holder may mint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) worker: u32,
    pub(crate) lease: u64,
    pub(crate) from: u64,
    pub(crate) fence: u64,
}

impl Scope {
    pub(crate) fn new(node: usize, seed: u64, observer: Arc<dyn Observer>) -> Arc<Self> {
        Arc::new(Self {
            state: Lock::new(State {
                dice: Dice::new(seed),
                is_over: false,
                is_paused: false,
                parked: Vec::new(),
                tasks: Vec::new(),
                kept: 0,
                sync: Duration::from_millis(1),
                is_hung: false,
            }),
            observer,
            node,
        })
    }

    pub(crate) fn spawn<F>(self: &Arc<Self>, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let task = tokio::spawn(Owned::new(Some(Arc::clone(self)), future));
        let mut state = self.state.lock();
        if state.is_over {
            task.abort();
        }
        state.tasks.push(task.abort_handle());
        if state.tasks.len() > 2 * state.kept + 64 {
            state.tasks.retain(|task| !task.is_finished());
            state.kept = state.tasks.len();
        }
        task
    }

    pub(crate) fn fill_random(&self, bytes: &mut [u8]) {
        let mut state = self.state.lock();
        for chunk in bytes.chunks_mut(8) {
            let roll = state.dice.roll().to_le_bytes();
            chunk.copy_from_slice(&roll[..chunk.len()]);
        }
    }

    pub(crate) fn roll(&self) -> u64 {
        self.state.lock().dice.roll()
    }

    /// Ends the process. None of its tasks runs afterwards.
    pub(crate) fn end(&self) {
        let tasks = {
            let mut state = self.state.lock();
            state.is_over = true;
            state.parked.clear();
            std::mem::take(&mut state.tasks)
        };
        for task in tasks {
            task.abort();
        }
    }

    pub(crate) fn pause(&self) {
        self.state.lock().is_paused = true;
    }

    pub(crate) fn resume(&self) {
        let parked = {
            let mut state = self.state.lock();
            state.is_paused = false;
            std::mem::take(&mut state.parked)
        };
        parked.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn set_disk(&self, sync: Duration, is_hung: bool) {
        let mut state = self.state.lock();
        (state.sync, state.is_hung) = (sync, is_hung);
    }

    /// Returns after the duration of a write with its sync.
    pub(crate) async fn sync(&self) {
        let sync = self.state.lock().sync;
        tokio::time::sleep(sync).await;
        while self.is_hung() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn is_hung(&self) -> bool {
        self.state.lock().is_hung
    }

    pub(crate) fn applied(&self, entry: Applied) {
        self.observer.applied(self.node, entry);
    }

    pub(crate) fn granted(&self, windows: &[Window]) {
        self.observer.granted(windows);
    }

    pub(crate) fn appended(&self, index: u64, terms: (u64, Option<u64>), bytes: &[u8]) {
        let (term, term_before) = terms;
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        let entry = Appended {
            index,
            term,
            term_before,
            bytes: hasher.finish(),
        };
        self.observer.appended(self.node, entry);
    }

    pub(crate) fn elected(&self, term: u64, leader: u64) {
        self.observer.elected(self.node, term, leader);
    }

    /// Returns whether a task may run. If not, keeps its waker until it may.
    fn may_run(&self, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        if state.is_paused && !state.is_over {
            state.parked.push(waker.clone());
        }
        !state.is_over && !state.is_paused
    }
}

/// A future of a node. It runs only while the node does.
pub(crate) struct Owned<F> {
    scope: Option<Arc<Scope>>,
    /// Present until it is dropped.
    future: Option<Pin<Box<F>>>,
}

impl<F> Owned<F> {
    pub(crate) fn new(scope: Option<Arc<Scope>>, future: F) -> Self {
        let future = Some(Box::pin(future));
        Self { scope, future }
    }
}

impl<F: Future> Future for Owned<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let Some(future) = &mut this.future else {
            return Poll::Pending;
        };
        let Some(scope) = &this.scope else {
            return future.as_mut().poll(context);
        };
        if !scope.may_run(context.waker()) {
            return Poll::Pending;
        }
        let _entered = Entered::new(scope);
        future.as_mut().poll(context)
    }
}

impl<F> Drop for Owned<F> {
    fn drop(&mut self) {
        let _entered = self.scope.as_ref().map(Entered::new);
        self.future = None;
    }
}

/// Assigns the caller's thread to a node until it is dropped.
struct Entered(Option<Arc<Scope>>);

impl Entered {
    fn new(scope: &Arc<Scope>) -> Self {
        Self(CURRENT.replace(Some(Arc::clone(scope))))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}
