//! The client's lock guard and its exactly-once work, on real nodes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use seqd_client::{LockError, LockGuard, LockOptions, OnceError, OnceOptions, blocking};
use seqd_tests::cluster::Cluster;
use seqd_tests::generators::{rotated, runtime};

fn options() -> LockOptions {
    LockOptions {
        ttl: Duration::from_secs(3),
        wait: Some(Duration::from_secs(20)),
        ..LockOptions::of_owner("a story")
    }
}

#[test]
fn guards_on_three_nodes_hold_one_after_another_with_larger_tokens() {
    let mut cluster = Cluster::started(3);
    let (runtime, addresses) = (runtime(), cluster.addresses());
    let held = std::sync::Arc::new(AtomicU32::new(0));
    let tasks: Vec<_> = (0..6)
        .map(|at| {
            let (client, held) = (rotated(&addresses, at), std::sync::Arc::clone(&held));
            runtime.spawn(async move {
                let guard = LockGuard::acquire(&client, "shared work", options())
                    .await
                    .unwrap();
                assert_eq!(held.fetch_add(1, Ordering::SeqCst), 0, "two hold it");
                tokio::time::sleep(Duration::from_millis(300)).await;
                assert!(guard.is_held());
                held.fetch_sub(1, Ordering::SeqCst);
                let token = guard.token();
                guard.release().await.unwrap();
                token
            })
        })
        .collect();
    let leader = cluster.leader();
    cluster.node_mut(leader).kill();
    let tokens = tasks
        .into_iter()
        .map(|task| runtime.block_on(task).unwrap());
    let mut tokens: Vec<u64> = tokens.collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 6, "each grant has a token of its own");
}

#[test]
fn a_guard_without_a_runtime_renews_and_releases() {
    let cluster = Cluster::started(1);
    let client = rotated(&cluster.addresses(), 0);
    let guard = blocking::LockGuard::acquire(&client, "alone", options()).unwrap();
    let at_once = LockOptions {
        wait: Some(Duration::ZERO),
        ..options()
    };
    // Longer than the TTL, so the hold was renewed in the meantime.
    std::thread::sleep(Duration::from_secs(4));
    let refused = blocking::LockGuard::acquire(&client, "alone", at_once.clone());
    assert!(matches!(refused, Err(LockError::Held(_))), "{refused:?}");
    let token = guard.token();
    guard.check().unwrap();
    guard.release().unwrap();
    let next = blocking::LockGuard::acquire(&client, "alone", at_once).unwrap();
    assert!(next.token() > token);
}

#[test]
fn work_is_done_once_for_a_key_and_its_result_given_to_all() {
    let cluster = Cluster::started(3);
    let (runtime, addresses) = (runtime(), cluster.addresses());
    let done = std::sync::Arc::new(AtomicU32::new(0));
    let failing = OnceOptions::default();
    let failed = runtime.block_on(rotated(&addresses, 0).once::<u32, _, _>(
        "pay",
        &failing,
        |turn| async move { Err(format!("attempt {}", turn.attempt)) },
    ));
    assert!(
        matches!(&failed, Err(OnceError::Work(why)) if why == "attempt 1"),
        "{failed:?}"
    );
    let tasks: Vec<_> = (0..6)
        .map(|at| {
            let (client, done) = (rotated(&addresses, at), std::sync::Arc::clone(&done));
            runtime.spawn(async move {
                let work = async |turn: seqd_client::Turn| {
                    assert_eq!(turn.attempt, 2);
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    Ok::<_, String>(done.fetch_add(1, Ordering::SeqCst))
                };
                client
                    .once("pay", &OnceOptions::default(), work)
                    .await
                    .unwrap()
            })
        })
        .collect();
    let results: Vec<_> = tasks
        .into_iter()
        .map(|task| runtime.block_on(task).unwrap())
        .collect();
    assert_eq!(done.load(Ordering::SeqCst), 1);
    assert!(results.iter().all(|once| once.value == 0));
    assert_eq!(results.iter().filter(|once| !once.replayed).count(), 1);
    let other = OnceOptions {
        fingerprint: "something else".to_owned(),
        ..OnceOptions::default()
    };
    let refused = runtime.block_on(rotated(&addresses, 0).once::<u32, _, _>(
        "pay",
        &other,
        |_| async { Ok::<_, String>(9) },
    ));
    assert!(matches!(refused, Err(OnceError::Request(_))), "{refused:?}");
}
