//! One round of load on one target, in a closed or in an open loop.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::time::{ClockId, clock_gettime};
use seqd_client::api::exit;

use super::check::{Checker, Findings};
use super::client::{Action, Client};
use super::connection::{Connector, Server};
use super::figures::Figures;
use super::schedule::{Pacer, Schedule};
use crate::failure::Failure;

/// A target with its clients, which keep their connections from round to round.
pub(crate) struct Target {
    clients: Vec<Client>,
    /// `None` if the numbers are not checked.
    checker: RefCell<Option<Checker>>,
}

impl Target {
    /// A target whose clients are spread over the servers.
    pub(crate) fn new(
        action: &Action,
        connector: Connector,
        servers: Vec<Server>,
        clients: usize,
        checker: Option<(i64, bool)>,
    ) -> Self {
        let connector = Rc::new(connector);
        let servers: Vec<Rc<Server>> = servers.into_iter().map(Rc::new).collect();
        let client = |index: usize| {
            let server = &servers[index % servers.len()];
            Client::new(action.clone(), &connector, server, index)
        };
        Self {
            clients: (0..clients).map(client).collect(),
            checker: RefCell::new(checker.map(|(step, is_ordered)| Checker::new(step, is_ordered))),
        }
    }

    /// Returns the findings of all rounds.
    pub(crate) fn findings(self) -> Option<Findings> {
        self.checker.into_inner().map(Checker::finish)
    }
}

/// The request to end a round early. Requests in flight are completed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Halt(Arc<AtomicBool>);

impl Halt {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The load of one round. It ends at its length or after its actions, whichever comes first.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Round {
    pub(crate) length: Option<Duration>,
    pub(crate) actions: Option<u64>,
    /// The actions per second of an open loop. `None` is a closed loop.
    pub(crate) rate: Option<u64>,
    /// The time after the end in which an open loop sends the requests that were due before it.
    pub(crate) grace: Duration,
}

/// A round that is running.
struct Running<'a> {
    round: Round,
    begin: Instant,
    /// The number of actions of this round.
    total: u64,
    claimed: Cell<u64>,
    pacer: Option<(Schedule, Pacer)>,
    figures: RefCell<Figures>,
    checker: &'a RefCell<Option<Checker>>,
    /// The number of completed actions, for a progress bar.
    done: &'a Cell<u64>,
    halt: &'a Halt,
}

impl Round {
    /// Runs the round.
    pub(crate) async fn run(self, target: &mut Target, done: &Cell<u64>, halt: &Halt) -> Figures {
        let begin = Instant::now();
        let busy = thread_time();
        let mut total = self.actions.unwrap_or(u64::MAX);
        let pacer = self.rate.map(|rate| {
            let schedule = Schedule::new(rate);
            if let Some(length) = self.length {
                total = total.min(schedule.within(length));
            }
            let halt = Arc::clone(&halt.0);
            (schedule, Pacer::start(schedule, begin, total, halt))
        });
        let running = Running {
            round: self,
            begin,
            total,
            claimed: Cell::new(0),
            pacer,
            figures: RefCell::default(),
            checker: &target.checker,
            done,
            halt,
        };
        let clients = target.clients.iter_mut();
        join_all(clients.map(|client| running.repeat(client))).await;
        let mut figures = running.finish();
        figures.elapsed = begin.elapsed();
        figures.busy = thread_time().saturating_sub(busy);
        figures
    }
}

impl Running<'_> {
    /// Repeats the action of one client until the round ends.
    async fn repeat(&self, client: &mut Client) {
        while let Some(index) = self.claim() {
            let Some(due) = self.due(index).await else {
                return;
            };
            self.act(client, due).await;
        }
    }

    /// Claims the next action of the round.
    fn claim(&self) -> Option<u64> {
        let index = self.claimed.get();
        let longest = self.round.length.map(|length| match self.pacer {
            None => length,
            Some(_) => length + self.round.grace,
        });
        let is_over = longest.is_some_and(|longest| self.begin.elapsed() >= longest);
        if index >= self.total || is_over || self.halt.is_set() {
            return None;
        }
        self.claimed.set(index + 1);
        Some(index)
    }

    /// Waits until the action is due and returns that time. `None` after a halt.
    async fn due(&self, index: u64) -> Option<Instant> {
        let Some((schedule, pacer)) = &self.pacer else {
            return Some(Instant::now());
        };
        pacer.permits.acquire().await.ok()?.forget();
        Some(self.begin + schedule.due(index))
    }

    async fn act(&self, client: &mut Client, due: Instant) {
        let before = self.checker.borrow().as_ref().map(Checker::before);
        let outcome = client.act().await;
        let latency = due.elapsed();
        if let (Some(checker), Some(before)) = (&mut *self.checker.borrow_mut(), before) {
            checker.answered(before, &client.numbers);
        }
        let mut figures = self.figures.borrow_mut();
        match outcome {
            Ok(()) => figures.succeeded(latency, client.numbers.count),
            Err(failure) => figures.failed(failure, 1),
        }
        self.done.set(self.done.get() + 1);
    }

    /// Returns the figures. Actions that were due but not started, because no client was free,
    /// count as failed.
    fn finish(self) -> Figures {
        let mut figures = self.figures.into_inner();
        if self.pacer.is_some() && !self.halt.is_set() {
            let late = self.total - self.claimed.get();
            let detail = "all clients were busy until the end of the run: give a lower --rate or \
                          more --clients";
            if late > 0 {
                let failure = Failure::of(exit::UNAVAILABLE, "not-sent", detail);
                figures.failed(failure, late);
            }
        }
        figures
    }
}

/// The processor time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
