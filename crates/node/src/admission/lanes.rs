//! Limits the number of requests of one client that are served at once, while other clients send
//! requests and the node is late.
//!
//! A node whose processors are in use serves each event late. A client with hundreds of connections
//! then delays a client with a few, although each of its requests is permitted. While several
//! clients send requests and timers fire late, each client therefore has a lane: its requests
//! beyond the lane's width wait for earlier ones. A client is a tenant: an access token or an
//! address. The width shrinks while timers are late and grows while they are not. A node with one
//! client, or with idle time, has no lanes.
//!
//! The width does not apply to a light client, which has less than half the demand of the busiest
//! one: its requests, and those of them that wait. Its requests also take long on a late node, so
//! that a few at once would have to wait for each other, although others cause the lateness.
//!
//! Beside a light client, the width grows slowly, and at the least width a busy client has pauses:
//! while its other requests wait, the place of a request that has ended stays taken until the next
//! measurement.
//!
//! A request that waits for other clients, for example for a lock, leaves its lane. Requests of the
//! operator and of nodes have none.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use seqd_api::{ErrorCode, Problem};
use seqd_guards::is_out;
use seqd_net::Lock;
use seqd_state::Tenant;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::connections::ClientConnection;

/// The width without lanes.
const OPEN: usize = usize::MAX;

/// The initial width of lanes, the least width, and the width above which lanes end. With a least
/// width of one, a request that waits for a leader would keep its client from IDs.
const FIRST: usize = 64;
const LEAST: usize = 2;
const WIDEST: usize = 1024;

/// The least number of waiting requests that are searched for cancelled ones.
const MANY: usize = 64;

/// Timers are late if they fire later than this, on average over one measurement. The runtime
/// rounds them up to whole milliseconds: those of an idle node fire 1.0 to 1.1 ms late.
const LATE: Duration = Duration::from_micros(1_150);

/// A measurement consists of this many timers, one every two milliseconds.
const TIMERS: u32 = 10;
const EVERY: Duration = Duration::from_millis(2);

/// Beside a light client, the width grows after this many punctual measurements, and shrinks after
/// each late one: if it grew as fast as it shrinks, the node would be late half of the time.
const PUNCTUAL: u32 = 8;

/// Requests are counted over about this many measurements, which take a second.
const MEMORY: usize = 32;

/// After this many checks without a second client, the lanes end, and the node only checks for a
/// second client at the interval below. A node with one client measures no timers.
const ALONE: u32 = 12;
const ALONE_FOR: Duration = Duration::from_millis(250);

/// The lanes of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lanes(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    width: AtomicUsize,
    /// The client that sent the latest request; the operator before the first one.
    last: AtomicU64,
    /// True if another client has sent a request since the last check.
    has_alternated: AtomicBool,
    lanes: Lock<HashMap<Tenant, Lane>>,
    /// The largest demand of one client, at the last measurement.
    busiest: AtomicUsize,
    /// The number of measurements for which a light client still counts: it may send little.
    light: AtomicUsize,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            width: AtomicUsize::new(OPEN),
            last: AtomicU64::new(0),
            has_alternated: AtomicBool::new(false),
            lanes: Lock::default(),
            busiest: AtomicUsize::new(0),
            light: AtomicUsize::new(0),
        }
    }
}

#[derive(Debug, Default)]
struct Lane {
    /// The number of places that are taken.
    served: usize,
    /// Those of them whose request has ended. They are free after the next measurement.
    resting: usize,
    waiting: VecDeque<oneshot::Sender<Slot>>,
    /// The number of waiting requests after cancelled ones were last removed.
    uncancelled: usize,
    /// The number of requests, to which each measurement adds those that wait, and of which it
    /// subtracts one in `MEMORY`.
    demand: usize,
}

impl Lane {
    fn is_unused(&self) -> bool {
        self.served == 0 && self.waiting.is_empty() && self.demand == 0
    }

    /// Removes cancelled requests whenever the queue has doubled, because a client can cancel
    /// requests faster than its lane advances.
    fn remove_cancelled(&mut self) {
        if self.waiting.len() >= MANY.max(2 * self.uncancelled) {
            self.waiting.retain(|waiting| !waiting.is_closed());
            self.uncancelled = self.waiting.len();
        }
    }
}

/// A place in a lane, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    shared: Arc<Shared>,
    tenant: Tenant,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut lanes = self.shared.lanes.lock();
        let Some(lane) = lanes.get_mut(&self.tenant) else {
            return;
        };
        let passed = if self.shared.rests(lane) {
            lane.resting += 1;
            Passed::new()
        } else {
            lane.served -= 1;
            self.shared.pass(self.tenant, lane)
        };
        if lane.is_unused() {
            lanes.remove(&self.tenant);
        }
        drop(lanes);
        hand_out(passed);
    }
}

/// Slots for waiting requests.
type Passed = Vec<(oneshot::Sender<Slot>, Slot)>;

/// Sends the slots to their requests. The caller must not hold the lock: the slot of a cancelled
/// request is dropped here, which takes the lock.
fn hand_out(passed: Passed) {
    for (waiting, slot) in passed {
        let _ = waiting.send(slot);
    }
}

impl Shared {
    fn has_light(&self) -> bool {
        self.light.load(Ordering::Relaxed) > 0
    }

    fn is_light(&self, lane: &Lane) -> bool {
        lane.demand < self.busiest.load(Ordering::Relaxed) / 2
    }

    /// Whether the place of a request that has ended is taken until the next measurement.
    fn rests(&self, lane: &Lane) -> bool {
        self.width.load(Ordering::Relaxed) <= LEAST && self.has_light() && !lane.waiting.is_empty()
    }

    /// Admits as many waiting requests as the width permits.
    fn pass(self: &Arc<Self>, tenant: Tenant, lane: &mut Lane) -> Passed {
        let width = if self.is_light(lane) || is_out!(LanesHeld) {
            OPEN
        } else {
            self.width.load(Ordering::Relaxed)
        };
        let mut passed = Passed::new();
        while lane.served < width
            && let Some(waiting) = lane.waiting.pop_front()
        {
            if waiting.is_closed() {
                continue;
            }
            lane.served += 1;
            let shared = Arc::clone(self);
            passed.push((waiting, Slot { shared, tenant }));
        }
        passed
    }
}

impl Lanes {
    /// Requests a place in the lane of a client. The receiver yields it when the lane has one.
    /// `None` if there are no lanes.
    pub(crate) fn enter(&self, tenant: Tenant) -> Option<oneshot::Receiver<Slot>> {
        if !self.ask(tenant) {
            return None;
        }
        let shared = &self.0;
        let (waiting, turn) = oneshot::channel();
        let passed = {
            let mut lanes = shared.lanes.lock();
            let lane = lanes.entry(tenant).or_default();
            lane.demand += 1;
            lane.waiting.push_back(waiting);
            lane.remove_cancelled();
            shared.pass(tenant, lane)
        };
        hand_out(passed);
        Some(turn)
    }

    /// Records a request of this client. Returns whether the client has a lane.
    pub(crate) fn ask(&self, tenant: Tenant) -> bool {
        if tenant == Tenant::OPERATOR {
            return false;
        }
        let shared = &self.0;
        let last = shared.last.load(Ordering::Relaxed);
        if last != tenant.to_bits() {
            shared.last.store(tenant.to_bits(), Ordering::Relaxed);
            // The operator's bits mean that there was no client before.
            if last != Tenant::OPERATOR.to_bits() {
                shared.has_alternated.store(true, Ordering::Relaxed);
            }
        }
        shared.width.load(Ordering::Relaxed) != OPEN
    }

    /// Sets the width after a measurement.
    pub(crate) fn set_width(&self, width: usize) {
        let shared = &self.0;
        shared.width.store(width, Ordering::Relaxed);
        let mut passed = Passed::new();
        {
            let mut lanes = shared.lanes.lock();
            let mut busiest = 0;
            for lane in lanes.values_mut() {
                lane.served -= mem::take(&mut lane.resting);
                lane.demand += lane.waiting.len();
                lane.demand -= match width {
                    OPEN => lane.demand,
                    _ => lane.demand.div_ceil(MEMORY),
                };
                busiest = busiest.max(lane.demand);
            }
            shared.busiest.store(busiest, Ordering::Relaxed);
            let light = if lanes.values().any(|lane| shared.is_light(lane)) {
                MEMORY
            } else {
                shared.light.load(Ordering::Relaxed).saturating_sub(1)
            };
            shared.light.store(light, Ordering::Relaxed);
            for (tenant, lane) in &mut *lanes {
                passed.extend(shared.pass(*tenant, lane));
            }
            lanes.retain(|_, lane| !lane.is_unused());
        }
        hand_out(passed);
    }

    /// Measures the timers and sets the width. Never returns.
    pub(crate) async fn keep(self) {
        let mut alone = ALONE;
        let mut punctual: u32 = 0;
        loop {
            if alone >= ALONE {
                sleep(ALONE_FOR).await;
            }
            let several = self.0.has_alternated.swap(false, Ordering::Relaxed);
            alone = if several { 0 } else { alone + 1 };
            let has_several = alone < ALONE;
            let late = if has_several {
                lateness().await
            } else {
                Duration::ZERO
            };
            punctual = match self.0.has_light() {
                _ if late > LATE => 0,
                true => punctual % PUNCTUAL + 1,
                false => PUNCTUAL,
            };
            let width = self.0.width.load(Ordering::Relaxed);
            let next = next_width(width, punctual, has_several);
            // Without lanes there is nothing to count.
            if width != OPEN || next != OPEN {
                self.set_width(next);
            }
        }
    }
}

/// Waits for a place in a lane until the deadline of the request. Meanwhile, its connection may be
/// closed in favour of others.
///
/// # Errors
/// `overloaded` if the deadline passes first.
pub(crate) async fn wait_for_slot(
    mut turn: oneshot::Receiver<Slot>,
    connection: Option<&ClientConnection>,
    deadline: Instant,
) -> Result<Option<Slot>, Problem> {
    if let Ok(slot) = turn.try_recv() {
        return Ok(Some(slot));
    }
    let _pause = connection.map(ClientConnection::pause);
    let slot = timeout_at(deadline, turn).await;
    slot.map(Result::ok).map_err(|_| {
        let detail = "this node is busy, and earlier requests of this client are still waiting";
        Problem::new(ErrorCode::Overloaded, detail)
            .with_hint("use another node, or send fewer requests at once")
    })
}

/// The average lateness of timers.
async fn lateness() -> Duration {
    let mut late = Duration::ZERO;
    for _ in 0..TIMERS {
        let due = Instant::now() + EVERY;
        sleep_until(due).await;
        late += due.elapsed();
    }
    late / TIMERS
}

/// The width after this many punctual measurements: 0 after a late one, [`PUNCTUAL`] if it grows.
fn next_width(width: usize, punctual: u32, has_several: bool) -> usize {
    match (has_several, punctual, width) {
        (false, ..) => OPEN,
        (true, 0, OPEN) => FIRST,
        (true, 0, _) => (width - width.div_ceil(4)).max(LEAST),
        (true, _, OPEN) => OPEN,
        (true, ..) if punctual < PUNCTUAL => width,
        (true, ..) if width > WIDEST => OPEN,
        (true, ..) => width + width.div_ceil(8),
    }
}

#[cfg(test)]
mod tests {
    use seqd_state::AccessId;

    use super::*;

    type Turn = oneshot::Receiver<Slot>;

    fn tenant(id: u64) -> Tenant {
        Tenant::of_token(AccessId(id))
    }

    fn enter(lanes: &Lanes, id: u64) -> Turn {
        lanes.enter(tenant(id)).expect("lanes")
    }

    #[test]
    fn the_requests_of_one_client_do_not_delay_those_of_another_on_a_late_node() {
        let lanes = Lanes::default();
        assert!(
            lanes.enter(tenant(1)).is_none(),
            "a node with time to spare"
        );
        lanes.set_width(3);
        let mut many: Vec<Turn> = (0..6).map(|_| enter(&lanes, 1)).collect();
        let mut served: Vec<Slot> = many.iter_mut().flat_map(Turn::try_recv).collect();
        assert_eq!(
            served.len(),
            3,
            "all requests of one client were served at once"
        );
        assert!(
            enter(&lanes, 2).try_recv().is_ok(),
            "a client waits for another"
        );
        assert!(lanes.enter(Tenant::OPERATOR).is_none());

        // The fourth request is cancelled, so the fifth gets its turn.
        many.remove(3);
        served.pop();
        let fifth = many[3].try_recv();
        assert!(fifth.is_ok());
        assert!(many[4].try_recv().is_err());
    }

    #[test]
    fn beside_a_light_client_a_busy_one_gets_a_place_back_after_the_next_measurement() {
        let lanes = Lanes::default();
        lanes.set_width(LEAST);
        let mut busy: Vec<Turn> = (0..20).map(|_| enter(&lanes, 1)).collect();
        lanes.set_width(LEAST);
        let mut turns = busy.iter_mut();
        let mut place = || turns.next().expect("a request").try_recv();
        drop((place(), place()));
        let slots = (place().expect("no light client"), place());

        let light = enter(&lanes, 2);
        lanes.set_width(LEAST);
        drop(slots);
        assert!(place().is_err(), "a busy client has no pause");
        drop(light);
        lanes.set_width(LEAST);
        let slot = place().expect("a place after the measurement");
        drop((busy, slot));
        lanes.set_width(LEAST);
        assert_eq!(lanes.0.lanes.lock()[&tenant(1)].served, 0, "a lost place");
    }

    #[test]
    fn a_client_with_less_than_half_the_requests_of_the_busiest_has_no_width() {
        let lanes = Lanes::default();
        lanes.set_width(2);
        let _busy: Vec<Turn> = (0..100).map(|_| enter(&lanes, 1)).collect();
        let mut light: Vec<Turn> = (0..3).map(|_| enter(&lanes, 2)).collect();
        assert!(light[2].try_recv().is_err(), "nothing was measured yet");

        lanes.set_width(2);
        let slot = light[2].try_recv().expect("a light client does not wait");
        assert!(enter(&lanes, 1).try_recv().is_err(), "the busiest waits");
        let mut more: Vec<Turn> = (0..120).map(|_| enter(&lanes, 2)).collect();
        assert!(more[0].try_recv().is_ok());
        assert!(more[119].try_recv().is_err(), "it has become busy itself");

        drop((more, light, slot));
        lanes.set_width(OPEN);
        assert!(!lanes.0.lanes.lock().contains_key(&tenant(2)));
    }

    #[test]
    fn cancelled_requests_do_not_stay_in_a_lane() {
        let lanes = Lanes::default();
        lanes.set_width(LEAST + 1);
        let slots: Vec<_> = (0..=LEAST).map(|_| enter(&lanes, 1).try_recv()).collect();
        let mut waits = enter(&lanes, 1);
        for _ in 0..10 * MANY {
            drop(enter(&lanes, 1));
        }
        assert!(lanes.0.lanes.lock()[&tenant(1)].waiting.len() <= MANY);
        drop(slots);
        assert!(waits.try_recv().is_ok());
    }

    #[test]
    fn only_a_second_client_makes_several() {
        let lanes = Lanes::default();
        let alternated = || lanes.0.has_alternated.load(Ordering::Relaxed);
        for id in [1, 1] {
            lanes.ask(tenant(id));
            assert!(!alternated(), "one client counts as several");
        }
        lanes.ask(Tenant::OPERATOR);
        assert!(!alternated(), "an operator counts as a client");
        lanes.ask(tenant(2));
        assert!(alternated());
    }

    #[test]
    fn waiting_requests_are_served_when_lanes_end() {
        let lanes = Lanes::default();
        lanes.set_width(1);
        let mut turns: Vec<Turn> = (0..3).map(|_| enter(&lanes, 1)).collect();
        lanes.set_width(OPEN);
        let served: Vec<Slot> = turns.iter_mut().flat_map(Turn::try_recv).collect();
        assert_eq!(served.len(), 3);
        drop(served);
        assert!(lanes.0.lanes.lock().is_empty());
    }

    #[test]
    fn lanes_shrink_while_timers_are_late_and_end_with_the_second_client() {
        let (late, punctual) = (0, PUNCTUAL);
        assert_eq!(next_width(OPEN, punctual, true), OPEN);
        assert_eq!(next_width(OPEN, late, false), OPEN);
        let mut width = next_width(OPEN, late, true);
        assert_eq!(width, FIRST);
        for _ in 0..20 {
            width = next_width(width, late, true);
        }
        assert_eq!(width, LEAST);
        assert_eq!(next_width(width, late, false), OPEN);
        assert_eq!(next_width(width, PUNCTUAL - 1, true), LEAST);
        for _ in 0..100 {
            width = next_width(width, punctual, true);
        }
        assert_eq!(width, OPEN);
    }
}
