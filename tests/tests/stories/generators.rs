//! External generators against real nodes: no ID is repeated among them and the nodes, no worker
//! has two holders, no ID is past a fence, and the documents' examples work as printed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seqd_client::idgen::{WallClock, WallMs};
use seqd_client::{Client, GenerateError, GeneratorOptions, IdGenerator, SystemClock, layout_of};
use seqd_tests::clock::names_a_time;
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::generators::{self, Fleet, Held, Plan, create_layout, runtime, unique};
use seqd_tests::history::{Numbers as _, Timeline};
use seqd_tests::wait;
use seqd_tests::workload::{Route, Workload};
use tokio::task::JoinSet;

/// A short window, so that a story reaches its end. A renewal is due every second.
const WINDOW: Duration = Duration::from_secs(3);

fn on_short_windows() -> Cluster {
    Cluster::planned(3).with("clock", "window", "\"3s\"")
}

fn clients(cluster: &Cluster) -> Vec<Client> {
    let addresses = cluster.addresses();
    (0..3)
        .map(|at| generators::rotated(&addresses, at))
        .collect()
}

fn options(layout: &str, owner: &str) -> GeneratorOptions {
    GeneratorOptions {
        layout: layout.to_owned(),
        ..GeneratorOptions::new(owner)
    }
}

#[test]
fn generators_and_nodes_mint_no_id_twice_while_leaders_are_killed() {
    let mut cluster = Cluster::started(3);
    let (runtime, clients) = (runtime(), clients(&cluster));
    let nodes = Workload::ids(cluster.load(3, Route::Roaming, 200, 5), Timeline::begin());
    let plan = Plan {
        layout: "default".to_owned(),
        generators: 8,
        batch: 50,
        pause: Duration::from_millis(10),
        over: Duration::ZERO,
    };
    let fleet = Fleet::start(&runtime, &clients, &plan);
    wait::until("all generators mint", READY, || {
        (fleet.minting() == 8).then_some(())
    });
    for _ in 0..3 {
        let leader = cluster.leader();
        cluster.node_mut(leader).kill();
        nodes.wait_for(100, READY);
        cluster.node_mut(leader).start();
        cluster.wait_ready();
    }
    let history = nodes.finish();
    let minted = fleet.stop(&runtime);
    let mut all: Vec<u64> = Vec::new();
    for op in history.iter().filter_map(|op| op.answer()) {
        for run in op.runs() {
            all.extend((run.first..=run.last).map(|id| id as u64));
        }
    }
    let of_nodes = all.len();
    for one in &minted {
        // A third of a window covers each election, so no call was affected by one.
        assert!(
            one.refused.is_empty() && one.leases == 1,
            "{:?}",
            one.refused
        );
        all.extend(&one.ids);
    }
    let count = unique(all).unwrap();
    println!("{count} IDs, {of_nodes} of them by nodes, no duplicate");
    assert!(of_nodes > 10_000 && count - of_nodes > 10_000);
}

/// A clock that blocks after a reading, like a process that is stopped at that point.
struct Stops {
    armed: AtomicBool,
    stopped: AtomicBool,
    go_on: AtomicBool,
}

impl WallClock for Stops {
    fn wall(&self) -> WallMs {
        let read = SystemClock.wall();
        if self.armed.swap(false, Ordering::SeqCst) {
            self.stopped.store(true, Ordering::SeqCst);
            wait::until("the story goes on", READY, || {
                self.go_on.load(Ordering::SeqCst).then_some(())
            });
        }
        read
    }
}

#[test]
fn a_holder_that_is_stopped_in_a_batch_past_its_window_mints_nothing_past_its_fence() {
    let cluster = on_short_windows().ready();
    let (runtime, clients) = (runtime(), clients(&cluster));
    runtime.block_on(create_layout(&clients[0], "tiny", 1, 10));
    // The whole program of this holder stops, because the clock blocks the only thread of its
    // runtime.
    let clock = Arc::new(Stops {
        armed: AtomicBool::new(false),
        stopped: AtomicBool::new(false),
        go_on: AtomicBool::new(false),
    });
    let holder = {
        let (clock, client) = (Arc::clone(&clock), clients[1].clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async {
                let options = GeneratorOptions {
                    wall_clock: Arc::clone(&clock) as Arc<dyn WallClock>,
                    ..options("tiny", "stopped")
                };
                let generator = IdGenerator::start(client, options).unwrap();
                generator.ready().await.unwrap();
                let fence = generator.status().window_ends.unwrap();
                let worker = generator.status().worker;
                clock.armed.store(true, Ordering::SeqCst);
                // IDs of the tick that it had read when it was stopped, which is in its own window.
                let ids = generator.ids_within(100, Duration::ZERO).await.unwrap();
                let refused = generator.ids_within(1, Duration::ZERO).await;
                let refused = refused.unwrap_err();
                let at_refusal = generator.status().worker;
                (ids, fence, worker, at_refusal, refused)
            })
        })
    };
    wait::until("the holder stands still", READY, || {
        clock.stopped.load(Ordering::SeqCst).then_some(())
    });
    // Other generators get both workers of the layout, including the worker of the stopped holder.
    let others = runtime.block_on(async {
        let mut others = Vec::new();
        for (number, client) in clients.iter().take(2).enumerate() {
            let client = client.clone();
            let owner = format!("other-{number}");
            let generator = IdGenerator::start(client, options("tiny", &owner)).unwrap();
            let ids = generator.ids_within(5000, READY).await.unwrap();
            others.push((generator, ids));
        }
        others
    });
    clock.go_on.store(true, Ordering::SeqCst);
    let (ids, fence, worker, at_refusal, refused) = holder.join().unwrap();
    println!("stopped, then: {refused}");
    assert!(
        matches!(refused, GenerateError::WindowEnded { .. }),
        "{refused}"
    );
    let is_the_first = at_refusal.is_none_or(|at| Some(at) == worker);
    assert!(is_the_first, "another lease was taken in between");
    assert_eq!(ids.len(), 100);
    let taken: Vec<_> = others
        .iter()
        .map(|(other, _)| other.status().worker)
        .collect();
    assert!(taken.contains(&worker), "{taken:?}");
    let layout = runtime.block_on(clients[0].layout("tiny", &Default::default()));
    let layout = layout_of(&layout.unwrap()).unwrap();
    for id in &ids {
        let tick = layout.unpack(*id).unwrap().tick;
        assert!(layout.wall_at(tick) < fence, "{id} is past the fence");
    }
    let mut all: Vec<u64> = ids.iter().map(|id| id.get()).collect();
    all.extend(others.iter().flat_map(|(_, ids)| ids).map(|id| id.get()));
    unique(all).unwrap();
}

/// `count` holders one after another, `at_once` at a time, next to six that stay. Some end without
/// releasing their worker.
fn short_lives(worker_bits: u8, count: usize, at_once: usize) {
    let cluster = on_short_windows().ready();
    let (runtime, clients) = (runtime(), clients(&cluster));
    runtime.block_on(async {
        create_layout(&clients[0], "short", worker_bits, 8).await;
        let held = Arc::new(Held::default());
        let mut all = Vec::new();
        let mut long = Vec::new();
        for number in 0..6 {
            let owner = format!("long-{number}");
            let generator =
                IdGenerator::start(clients[number % 3].clone(), options("short", &owner));
            let generator = generator.unwrap();
            generator.ready().await.unwrap();
            held.hold(generator.status().worker.unwrap(), &owner)
                .unwrap();
            long.push(generator);
        }
        let (mut lives, mut begun) = (JoinSet::new(), 0);
        while begun < count || !lives.is_empty() {
            while begun < count && lives.len() < at_once {
                let (client, held) = (clients[begun % 3].clone(), Arc::clone(&held));
                lives.spawn(life(client, held, begun));
                begun += 1;
            }
            let ids: Vec<u64> = lives.join_next().await.unwrap().unwrap();
            all.extend(ids);
            let stays = &long[begun % 6];
            all.extend(stays.ids(20).await.unwrap().iter().map(|id| id.get()));
        }
        for generator in long {
            assert_eq!(generator.status().leases, 1);
            generator.close().await.unwrap();
        }
        let ids = unique(all).unwrap();
        println!("{count} short lives on {worker_bits} worker bits, {ids} IDs, no duplicate");
    });
}

async fn life(client: Client, held: Arc<Held>, number: usize) -> Vec<u64> {
    let owner = format!("short-{number}");
    let generator = IdGenerator::start(
        client,
        GeneratorOptions {
            patience: READY,
            ..options("short", &owner)
        },
    );
    let generator = generator.unwrap();
    generator.ready().await.unwrap();
    let worker = generator.status().worker.unwrap();
    held.hold(worker, &owner).unwrap();
    let ids = generator.ids(10).await.unwrap();
    assert_eq!(generator.status().leases, 1);
    held.end(worker);
    if number % 40 != 39 {
        generator.close().await.unwrap();
    }
    ids.iter().map(|id| id.get()).collect()
}

#[test]
fn thousands_of_short_lives_share_the_few_workers_of_five_bits() {
    short_lives(5, 2000, 12);
}

#[test]
fn thousands_of_short_lives_on_ten_bits_never_share_a_worker() {
    short_lives(10, 5000, 48);
}

#[test]
fn exhausted_workers_are_named_with_a_time_and_waited_for() {
    let cluster = on_short_windows().ready();
    let (runtime, clients) = (runtime(), clients(&cluster));
    runtime.block_on(async {
        create_layout(&clients[0], "tiny", 1, 10).await;
        let mut held = Vec::new();
        for owner in ["one", "two"] {
            let generator = IdGenerator::start(clients[0].clone(), options("tiny", owner)).unwrap();
            generator.ready().await.unwrap();
            held.push(generator);
        }
        let third = IdGenerator::start(clients[1].clone(), options("tiny", "three")).unwrap();
        let refused = third
            .ids_within(1, Duration::from_secs(5))
            .await
            .unwrap_err();
        let GenerateError::WorkersExhausted { until, .. } = &refused else {
            panic!("{refused}");
        };
        let ahead = until.0.saturating_sub(SystemClock.wall().0);
        assert!(ahead <= WINDOW.as_millis() as u64 + 500, "{ahead} ms ahead");
        assert!(names_a_time(&refused.to_string()), "{refused}");
        println!("{refused}");
        held.pop().unwrap().close().await.unwrap();
        third.ids_within(1, READY).await.unwrap();
    });
}
