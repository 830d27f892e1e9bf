//! Tests the simulation itself: each test removes a guard, and the check for that guard must then
//! fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seqd_guards::{Guard, take_out};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::clients::{self, Habit};
use super::history;
use super::lost_leaders::{Loss, give_back, lose, value};
use super::minters::Minting;
use super::net::{LAN, Link};
use super::nodes::Cluster;
use super::record::Violation;
use super::run::equal_ends;
use super::scenarios::{Scene, leader_of_all_but, next, raft, take_one};
use crate::proposer::entry;

/// Plays the scenario with the guard and without it, and asserts that only the second run fails.
fn is_caught_by(check: &str, guard: Guard, play: impl Fn() -> Result<(), Violation>) {
    assert_eq!(play(), Ok(()), "with {guard:?}");
    take_out(Some(guard));
    let found = play();
    take_out(None);
    let violation = found.expect_err("the guard is not missed");
    println!("without {guard:?}: {violation:?}");
    assert_eq!(violation.check, check, "{violation:?}");
}

#[test]
fn a_node_that_does_not_ask_first_raises_the_term_alone() {
    is_caught_by("a node alone raises no term", Guard::PreVote, || {
        Scene::near(3, 1).try_play(async |cluster| {
            let leader = leader_of_all_but(cluster, None).await;
            let term = raft(cluster, leader).status().term;
            let alone = (leader + 1) % 3;
            lose(cluster, alone, Loss::Cut);
            sleep(Duration::from_secs(10)).await;
            let raised = raft(cluster, alone).status().term;
            if raised > term {
                let what = format!("n{} went from term {term} to {raised}", alone + 1);
                return Err(Violation::new("a node alone raises no term", what));
            }
            Ok(())
        })
    });
}

/// Some clients keep using the leader while it is cut off; others use the nodes that elect a new
/// leader.
async fn two_sides(scene: &Scene, cluster: &Arc<Cluster>) -> Result<(), Violation> {
    for round in 0..4 {
        let leader = leader_of_all_but(cluster, None).await;
        let over = Arc::new(AtomicBool::new(false));
        let mut staying = JoinSet::new();
        for number in 0..6 {
            let habit = Habit {
                home: Some((leader + number % 2) % scene.nodes),
                pause: 10,
                only_reads: number < 2,
                only_draws: number == 2 || number == 3,
            };
            let (cluster, over) = (Arc::clone(cluster), Arc::clone(&over));
            let seed = scene.seed + 10 * round + number as u64;
            staying.spawn(clients::live(cluster, number, seed, move |_| habit, over));
        }
        sleep(Duration::from_millis(500)).await;
        lose(cluster, leader, Loss::Cut);
        sleep(Duration::from_millis(1_500)).await;
        give_back(scene, cluster, leader).await;
        over.store(true, Ordering::Relaxed);
        while staying.join_next().await.is_some() {}
    }
    leader_of_all_but(cluster, None).await;
    let ends = equal_ends(cluster).await?;
    history::check(&cluster.record.ops(), &ends)
}

#[test]
fn a_read_that_nobody_confirmed_is_of_the_past() {
    is_caught_by("linearizable", Guard::ReadConfirmed, || {
        let scene = Scene::near(3, 2);
        scene.try_play(async |cluster| two_sides(&scene, cluster).await)
    });
}

#[test]
fn a_value_that_nobody_confirmed_is_out_of_order() {
    is_caught_by("linearizable", Guard::DrawConfirmed, || {
        let scene = Scene::near(3, 2);
        scene.try_play(async |cluster| two_sides(&scene, cluster).await)
    });
}

/// A leader transfers leadership away and back, and then proposes an entry under its first
/// leadership.
async fn stamped_before(cluster: &Arc<Cluster>) -> Result<(), Violation> {
    let leader = leader_of_all_but(cluster, None).await;
    let asked = cluster.ask(leader, Duration::from_secs(60), |raft| async move {
        let until = |seconds| Instant::now() + Duration::from_secs(seconds);
        let node = raft.node();
        let replica = node.replica().expect("it runs");
        let stamped_under = replica.leading().expect("it leads");
        for to in [(leader + 1) % 3, leader] {
            let to = Some(format!("n{}", to + 1));
            while raft.leader_move(to.clone(), until(5)).await.is_err() {
                sleep(Duration::from_millis(100)).await;
            }
        }
        while replica.leading().is_none() {
            sleep(Duration::from_millis(10)).await;
        }
        let commands = vec![take_one()];
        entry::propose_as(&node.context, replica, stamped_under, commands).await
    });
    match asked.await {
        Some(None) => Ok(()),
        other => Err(Violation::new(
            "proposed under the leadership that stamped it",
            format!("{other:?}"),
        )),
    }
}

#[test]
fn an_entry_of_a_former_leadership_is_not_proposed() {
    let check = "proposed under the leadership that stamped it";
    is_caught_by(check, Guard::SameLeadership, || {
        Scene::near(3, 3).try_play(async |cluster| stamped_before(cluster).await)
    });
}

#[test]
fn a_log_that_is_purged_too_far_cannot_replace_a_damaged_snapshot() {
    is_caught_by("nodes go on", Guard::PurgeClamp, || {
        let scene = Scene {
            snapshot_every: 100,
            ..Scene::near(3, 4)
        };
        scene.try_play(async |cluster| {
            for _ in 0..450 {
                value(cluster, 0).await;
            }
            // Snapshots and purges of the log happen meanwhile.
            sleep(Duration::from_secs(2)).await;
            cluster.kill(1, false);
            assert!(cluster.damage_newest_snapshot(1), "two are kept");
            scene.start(cluster, 1).await;
            if cluster.process(1).is_none() {
                return Ok(());
            }
            sleep(Duration::from_secs(5)).await;
            cluster.look();
            equal_ends(cluster).await.map(|_| ())
        })
    });
}

/// All nodes lose their power right after values were returned.
async fn told_before_the_power_is_cut(
    scene: &Scene,
    cluster: &Arc<Cluster>,
) -> Result<(), Violation> {
    for _ in 0..4 {
        let leader = leader_of_all_but(cluster, None).await;
        // Everything before is synced.
        sleep(Duration::from_secs(2)).await;
        let told = value(cluster, leader).await;
        (0..scene.nodes).for_each(|node| cluster.kill(node, true));
        for node in 0..scene.nodes {
            scene.start(cluster, node).await;
        }
        let leader = leader_of_all_but(cluster, None).await;
        let next = value(cluster, leader).await;
        if next <= told {
            let what = format!("{next} after {told} was told");
            return Err(Violation::new("acknowledged is kept", what));
        }
    }
    Ok(())
}

#[test]
fn entries_that_count_before_they_are_synced_are_replaced() {
    is_caught_by("equal states", Guard::EntriesSynced, || {
        let scene = Scene {
            sync: Duration::from_millis(50),
            ..Scene::near(3, 5)
        };
        scene.try_play(async |cluster| told_before_the_power_is_cut(&scene, cluster).await)
    });
}

/// The connection breaks while a follower's request for a value is in flight, each time a little
/// later.
async fn answers_get_lost(cluster: &Arc<Cluster>) -> Result<(), Violation> {
    let leader = leader_of_all_but(cluster, None).await;
    let asked = (leader + 1) % 3;
    let mut last = value(cluster, asked).await;
    for after_ms in (0..60).step_by(3) {
        let break_off = async {
            sleep(Duration::from_millis(after_ms)).await;
            cluster.net.reset(leader, asked);
        };
        let (answer, ()) = tokio::join!(biased; next(cluster, asked), break_off);
        // Of two values, one belongs to the answered request, and the other to none.
        if let Some(Ok(value)) = answer
            && value != last + 1
        {
            let what = format!("{value} after {last}, broken off after {after_ms} ms");
            return Err(Violation::new("carried out once", what));
        }
        leader_of_all_but(cluster, None).await;
        last = value(cluster, leader).await;
    }
    Ok(())
}

#[test]
fn a_command_that_is_proposed_again_is_applied_twice() {
    is_caught_by("carried out once", Guard::UnknownStaysUnknown, || {
        let scene = Scene {
            link: Link {
                delay: Duration::from_millis(10),
                ..LAN
            },
            ..Scene::near(3, 6)
        };
        scene.try_play(async |cluster| answers_get_lost(cluster).await)
    });
}

/// One node is cut off for longer than its window. The record has the IDs that it minted.
fn minted_when_cut_off(minting: Minting) -> Result<(), Violation> {
    let scene = Scene::near(3, 7);
    scene.try_play(async |cluster| {
        cluster.set_minting(minting);
        for node in 0..scene.nodes {
            cluster.kill(node, false);
            scene.start(cluster, node).await;
        }
        leader_of_all_but(cluster, None).await;
        sleep(Duration::from_secs(5)).await;
        let cut = (leader_of_all_but(cluster, None).await + 1) % 3;
        lose(cluster, cut, Loss::Cut);
        sleep(Duration::from_secs(8)).await;
        give_back(&scene, cluster, cut).await;
        sleep(Duration::from_secs(5)).await;
        assert!(cluster.record.ids() > 100, "nodes mint");
        cluster.record.violation().map_or(Ok(()), Err)
    })
}

#[test]
fn a_node_that_mints_before_the_fence_is_committed_leaves_its_window() {
    assert_eq!(minted_when_cut_off(Minting::AsNodesDo), Ok(()));
    let found = minted_when_cut_off(Minting::BeforeCommit);
    let violation = found.expect_err("the planted fault shows");
    assert_eq!(violation.check, "IDs are in their committed window");
}
