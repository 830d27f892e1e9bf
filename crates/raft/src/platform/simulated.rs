//! tokio for openraft, with the tasks and the random numbers of the calling node.

use std::time::Duration;

use openraft::AsyncRuntime;
use openraft::impls::TokioRuntime;
use openraft_rt_sim::SimWatch;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use tokio::task::JoinHandle;

use super::{scope, spawn};

/// Outside simulations, this is tokio except for its watch channel, because tokio's wakes waiting
/// tasks in a random order of its own.
#[derive(Debug)]
pub(crate) struct SimulatedRuntime(TokioRuntime);

type Instant = <TokioRuntime as AsyncRuntime>::Instant;

impl AsyncRuntime for SimulatedRuntime {
    type JoinError = tokio::task::JoinError;
    type JoinHandle<T: Send + 'static> = JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = Instant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + Send> = <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = SmallRng;
    type Mpsc = <TokioRuntime as AsyncRuntime>::Mpsc;
    type Watch = SimWatch;
    type Oneshot = <TokioRuntime as AsyncRuntime>::Oneshot;
    type Mutex<T: Send + 'static> = <TokioRuntime as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> JoinHandle<T::Output>
    where
        T: Future + Send + 'static,
        T::Output: Send + 'static,
    {
        spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + Send>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + Send>(
        deadline: Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(join_error: &Self::JoinError) -> bool {
        join_error.is_panic()
    }

    fn thread_rng() -> SmallRng {
        let of_node = scope::current().map(|scope| scope.roll());
        SmallRng::seed_from_u64(of_node.unwrap_or_else(rand::random))
    }

    fn new(threads: usize) -> Self {
        Self(TokioRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }
}
