//! A rolling upgrade to the next version, one node at a time, under load.

use seqd_tests::binary;
use seqd_tests::checkers::{linearizable, unique};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::history::{History, Outcome, Timeline, reasons, tally};
use seqd_tests::wait;
use seqd_tests::workload::{Route, Workload};
use serde_json::{Value, json};

/// Refusals that a client may receive while its node is being replaced.
const WHILE_A_NODE_IS_AWAY: [&str; 8] = [
    "connection refused",
    "no-quorum",
    "no-worker-yet",
    "workers-exhausted",
    "clock-behind",
    "clock-skewed",
    "draining",
    "overloaded",
];

/// The layout that only the next version has.
const NEXT_PRESET: &str = "next";

fn level(cluster: &Cluster, index: usize) -> Option<u64> {
    cluster.node(index).cluster_view()?["level"].as_u64()
}

fn layouts(cluster: &Cluster, index: usize) -> Vec<String> {
    let page = cluster.get(index, "/v1/layouts").ok().json();
    let items = page["items"].as_array().expect("a page").clone();
    let name = |item: &Value| item["name"].as_str().expect("a name").to_owned();
    items.iter().map(name).collect()
}

/// Asserts that each request was answered, or refused without an effect.
#[track_caller]
fn assert_nothing_was_lost<T>(what: &str, history: &History<T>) {
    println!("{what}: {:?} {:?}", tally(history), reasons(history));
    for op in history {
        match &op.outcome {
            Outcome::Ok(_) => {}
            Outcome::Refused(code) => assert!(
                WHILE_A_NODE_IS_AWAY.contains(&code.as_str()),
                "{what}: refused with {code}"
            ),
            Outcome::Unknown(why) => panic!("{what}: unknown outcome: {why}"),
        }
    }
}

fn replace(cluster: &mut Cluster, index: usize) {
    let node = cluster.node_mut(index);
    let status = node.stop();
    assert!(status.success(), "{}", node.tail());
    node.set_binary(Some(binary::seqd_next()));
    node.start();
    cluster.wait_ready_of(&[index], READY);
}

#[test]
fn a_rolling_upgrade_raises_the_level_only_when_all_can_and_nothing_is_lost() {
    binary::seqd_next();
    let mut cluster = Cluster::planned(3).patient().ready().with_order();
    cluster.create_sequence(0, "invoice", &json!({}));
    let before = wait::until("this version's level", READY, || {
        let levels: Vec<u64> = (0..3).filter_map(|node| level(&cluster, node)).collect();
        (levels.len() == 3 && levels.iter().all(|one| *one == levels[0])).then(|| levels[0])
    });
    let timeline = Timeline::begin();
    let load = |clients, count| cluster.load(clients, Route::Roaming, count, 5);
    let ids = Workload::ids(load(3, 10), timeline);
    let strict = Workload::next(load(3, 1), timeline, "order");
    let segments = Workload::next(load(3, 7), timeline, "invoice");
    strict.wait_for(50, READY);

    let leader = cluster.leader();
    let order = [(leader + 1) % 3, (leader + 2) % 3, leader];
    for (done, index) in order.into_iter().enumerate() {
        for node in 0..3 {
            let level = wait::until("a view", READY, || level(&cluster, node));
            assert_eq!(level, before, "after {done} of 3");
            assert!(!layouts(&cluster, node).contains(&NEXT_PRESET.to_owned()));
        }
        replace(&mut cluster, index);
        strict.wait_for(50, READY);
        segments.wait_for(50, READY);
        cluster.wait_same_state(&[0, 1, 2]);
    }
    wait::until("the next level at every node", READY, || {
        (0..3)
            .all(|node| level(&cluster, node) == Some(before + 1))
            .then_some(())
    });
    for node in 0..3 {
        assert!(layouts(&cluster, node).contains(&NEXT_PRESET.to_owned()));
        let minted = cluster.get(node, &format!("/v1/id?layout={NEXT_PRESET}"));
        minted.ok();
    }
    strict.wait_for(50, READY);
    cluster.wait_same_state(&[0, 1, 2]);

    let (ids, strict, segments) = (ids.finish(), strict.finish(), segments.finish());
    assert_nothing_was_lost("ids", &ids);
    assert_nothing_was_lost("strict values", &strict);
    assert_nothing_was_lost("segment values", &segments);
    unique::numbers(&ids).unwrap();
    unique::numbers(&segments).unwrap();
    linearizable::strict(&strict).unwrap();

    older_program_is_refused(&mut cluster, order[0]);
}

/// The older program can no longer take part, and its refusal leaves the folder unchanged.
fn older_program_is_refused(cluster: &mut Cluster, index: usize) {
    let node = cluster.node_mut(index);
    node.stop();
    node.set_binary(None);
    node.start();
    let status = node.exit_within(READY);
    assert_eq!(status.code(), Some(9), "{}", node.tail());
    let last = node.last_line();
    assert!(last.contains("code=newer-format"), "{}", node.tail());
    assert!(
        node.stderr().contains("install the newer program again"),
        "{}",
        node.tail()
    );
    node.set_binary(Some(binary::seqd_next()));
    node.start();
    cluster.wait_ready();
    cluster.next(index, "order", 1);
    cluster.wait_same_state(&[0, 1, 2]);
}
