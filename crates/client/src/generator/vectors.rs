//! The scripts of leases in `clients/vectors.json`: a clock, its steps, and what may be minted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seqd_idgen::{
    ClockPolicy, ClockVerdict, FieldOrder, Generator, Layout, LayoutSpec, Mint, OnRollback,
    Refusal, Tick, WallClock, WallMs, WorkerId,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::error::GenerateError;
use super::minter::{LeasedGenerator, Minter};
use super::options::GeneratorOptions;

/// 2026-11-23T19:00:00Z, the time of the wall clock at the start of each script.
const BEGINS: u64 = 1_795_460_400_000;

struct Set(AtomicU64);

impl WallClock for Set {
    fn wall(&self) -> WallMs {
        WallMs(self.0.load(Ordering::Relaxed))
    }
}

/// One script. Times are milliseconds since its start, by the monotonic clock and, as `wall`, by
/// the wall clock.
struct Script {
    name: &'static str,
    policy: ClockPolicy,
    layout: Layout,
    minter: Minter,
    began: Instant,
    steps: Vec<Value>,
}

impl Script {
    fn new(name: &'static str, layout: Layout, on_rollback: OnRollback) -> Self {
        let policy = ClockPolicy {
            on_rollback,
            ..ClockPolicy::default()
        };
        let options = GeneratorOptions {
            clock: policy,
            wall_clock: Arc::new(Set(AtomicU64::new(BEGINS))),
            ..GeneratorOptions::new("a")
        };
        Self {
            name,
            policy,
            layout,
            minter: Minter::new(&options, std::process::id()),
            began: Instant::now(),
            steps: Vec::new(),
        }
    }

    fn tick(&self, wall: i64) -> Tick {
        // A fence may be one past the last tick.
        let past = Tick(self.layout.max_tick().0 + 1);
        self.layout.tick_at(wall_at(wall)).unwrap_or(past)
    }

    /// Installs a lease from one time to another.
    fn granted(mut self, worker: u32, from: i64, fence: i64) -> Self {
        let (from, fence) = (self.tick(from), self.tick(fence));
        let generator = Generator::new(self.layout.clone(), WorkerId(worker), from, fence, 0);
        let generator = generator.unwrap().with_policy(self.policy);
        self.minter.install(LeasedGenerator {
            generator,
            lease: 1,
        });
        self.steps.push(json!({
            "do": "granted",
            "worker_id": worker,
            "from_tick": from.0.to_string(),
            "fence_tick": fence.0.to_string(),
        }));
        self
    }

    fn renewed(mut self, fence: i64) -> Self {
        let fence = self.tick(fence);
        self.minter.holder().unwrap().generator.extend(fence);
        let fence = fence.0.to_string();
        self.steps
            .push(json!({ "do": "renewed", "fence_tick": fence }));
        self
    }

    fn lost(mut self) -> Self {
        self.minter.drop_holder();
        self.steps.push(json!({ "do": "lost" }));
        self
    }

    fn closed(mut self) -> Self {
        let holder = self.minter.seal().unwrap();
        let generator = &holder.generator;
        let last = generator.close().map(|tick| tick.0);
        let last = last.unwrap_or(generator.first_tick().0 - 1).to_string();
        self.steps.push(json!({ "do": "close", "last_tick": last }));
        self
    }

    /// Mints at a time of both clocks.
    async fn mint(mut self, at: u64, wall: i64, count: u32) -> Self {
        sleep_until(self.began + Duration::from_millis(at)).await;
        let now = wall_at(wall);
        let mut step = json!({ "do": "mint", "at_ms": at, "wall_ms": now.0, "count": count });
        match self.minter.step(now, count) {
            Ok(Mint::Ready(run)) => {
                let ids: Vec<_> = run.iter().map(|id| id.to_string()).collect();
                step["ids"] = json!(ids);
            }
            Ok(Mint::Wait { ms }) => step["wait_ms"] = json!(ms),
            Ok(Mint::Refused(refusal)) => {
                let is_closed = self.minter.place().is_closed;
                step["refused"] = json!(code_of(refusal, is_closed));
            }
            Err(GenerateError::ClockBehind { .. }) => step["refused"] = json!("clock-behind"),
            Err(GenerateError::ClockJumped { .. }) => step["refused"] = json!("clock-jumped"),
            Err(other) => panic!("{other}"),
        }
        self.steps.push(step);
        self
    }

    /// A regular reading of the clock, as the renewing task takes one each second.
    async fn read(mut self, at: u64, wall: i64) -> Self {
        sleep_until(self.began + Duration::from_millis(at)).await;
        let now = wall_at(wall);
        let verdict = match self.minter.clock.judge(now) {
            ClockVerdict::Good => "good",
            ClockVerdict::Wait { .. } => "wait",
            ClockVerdict::Behind { .. } => "clock-behind",
            ClockVerdict::ForwardJump { .. } => "clock-jumped",
            other => panic!("{other:?}"),
        };
        self.steps.push(json!({
            "do": "read", "at_ms": at, "wall_ms": now.0, "clock": verdict,
        }));
        self
    }

    fn end(self) -> Value {
        let on_rollback = match self.policy.on_rollback {
            OnRollback::Refuse => "refuse",
            OnRollback::Continue => "continue",
        };
        json!({
            "name": self.name,
            "layout": definition(self.layout.spec()),
            "max_backward_wait_ms": self.policy.max_backward_wait_ms,
            "max_forward_jump_ms": self.policy.max_forward_jump_ms,
            "on_rollback": on_rollback,
            "steps": self.steps,
        })
    }
}

fn wall_at(wall: i64) -> WallMs {
    WallMs(BEGINS.checked_add_signed(wall).unwrap())
}

/// Returns the definition as it is in a lease.
pub(crate) fn definition(spec: &LayoutSpec) -> Value {
    let order = match spec.order {
        FieldOrder::TickWorkerSequence => "tick-worker-sequence",
        FieldOrder::TickSequenceWorker => "tick-sequence-worker",
    };
    json!({
        "name": spec.name,
        "epoch_ms": spec.epoch_ms,
        "tick_ms": spec.tick_ms,
        "time_bits": spec.time_bits,
        "datacenter_bits": spec.datacenter_bits,
        "worker_bits": spec.worker_bits,
        "sequence_bits": spec.sequence_bits,
        "order": order,
        "first_sequence": "zero",
    })
}

fn code_of(refusal: Refusal, is_closed: bool) -> &'static str {
    match refusal {
        Refusal::ClockBehind { .. } | Refusal::NotYet { .. } | Refusal::BeforeEpoch => {
            "clock-behind"
        }
        Refusal::TimeFull => "layout-exhausted",
        Refusal::FenceReached { .. } => "window-ended",
        Refusal::Closed if is_closed => "closed",
        Refusal::Closed => "no-lease",
    }
}

fn preset(name: &str) -> Layout {
    Layout::preset(name).unwrap()
}

/// Four IDs per tick of ten milliseconds, and the worker in the lowest bits.
fn small() -> Layout {
    Layout::new(LayoutSpec {
        name: "small".to_owned(),
        tick_ms: 10,
        sequence_bits: 2,
        worker_bits: 4,
        ..preset("sonyflake").spec().clone()
    })
    .unwrap()
}

/// A layout whose last tick is the first one of the scripts.
fn full() -> Layout {
    let spec = preset("default").spec().clone();
    let ticks = 1_u64 << 28;
    Layout::new(LayoutSpec {
        name: "full".to_owned(),
        epoch_ms: BEGINS - (ticks - 1) * 1000,
        tick_ms: 1000,
        time_bits: 28,
        ..spec
    })
    .unwrap()
}

pub(crate) async fn scripts() -> Vec<Value> {
    const REFUSE: OnRollback = OnRollback::Refuse;
    let script = |name, layout: &str| Script::new(name, preset(layout), REFUSE);
    let mut scripts = vec![
        script("a window begins, is renewed and ends", "default")
            .mint(0, 0, 1)
            .await
            .granted(17, 5, 100)
            .mint(1, 1, 1)
            .await
            .mint(5, 5, 3)
            .await
            .mint(5, 5, 2)
            .await
            .mint(99, 99, 1)
            .await
            .mint(100, 100, 1)
            .await
            .renewed(200)
            .mint(100, 100, 1)
            .await
            .renewed(150)
            .mint(199, 199, 1)
            .await
            .mint(200, 200, 1)
            .await
            .closed()
            .mint(201, 201, 1)
            .await
            .end(),
        script(
            "a lease that minted nothing gives its whole window back",
            "twitter",
        )
        .granted(1023, 100, 1000)
        .mint(0, 0, 1)
        .await
        .closed()
        .end(),
        Script::new("a full tick is waited out", small(), REFUSE)
            .granted(9, 0, 1000)
            .mint(3, 3, 3)
            .await
            .mint(3, 3, 3)
            .await
            .mint(3, 3, 1)
            .await
            .mint(9, 9, 1)
            .await
            .mint(10, 10, 9)
            .await
            .mint(19, 19, 1)
            .await
            .closed()
            .end(),
        Script::new("the last tick of a layout", full(), REFUSE)
            .granted(2, 0, 1000)
            .mint(999, 999, 1)
            .await
            .mint(1000, 1000, 1)
            .await
            .closed()
            .end(),
    ];
    scripts.extend(clock_steps().await);
    scripts.extend(frozen_and_lost().await);
    scripts
}

async fn clock_steps() -> Vec<Value> {
    let script = |name, on_rollback| Script::new(name, preset("default"), on_rollback);
    let logical = "logical time inside the window";
    vec![
        script("a clock that goes back", OnRollback::Refuse)
            .granted(3, 0, 30_000)
            .mint(1000, 1000, 1)
            .await
            .mint(1010, 970, 1)
            .await
            .mint(1020, 949, 1)
            .await
            .mint(1021, 1000, 2)
            .await
            .mint(1100, 1100, 1)
            .await
            .end(),
        Script::new(logical, small(), OnRollback::Continue)
            .granted(3, 0, 1020)
            .mint(1000, 1000, 1)
            .await
            .mint(1010, 500, 2)
            .await
            .mint(1020, 500, 4)
            .await
            .mint(1020, 500, 4)
            .await
            .mint(1030, 400, 1)
            .await
            .end(),
        script("a clock that jumps ahead and stays", OnRollback::Refuse)
            .granted(3, 0, 60_000)
            .mint(0, 0, 1)
            .await
            .mint(1000, 2000, 1)
            .await
            .mint(2000, 9000, 1)
            .await
            .read(3000, 10_000)
            .await
            .read(5000, 12_000)
            .await
            .mint(6999, 13_999, 1)
            .await
            .mint(7000, 14_000, 1)
            .await
            .mint(7100, 14_100, 1)
            .await
            .end(),
        script("a clock that jumps ahead and returns", OnRollback::Refuse)
            .granted(3, 0, 60_000)
            .mint(0, 0, 1)
            .await
            .mint(1000, 9000, 1)
            .await
            .mint(2000, 2000, 1)
            .await
            .mint(3000, 10_000, 1)
            .await
            .mint(7999, 15_000, 1)
            .await
            .mint(8000, 15_001, 1)
            .await
            .end(),
        script("a clock before the epoch", OnRollback::Refuse)
            .granted(3, 0, 60_000)
            .mint(0, -40_000_000_000, 1)
            .await
            .end(),
    ]
}

async fn frozen_and_lost() -> Vec<Value> {
    let script = |name| Script::new(name, preset("default"), OnRollback::Refuse);
    vec![
        script("a process that is stopped past its window")
            .granted(3, 0, 30_000)
            .mint(1000, 1000, 1)
            .await
            .mint(61_000, 61_000, 1)
            .await
            .read(61_000, 61_000)
            .await
            .lost()
            .mint(61_001, 61_001, 1)
            .await
            .granted(4, 61_100, 91_100)
            .mint(61_100, 61_100, 1)
            .await
            .end(),
        script("a machine that is suspended, whose monotonic clock stood still")
            .granted(3, 0, 30_000)
            .mint(1000, 1000, 1)
            .await
            .mint(1001, 61_001, 1)
            .await
            .mint(6001, 66_001, 1)
            .await
            .renewed(96_000)
            .mint(6002, 66_002, 1)
            .await
            .end(),
        script("a new lease after a lost one begins above the used ticks of both")
            .granted(3, 0, 30_000)
            .mint(2000, 2000, 5)
            .await
            .lost()
            .granted(3, 1000, 40_000)
            .mint(2001, 1990, 1)
            .await
            .mint(2002, 1900, 1)
            .await
            .mint(2003, 2003, 1)
            .await
            .closed()
            .end(),
    ]
}
