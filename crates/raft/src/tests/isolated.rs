//! A leader that no other node reaches: what waits for it is answered at once, and what was proposed is
//! never proposed again.

use std::time::Duration;

use futures_util::future::join_all;
use seqd_state::{Command, NextRequest, Outcome, SequenceCommand, SequenceOutcome};
use tokio::time::{Instant, sleep};

use super::cut::cluster;
use super::harness::{name, wait};
use crate::ProposeError;

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

fn request() -> Vec<Command> {
    let name = name("orders");
    let next = NextRequest { name, count: 1 };
    vec![Command::Sequences(SequenceCommand::Next(next))]
}

fn value(outcomes: &[Outcome]) -> i64 {
    match outcomes {
        [Outcome::Sequences(SequenceOutcome::Next(grant))] => grant.ranges[0].first,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_isolated_leader_frees_its_queue_and_answers_at_once() {
    let (mut cluster, cut) = cluster().await;
    let isolated = cluster.leader().expect("there is a leader");
    let before = value(
        &cluster
            .raft(isolated)
            .propose(request(), Instant::now() + PATIENCE)
            .await
            .unwrap(),
    );
    cut.lock()
        .unwrap()
        .insert(cluster.spots[isolated].addr.clone());
    let began = Instant::now();
    // One after another, so that the slots are taken by the first ones and the rest queues up.
    let asked = (0..40u32).map(|turn| {
        let raft = cluster.raft(isolated).clone();
        async move {
            sleep(Duration::from_millis(5) * turn).await;
            raft.propose(request(), Instant::now() + PATIENCE).await
        }
    });
    let answers = join_all(asked).await;
    // An election timeout is 0.8 s, after which the contact is lost.
    assert!(began.elapsed() < PATIENCE / 4, "{:?}", began.elapsed());
    let of = |is: fn(&ProposeError) -> bool| {
        let refused = answers.iter().filter_map(|answer| answer.as_ref().err());
        refused.filter(|error| is(error)).count()
    };
    let unknown = of(|error| matches!(error, ProposeError::OutcomeUnknown { .. }));
    let refused = of(|error| matches!(error, ProposeError::NoQuorum { .. }));
    assert_eq!(unknown + refused, 40, "{answers:?}");
    assert!(unknown > 0 && refused > 0, "{answers:?}");
    for _ in 0..5 {
        let asked = Instant::now();
        let answer = cluster
            .raft(isolated)
            .propose(request(), asked + PATIENCE)
            .await;
        assert!(
            matches!(answer, Err(ProposeError::NoQuorum { .. })),
            "{answer:?}"
        );
        assert!(asked.elapsed() < PATIENCE / 20, "{:?}", asked.elapsed());
    }
    let other = (isolated + 1) % 3;
    let asked = cluster
        .raft(other)
        .propose(request(), Instant::now() + PATIENCE);
    let after = value(&asked.await.unwrap());
    assert_eq!(
        after,
        before + 1,
        "nothing of the isolated leader was committed"
    );
    cut.lock().unwrap().clear();
    wait("the old leader follows", || async {
        let leader = cluster.raft(isolated).status().leader;
        leader.is_some() && leader != cluster.raft(isolated).status().node_id
    })
    .await;
    for (through, expected) in [(isolated, after + 1), (other, after + 2)] {
        let asked = cluster
            .raft(through)
            .propose(request(), Instant::now() + PATIENCE);
        let value = value(&asked.await.unwrap());
        assert_eq!(value, expected, "nothing unknown was proposed again");
    }
    cluster.stop_all().await;
}
