//! Draws on three nodes: order over all of them, changes of leader, and a leader that no voter
//! confirms.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use openraft::entry::RaftEntry;
use seqd_state::idgen::Progression;
use seqd_state::{Command, DrawFrom, SequenceCommand, SequenceMode, SequenceName};
use seqd_store::testing::create_sequence;
use tokio::time::{timeout, timeout_at};

use super::*;
use crate::Raft;
use crate::replica::Replica;
use crate::tests::harness::{Cluster, deadline, name, wait};
use crate::tests::hung_disk::Valve;
use crate::types::{self, Member};

const ORDER: &str = "order";

fn of_order(count: u64) -> Draw {
    let from = DrawFrom::Sequence(name(ORDER));
    Draw { from, count }
}

async fn draw(raft: &Raft, count: u64) -> Result<(i64, i64), DrawError> {
    let drawn = raft
        .draw(Tenant::OPERATOR, of_order(count), deadline())
        .await?;
    Ok((drawn.range.first, drawn.range.last))
}

async fn timestamp(raft: &Raft) -> i64 {
    let from = DrawFrom::Timestamps;
    let drawn = raft.draw(Tenant::OPERATOR, Draw { from, count: 1 }, deadline());
    drawn.await.unwrap().range.first
}

/// Three nodes with an ordered sequence.
async fn ordered() -> Cluster {
    let cluster = Cluster::new(3).await;
    let create = create_sequence(ORDER, SequenceMode::Ordered, "");
    cluster
        .raft(0)
        .propose(vec![create], deadline())
        .await
        .unwrap();
    wait("every node has the sequence", || async {
        (0..3).all(|at| {
            cluster
                .raft(at)
                .state(|state| state.sequence(&name(ORDER)).is_some())
        })
    })
    .await;
    cluster
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_increase_over_all_nodes_without_a_gap() {
    let mut cluster = ordered().await;
    let mut last = 0;
    for round in 0..60 {
        let (first, end) = draw(cluster.raft(round % 3), 2).await.unwrap();
        assert_eq!((first, end), (last + 1, last + 2));
        last = end;
    }
    // Many at once, of each node: each value once, still without a gap.
    let rafts: Vec<Raft> = (0..3).map(|at| cluster.raft(at).clone()).collect();
    let draws = (0..300).map(|at| draw(&rafts[at % 3], 1));
    let drawn = join_all(draws)
        .await
        .into_iter()
        .map(|drawn| drawn.unwrap().0);
    let drawn: BTreeSet<i64> = drawn.collect();
    let expected: BTreeSet<i64> = (last + 1..=last + 300).collect();
    assert_eq!(drawn, expected);
    drop(rafts);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exhausted_sequence_voids_no_draw_of_the_same_round_while_windows_are_extended() {
    let mut cluster = ordered().await;
    let raft = cluster.raft(cluster.leader().unwrap()).clone();
    let mut create = create_sequence("end", SequenceMode::Ordered, "");
    if let Command::Sequences(SequenceCommand::Create { definition, .. }) = &mut create {
        definition.progression = Progression::new(1, 1, 1, 3, false).unwrap();
    }
    raft.propose(vec![create], deadline()).await.unwrap();
    let of_end = |count| Draw {
        from: DrawFrom::Sequence(name("end")),
        count,
    };
    let all = raft.draw(Tenant::OPERATOR, of_end(3), deadline()).await;
    assert_eq!(all.unwrap().range.last, 3);
    // Other windows are always being extended.
    let extend = |raft: Raft| async move {
        loop {
            let _alone = replica(&raft).windows.extending.lock().await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let extending = [(); 2].map(|()| tokio::spawn(extend(raft.clone())));
    wait("a window is being extended", || async {
        replica(&raft).windows.extending.try_lock().is_err()
    })
    .await;
    let draws = [of_end(1), of_order(5)];
    let drawn = round::round(raft.node(), (&draws, true), deadline(), None).await;
    let drawn = drawn.unwrap().expect("the leader draws");
    assert!(
        matches!(drawn[0], Some(Err(DrawError::Refused(_)))),
        "{drawn:?}"
    );
    let ranges = drawn[1].as_ref().map(|drawn| drawn.as_ref().unwrap().range);
    assert_eq!(ranges.map(|range| (range.first, range.last)), Some((1, 5)));
    extending.into_iter().for_each(|task| task.abort());
    assert_eq!(draw(&raft, 1).await, Ok((6, 6)));
    drop(raft);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_and_a_stop_of_the_leader_leave_no_gap() {
    let mut cluster = ordered().await;
    let leader = cluster.leader().unwrap();
    assert_eq!(draw(cluster.raft(leader), 1).await, Ok((1, 1)));
    let other = (leader + 1) % 3;
    let to = Some(cluster.spots[other].name.clone());
    cluster
        .raft(leader)
        .leader_move(to, deadline())
        .await
        .unwrap();
    assert_eq!(
        draw(cluster.raft(leader), 1).await,
        Ok((2, 2)),
        "a planned transfer left a gap"
    );

    cluster.stop(other).await;
    assert_eq!(
        draw(cluster.raft(leader), 1).await,
        Ok((3, 3)),
        "a stop left a gap"
    );
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timestamps_increase_over_all_nodes_and_changes_of_leader() {
    let mut cluster = ordered().await;
    let mut last = 0;
    for round in 0..30 {
        if round % 10 == 9 {
            let leader = cluster.leader().unwrap();
            cluster
                .raft(leader)
                .leader_move(None, deadline())
                .await
                .unwrap();
        }
        let next = timestamp(cluster.raft(round % 3)).await;
        assert!(next > last, "{next} after {last}");
        last = next;
    }
    cluster.stop_all().await;
}

/// Returns whether one round at this node draws a value.
async fn is_drawn(raft: &Raft) -> bool {
    let draws = [of_order(1)];
    let round = round::round(raft.node(), (&draws, true), deadline(), None);
    matches!(timeout_at(deadline(), round).await, Ok(Ok(Some(_))))
}

fn replica(raft: &Raft) -> &Arc<Replica> {
    raft.node().replica().unwrap()
}

/// Registers a vote for a later term, as if this node had voted for another leader.
fn promise_another(raft: &Raft) {
    let replica = replica(raft);
    let term = replica.promised.term() + 1;
    replica.promised.vote(&types::vote(term, 9, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_no_quorum_confirms_draws_nothing() {
    let mut cluster = ordered().await;
    let leader = cluster.leader().unwrap();
    draw(cluster.raft(leader), 1).await.unwrap();
    for at in (0..3).filter(|at| *at != leader) {
        cluster.stop(at).await;
    }
    // The others may have elected another leader without this node's knowledge.
    let raft = cluster.raft(leader);
    assert!(!is_drawn(raft).await, "drawn without a quorum");
    let refused = draw(raft, 1).await;
    let is_certain = matches!(
        refused,
        Err(DrawError::Propose(ProposeError::NoQuorum { .. }))
    );
    assert!(is_certain, "{refused:?}");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_voter_that_has_promised_a_later_term_confirms_nothing() {
    let mut cluster = ordered().await;
    let leader = cluster.leader().unwrap();
    let follower = (leader + 1) % 3;
    assert!(is_drawn(cluster.raft(leader)).await);
    promise_another(cluster.raft(follower));
    assert!(is_drawn(cluster.raft(leader)).await, "the third confirms");
    promise_another(cluster.raft((leader + 2) % 3));
    assert!(
        !is_drawn(cluster.raft(leader)).await,
        "drawn against promises"
    );

    // The draws of a follower do not count as its confirmation either.
    let node = cluster.raft(follower).node();
    let Route::There { node: to, addr } = route(node, deadline(), false).await else {
        panic!("the follower does not follow");
    };
    let draws = vec![of_order(1)];
    let drawn = forward::round(node, (to, &addr), (draws, true), deadline()).await;
    assert_eq!(
        drawn,
        Ok(None),
        "drawn for a follower that has voted for another leader"
    );
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_has_voted_for_another_does_not_confirm_itself() {
    let mut cluster = ordered().await;
    let leader = cluster.leader().unwrap();
    promise_another(cluster.raft(leader));
    assert!(is_drawn(cluster.raft(leader)).await, "both others confirm");
    promise_another(cluster.raft((leader + 1) % 3));
    assert!(
        !is_drawn(cluster.raft(leader)).await,
        "drawn against its own vote"
    );
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_voters_of_an_appended_membership_confirm_before_it_is_applied() {
    let mut cluster = ordered().await;
    let leader = cluster.leader().unwrap();
    let replica = replica(cluster.raft(leader));
    let nodes: BTreeMap<u64, Member> = [7, 8, 9].map(|id| (id, Member::default())).into();
    let voters = vec![nodes.keys().copied().collect()];
    let membership = types::Membership::new(voters, nodes).unwrap();
    let log_id = types::log_id(replica.promised.term(), replica.applied_index() + 1);
    let change = types::Entry::new_membership(log_id, membership);
    replica.promised.append(&change);
    assert!(
        !is_drawn(cluster.raft(leader)).await,
        "drawn with the voters of before"
    );
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_leaves_passes_the_round_on() {
    let mut cluster = ordered().await;
    let leader = cluster.leader().unwrap();
    let raft = cluster.raft(leader).clone();
    assert_eq!(draw(&raft, 1).await, Ok((1, 1)));
    let (mut last, mut left) = (1, 0);
    for _ in 0..50 {
        // The first of these runs the round. It leaves before the confirmation arrives, unless the
        // answer is faster than this task.
        let mut first = Box::pin(draw(&raft, 1));
        let mut second = Box::pin(draw(&raft, 1));
        let is_first_answered = futures_util::poll!(&mut first).is_ready();
        if is_first_answered || futures_util::poll!(&mut second).is_ready() {
            continue;
        }
        drop(first);
        left += 1;
        let (value, _) = second.await.unwrap();
        assert!(value > last, "{value} after {last}");
        last = value;
    }
    assert!(left > 0, "no caller left within its round");
    drop(raft);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_left_a_long_round_keep_their_places_and_delay_no_other() {
    let (mut cluster, valve) = on_held_disk(&[ORDER]).await;
    let draws = Draws::new(Arc::clone(cluster.raft(0).node()));
    let draw = || async {
        let place = draws.places.take(Tenant::OPERATOR, 1).unwrap();
        let place = Arc::new(place);
        draws.waiting.draw(of_order(1), deadline(), &place).await
    };
    valve.hold(true);
    let mut first = Box::pin(draw());
    assert!(futures_util::poll!(&mut first).is_pending());
    for _ in 0..ROUND {
        let mut left = Box::pin(draw());
        assert!(futures_util::poll!(&mut left).is_pending());
    }
    let mut last = Box::pin(draw());
    assert!(futures_util::poll!(&mut last).is_pending());
    let places = draws.places.used();
    valve.hold(false);
    let drawn = join_all([first, last]).await;
    assert_eq!(places, ROUND as u64 + 2);
    let is_drawn = |answer: &Answer| matches!(answer, Some(Ok(_)));
    assert!(drawn.iter().all(is_drawn), "{drawn:?}");
    assert_eq!(draws.places.used(), 0);
    cluster.stop_all().await;
}

/// A leader on a disk whose syncs can be held, with ordered sequences of these names.
async fn on_held_disk(names: &[&str]) -> (Cluster, Arc<Valve>) {
    let valve = Arc::<Valve>::default();
    let cluster = Cluster::on_disk(&valve).await;
    let create = |name: &&str| create_sequence(name, SequenceMode::Ordered, "");
    let commands = names.iter().map(create).collect();
    let created = cluster.raft(0).propose(commands, deadline()).await;
    created.unwrap();
    (cluster, valve)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_end_during_an_extension_use_up_no_values() {
    let (mut cluster, valve) = on_held_disk(&[ORDER]).await;
    valve.hold(true);
    let mut refused = Vec::new();
    for _ in 0..3 {
        let soon = Instant::now() + Duration::from_millis(50);
        let drawn = cluster.raft(0).draw(Tenant::OPERATOR, of_order(1), soon);
        refused.push(drawn.await);
    }
    valve.hold(false);
    assert!(refused.iter().all(Result::is_err), "{refused:?}");
    let first = draw(cluster.raft(0), 1).await;
    assert_eq!(
        first,
        Ok((1, 1)),
        "values were granted to requests that ended"
    );
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draw_that_waits_for_an_extension_delays_no_other() {
    let (mut cluster, valve) = on_held_disk(&[ORDER, "empty"]).await;
    let raft = cluster.raft(0).clone();
    assert_eq!(draw(&raft, 1).await, Ok((1, 1)));
    valve.hold(true);
    let from = DrawFrom::Sequence(name("empty"));
    let of_empty = raft.draw(Tenant::OPERATOR, Draw { from, count: 1 }, deadline());
    let mut of_empty = Box::pin(of_empty);
    let early = timeout(Duration::from_millis(100), &mut of_empty).await;
    let other = timeout(Duration::from_secs(10), draw(&raft, 1)).await;
    valve.hold(false);
    assert!(early.is_err(), "{early:?}");
    assert_eq!(
        other,
        Ok(Ok((2, 2))),
        "a draw waited for another's extension"
    );
    of_empty.await.unwrap();
    drop(raft);
    cluster.stop_all().await;
}

/// The last values are granted in the log, and the window does not have them yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sequence_is_not_exhausted_while_its_window_is_extended() {
    let mut cluster = ordered().await;
    let raft = cluster.raft(cluster.leader().unwrap()).clone();
    let extending = replica(&raft).windows.extending.lock().await;
    let order = raft.state(|state| state.sequence(&name(ORDER)).cloned());
    let mut definition = order.unwrap().definition;
    definition.progression = Progression::new(1, 1, 1, 8, false).unwrap();
    let short: SequenceName = name("short");
    let commands = [
        SequenceCommand::Create {
            name: short.clone(),
            definition,
            tenant: Tenant::OPERATOR,
        },
        SequenceCommand::GrantWindow {
            name: short.clone(),
            size: 8,
            after: None,
        },
    ];
    let commands = commands.map(Command::Sequences).into();
    raft.propose(commands, deadline()).await.unwrap();
    let from = DrawFrom::Sequence(short);
    let draw = || {
        let (from, count) = (from.clone(), 1);
        raft.draw(Tenant::OPERATOR, Draw { from, count }, deadline())
    };
    let early = timeout(Duration::from_millis(300), draw()).await;
    assert!(early.is_err(), "refused during an extension: {early:?}");
    drop(extending);
    let refused = draw().await.unwrap_err();
    assert!(matches!(refused, DrawError::Refused(_)), "{refused:?}");
    drop(raft);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_reach_the_caller_through_a_follower() {
    let mut cluster = ordered().await;
    let follower = (0..3).find(|at| Some(*at) != cluster.leader()).unwrap();
    let missing = DrawFrom::Sequence("missing".parse::<SequenceName>().unwrap());
    let missing = Draw {
        from: missing,
        count: 1,
    };
    let refused = cluster
        .raft(follower)
        .draw(Tenant::OPERATOR, missing, deadline())
        .await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.to_string(), "there is no sequence missing");

    draw(cluster.raft(follower), 1).await.unwrap();
    let advance = SequenceCommand::Advance {
        name: name(ORDER),
        to: 50_000,
    };
    let advance = Command::Sequences(advance);
    cluster
        .raft(follower)
        .propose(vec![advance], deadline())
        .await
        .unwrap();
    assert_eq!(draw(cluster.raft(follower), 1).await, Ok((50_000, 50_000)));
    cluster.stop_all().await;
}

#[test]
fn a_draw_that_a_stopping_leader_drops_does_not_say_that_the_peer_stops() {
    for error in [ProposeError::Stopping, ProposeError::NodeRemoved] {
        let answer = response(Some(Err(DrawError::Propose(error))));
        let is_no_quorum = matches!(answer, DrawResponse::Failed(ProposeError::NoQuorum { .. }));
        assert!(is_no_quorum, "the peer's client is sent away");
    }
}
