//! The client's allocators on real nodes: values never repeat and stay in order, and unused values
//! are returned, even if nodes fail.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use seqd_client::blocking::{Chunk, SequenceAllocator};
use seqd_client::{AllocatorOptions, Closed};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::faults::Paused;
use seqd_tests::generators::{rotated, unique};
use seqd_tests::history::{Numbers as _, Timeline};
use seqd_tests::wait::{self, SetsAtEnd};
use seqd_tests::workload::{Route, Workload};
use serde_json::json;

#[path = "../../../crates/client/examples/orders.rs"]
mod orders;

/// Small segments, so that many are fetched while nodes fail.
fn options() -> AllocatorOptions {
    AllocatorOptions {
        min: 100,
        max: 20_000,
        target: Duration::from_secs(1),
        patience: READY,
    }
}

/// The ways in which threads draw from one allocator.
#[derive(Clone, Copy)]
enum Way {
    Single,
    Batch,
    Chunks,
}

/// Draws until the end is set, and returns the values in the order of the draws, and the longest
/// time of a call.
fn draw(
    allocator: &SequenceAllocator,
    way: Way,
    count: &AtomicU64,
    over: &AtomicBool,
) -> (Vec<i64>, Duration) {
    let mut chunk = Chunk::new(allocator, NonZeroU32::new(32).unwrap());
    let (mut drawn, mut longest) = (Vec::new(), Duration::ZERO);
    while !over.load(Ordering::Relaxed) {
        for _ in 0..50 {
            let begun = Instant::now();
            match way {
                Way::Single => drawn.push(allocator.next().unwrap()),
                Way::Batch => {
                    let ranges = allocator.take(3).unwrap();
                    drawn.extend(ranges.iter().flat_map(|range| range.first..=range.last));
                }
                Way::Chunks => drawn.push(chunk.next().unwrap()),
            }
            longest = longest.max(begun.elapsed());
        }
        count.fetch_add(50, Ordering::Relaxed);
        // Draws at the rate of a busy program: a segment's values last for about a second.
        std::thread::sleep(Duration::from_millis(5));
    }
    (drawn, longest)
}

#[test]
fn allocators_and_nodes_draw_no_value_twice_while_nodes_fail() {
    let mut cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({}));
    let nodes = Workload::next(
        cluster.load(3, Route::Roaming, 20, 5),
        Timeline::begin(),
        "order",
    );
    let allocators: Vec<SequenceAllocator> = (0..2)
        .map(|at| rotated(&cluster.addresses(), at))
        .map(|client| SequenceAllocator::start(client, "order", options()).unwrap())
        .collect();
    let (over, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let drawn = std::thread::scope(|scope| {
        let end = SetsAtEnd(&over);
        let mut threads = Vec::new();
        for allocator in &allocators {
            for way in [Way::Single, Way::Batch, Way::Chunks] {
                let (count, over) = (&count, &over);
                threads.push(scope.spawn(move || draw(allocator, way, count, over)));
            }
        }
        let all_draw = |more: u64| {
            let until = count.load(Ordering::Relaxed) + more;
            wait::until("more draws", READY, || {
                (count.load(Ordering::Relaxed) >= until).then_some(())
            });
        };
        all_draw(20_000);
        for round in 0..3 {
            let leader = cluster.leader();
            if round == 1 {
                // Refills are slow, and some have an unknown outcome.
                let pause = Paused::new(cluster.node(leader));
                all_draw(20_000);
                drop(pause);
            } else {
                cluster.node_mut(leader).kill();
                all_draw(20_000);
                cluster.node_mut(leader).start();
            }
            cluster.wait_ready();
            nodes.wait_for(100, READY);
        }
        drop(end);
        let ended = threads.into_iter().map(|thread| thread.join().unwrap());
        ended.collect::<Vec<_>>()
    });
    let mut all: Vec<u64> = Vec::new();
    for op in nodes.finish().iter().filter_map(|op| op.answer()) {
        for run in op.runs() {
            all.extend((run.first..=run.last).map(|value| value as u64));
        }
    }
    let (of_nodes, mut longest) = (all.len(), Duration::ZERO);
    for (values, waited) in &drawn {
        assert!(values.is_sorted_by(|one, next| one < next));
        all.extend(values.iter().map(|value| *value as u64));
        longest = longest.max(*waited);
    }
    let distinct = unique(all).unwrap();
    println!("{distinct} values, {of_nodes} of them by nodes, longest call {longest:?}");
    assert!(of_nodes > 1_000 && distinct - of_nodes > 50_000);
    for allocator in &allocators {
        let abandoned = allocator.status().unwrap().abandoned;
        println!("{:?}, {abandoned} abandoned", allocator.close());
    }
}

#[test]
fn unused_values_are_granted_again_after_a_close_and_after_a_drop() {
    let cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"increment": "2"}));
    let client = rotated(&cluster.addresses(), 1);
    let start = || SequenceAllocator::start(client.clone(), "order", options()).unwrap();
    let allocator = start();
    let drawn: Vec<i64> = (0..30).map(|_| allocator.next().unwrap()).collect();
    assert_eq!(drawn, (0..30).map(|at| 1 + 2 * at).collect::<Vec<_>>());
    // The second segment, so that both are returned.
    wait::until("the second segment", READY, || {
        (allocator.status().unwrap().available > 70).then_some(())
    });
    let Closed { returned, lost, .. } = allocator.close();
    assert!(returned > 70 && lost == 0, "{returned} {lost}");
    let next = || cluster.get(0, "/v1/sequences/order").ok().json()["next"].clone();
    assert_eq!(next(), json!("61"));

    let allocator = start();
    assert_eq!(allocator.next().unwrap(), 61);
    drop(allocator);
    wait::until("the return", READY, || {
        (next() == json!("63")).then_some(())
    });
}

#[test]
fn the_example_draws_each_value_once_and_returns_the_rest() {
    let cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({}));
    let endpoints = cluster.addresses().join(",");
    let drawn = orders::run(&endpoints, 5_000).unwrap();
    assert_eq!(drawn.len(), 5_000);
    let values = drawn.iter().map(|value| *value as u64).collect();
    assert_eq!(unique(values).unwrap(), 5_000);
    // Only the rests of the two chunks are lost.
    let ticket = cluster.get(0, "/v1/sequences/order").ok().json();
    let allocated: u64 = ticket["allocated"].as_str().unwrap().parse().unwrap();
    assert!((5_000..5_000 + 2 * 64).contains(&allocated), "{allocated}");
}
