//! A wrong clock does not affect the nodes with right clocks: its leader transfers leadership,
//! stamps stay near the time of the majority, and windows are granted.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use seqd_state::idgen::{Agreement, Layout, Standing, WallClock, WallMs};
use seqd_state::{Command, Outcome, Refusal, TakeLease, WorkerCommand, WorkerOutcome};
use tokio::time::{Instant, sleep};

use super::nodes::Cluster;
use super::scenarios::{PATIENCE, Scene, leader_of_all_but, next, raft};
use crate::clocks::Clocks;
use crate::{ProposeError, Raft};

/// Time within which a leader with a wrong clock no longer leads.
const HANDED_OVER: Duration = Duration::from_secs(3);

/// Steps of a clock in both directions, in milliseconds: just over the limit, seconds, an hour, ten
/// years.
const STEPS_MS: [i64; 4] = [1_100, 3_000, 3_600_000, 315_360_000_000];

/// Requests a window through this node by its own clock.
async fn window(cluster: &Arc<Cluster>, node: usize) -> Result<WorkerOutcome, Refusal> {
    let outcome = try_window(cluster, node).await;
    match outcome.expect("an outcome").remove(0) {
        Outcome::Workers(outcome) => Ok(outcome),
        Outcome::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

async fn try_window(cluster: &Arc<Cluster>, node: usize) -> Result<Vec<Outcome>, ProposeError> {
    let layout = Layout::preset("default").expect("a preset");
    let wall = cluster.spots[node].clock.wall();
    let window_ms = raft(cluster, node).state(|state| state.settings().map(|it| it.window_ms));
    let window_ms = window_ms.expect("a founded cluster");
    let lease = Command::Workers(WorkerCommand::TakeLease(TakeLease {
        tenant: seqd_state::Tenant::OPERATOR,
        layout: layout.name().to_owned(),
        owner: format!("owner-{node}"),
        node: None,
        boot: 0,
        fence: layout.fence_at(WallMs(wall.0 + window_ms)),
        datacenter: None,
    }));
    let asked = cluster.ask(node, PATIENCE, |raft: Raft| async move {
        let deadline = Instant::now() + Duration::from_secs(3);
        raft.propose(vec![lease], deadline).await
    });
    asked.await.expect("the node runs")
}

/// The stamp of the last entry minus the true time, in milliseconds.
fn stamped_ahead_ms(cluster: &Cluster, right: usize) -> i64 {
    let stamped = raft(cluster, right).state(|state| state.last_wall_ms().0);
    stamped as i64 - cluster.spots[right].clock.wall().0 as i64
}

fn standing(cluster: &Cluster, of: usize, seen_by: usize) -> Standing {
    let node = raft(cluster, of).status().node_id.expect("a member");
    let clocks = raft(cluster, seen_by).status().clocks;
    let clock = clocks.get(&node);
    clock.map_or(Standing::Unknown, |clock| clock.standing)
}

/// Waits until a node finds another's clock wrong. Returns by how many milliseconds it is ahead.
async fn named_by(cluster: &Cluster, wrong: usize, seen_by: usize, until: Instant) -> i64 {
    loop {
        if let Standing::Wrong { ahead_ms } = standing(cluster, wrong, seen_by) {
            return ahead_ms;
        }
        assert!(Instant::now() < until, "n{} does not notice", seen_by + 1);
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until pings have been exchanged, so that every clock is known.
async fn clocks_known(cluster: &Cluster, nodes: usize) {
    let until = Instant::now() + PATIENCE;
    let is_known = |seen_by| {
        let mut all = 0..nodes;
        all.all(|of| standing(cluster, of, seen_by) == Standing::Right)
    };
    while !(0..nodes).all(is_known) {
        assert!(Instant::now() < until, "the clocks are not known");
        sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn a_leader_whose_clock_is_set_hands_over_without_other_effects() {
    for nodes in [3, 5] {
        let scene = Scene::near(nodes, nodes as u64);
        scene.play(async |cluster| {
            clocks_known(cluster, nodes).await;
            for step_ms in STEPS_MS.into_iter().flat_map(|ms| [ms, -ms]) {
                let wrong = leader_of_all_but(cluster, None).await;
                cluster.spots[wrong].clock.step(step_ms);
                let began = Instant::now();
                let right = (wrong + 1) % nodes;
                while leader_of_all_but(cluster, None).await == wrong {
                    // The leader continues for a while with the time of the majority.
                    assert!(began.elapsed() < HANDED_OVER, "{step_ms} ms: it leads on");
                    let value = next(cluster, right).await;
                    assert!(matches!(value, Some(Ok(_))), "{value:?}");
                    let granted = window(cluster, right).await;
                    assert!(granted.is_ok(), "{step_ms} ms: {granted:?}");
                    let ahead_ms = stamped_ahead_ms(cluster, right);
                    assert!(
                        ahead_ms.abs() <= 1_000,
                        "{step_ms} ms: stamped {ahead_ms} ms off"
                    );
                    sleep(Duration::from_millis(50)).await;
                }
                println!(
                    "{nodes} nodes, {step_ms} ms: handed over after {:?}",
                    began.elapsed()
                );
                for seen_by in 0..nodes {
                    let ahead_ms = named_by(cluster, wrong, seen_by, began + HANDED_OVER).await;
                    assert!(
                        ahead_ms.abs_diff(step_ms) <= 100,
                        "{ahead_ms} for {step_ms}"
                    );
                    assert_eq!(standing(cluster, right, seen_by), Standing::Right);
                }
                let granted = window(cluster, right).await;
                assert!(granted.is_ok(), "{step_ms} ms: {granted:?}");
                cluster.spots[wrong].clock.step(-step_ms);
                clocks_known(cluster, nodes).await;
                let granted = window(cluster, wrong).await;
                assert!(granted.is_ok(), "its clock is right again: {granted:?}");
            }
        });
    }
}

#[test]
fn a_follower_whose_clock_is_set_leaves_the_leader_where_it_is() {
    let scene = Scene::near(3, 1);
    scene.play(async |cluster| {
        clocks_known(cluster, scene.nodes).await;
        let leader = leader_of_all_but(cluster, None).await;
        for step_ms in STEPS_MS.into_iter().flat_map(|ms| [ms, -ms]) {
            let wrong = (leader + 1) % scene.nodes;
            cluster.spots[wrong].clock.step(step_ms);
            sleep(Duration::from_secs(5)).await;
            assert_eq!(leader_of_all_but(cluster, None).await, leader);
            assert!(matches!(
                standing(cluster, wrong, wrong),
                Standing::Wrong { .. }
            ));
            assert!(window(cluster, leader).await.is_ok());
            cluster.spots[wrong].clock.step(-step_ms);
            clocks_known(cluster, scene.nodes).await;
        }
    });
}

#[test]
fn without_a_majority_that_agrees_nobody_is_called_wrong_and_stamps_go_on_from_the_last() {
    let scene = Scene::near(3, 1);
    scene.play(async |cluster| {
        clocks_known(cluster, scene.nodes).await;
        let leader = leader_of_all_but(cluster, None).await;
        let (off, gone) = ((leader + 1) % 3, (leader + 2) % 3);
        cluster.kill(gone, false);
        // A measured clock counts for as long as a window.
        sleep(Duration::from_secs(31)).await;
        // The leader's clock is the wrong one, and neither node can determine that.
        cluster.spots[leader].clock.step(3_600_000);
        sleep(Duration::from_secs(3)).await;
        for seen_by in [leader, off] {
            assert_eq!(standing(cluster, seen_by, seen_by), Standing::Split);
            let agreement = raft(cluster, seen_by).status().agreement;
            assert_eq!(agreement, Some(Agreement::Split));
        }
        assert!(matches!(next(cluster, off).await, Some(Ok(_))));
        let ahead_ms = stamped_ahead_ms(cluster, off);
        assert!(ahead_ms.abs() <= 1_000, "stamped {ahead_ms} ms off");
        assert_eq!(leader_of_all_but(cluster, None).await, leader);
    });
}

/// A stopped clock and a fast clock are each wrong once they are off by more than the limit.
#[test]
fn a_clock_that_drifts_is_noticed_when_it_is_off_by_the_limit() {
    let scene = Scene::near(3, 1);
    scene.play(async |cluster| {
        clocks_known(cluster, scene.nodes).await;
        for (ppm, shown) in [(-1_000_000, None), (100_000, None), (500, Some(500.0))] {
            let wrong = leader_of_all_but(cluster, None).await;
            cluster.spots[wrong].clock.drift(ppm);
            let began = Instant::now();
            let within = Duration::from_secs_f64(0.6 * 1e6 / (ppm as f64).abs()) + HANDED_OVER;
            while leader_of_all_but(cluster, None).await == wrong {
                assert!(began.elapsed() < within, "{ppm} ppm: it leads on");
                sleep(Duration::from_millis(50)).await;
            }
            println!("{ppm} ppm: handed over after {:?}", began.elapsed());
            if let Some(shown) = shown {
                let node = raft(cluster, wrong).status().node_id.expect("a member");
                let right = leader_of_all_but(cluster, None).await;
                let drift = raft(cluster, right).status().clocks[&node].drift_ppm;
                let drift = drift.expect("known after a minute");
                assert!((drift - shown).abs() < 50.0, "{drift} ppm");
            }
            cluster.spots[wrong].clock.set_right();
            clocks_known(cluster, scene.nodes).await;
        }
    });
}

#[test]
fn of_five_two_may_be_wrong_and_a_right_one_leads() {
    let scene = Scene::near(5, 1);
    scene.play(async |cluster| {
        clocks_known(cluster, scene.nodes).await;
        for (leader_ms, other_ms) in [(3_600_000, 3_600_000), (-3_000, 60_000), (1_100, -1_100)] {
            let leader = leader_of_all_but(cluster, None).await;
            let other = (leader + 1) % scene.nodes;
            cluster.spots[other].clock.step(other_ms);
            cluster.spots[leader].clock.step(leader_ms);
            let until = Instant::now() + HANDED_OVER;
            while [leader, other].contains(&leader_of_all_but(cluster, None).await) {
                assert!(Instant::now() < until, "{leader_ms} ms: a wrong one leads");
                sleep(Duration::from_millis(50)).await;
            }
            for right in (0..scene.nodes).filter(|node| ![leader, other].contains(node)) {
                let granted = window(cluster, right).await;
                assert!(granted.is_ok(), "{leader_ms} ms: {granted:?}");
                named_by(cluster, leader, right, until).await;
                named_by(cluster, other, right, until).await;
            }
            cluster.spots[leader].clock.set_right();
            cluster.spots[other].clock.set_right();
            clocks_known(cluster, scene.nodes).await;
        }
    });
}

fn refused_for_its_clock<T: std::fmt::Debug>(granted: &Result<T, ProposeError>) {
    let is_refused = |error: &ProposeError| match error {
        ProposeError::NoQuorum { detail } => detail.contains("its clock"),
        _ => false,
    };
    assert!(
        granted.as_ref().is_err_and(is_refused),
        "a window was granted: {granted:?}"
    );
}

/// The state after a start: too few clocks are known.
#[test]
fn a_leader_that_does_not_know_its_clock_grants_everything_except_windows() {
    let scene = Scene::near(3, 1);
    scene.play(async |cluster| {
        clocks_known(cluster, scene.nodes).await;
        let leader = leader_of_all_but(cluster, None).await;
        let leads = raft(cluster, leader);
        let context = &leads.node().context;
        // The clocks are compared again within 250 ms.
        let forget = || context.set_clocks(Clocks::unknown(context.clock_since));
        forget();
        let granted = try_window(cluster, leader).await;
        refused_for_its_clock(&granted);
        forget();
        assert!(matches!(next(cluster, leader).await, Some(Ok(_))));
        clocks_known(cluster, scene.nodes).await;
        assert!(window(cluster, leader).await.is_ok());
    });
}

/// Requests that are sent at once form one group, in the leader's log or in a message to it.
#[test]
fn a_window_that_is_not_granted_yet_keeps_nothing_else_waiting() {
    let scene = Scene::near(3, 1);
    scene.play(async |cluster| {
        clocks_known(cluster, scene.nodes).await;
        let leader = leader_of_all_but(cluster, None).await;
        let leads = raft(cluster, leader);
        let context = &leads.node().context;
        for through in [leader, (leader + 1) % scene.nodes] {
            context.set_clocks(Clocks::unknown(context.clock_since));
            let others = join_all((0..4).map(|_| next(cluster, through)));
            let (before, granted, behind) =
                tokio::join!(next(cluster, through), try_window(cluster, through), others,);
            refused_for_its_clock(&granted);
            for value in behind.into_iter().chain([before]) {
                assert!(matches!(value, Some(Ok(_))), "through {through}: {value:?}");
            }
            clocks_known(cluster, scene.nodes).await;
        }
    });
}
