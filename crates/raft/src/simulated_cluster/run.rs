//! One run: a cluster is founded, its faults are injected, all faults are healed, and the cluster
//! must recover.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seqd_disk::simulated::Dice;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::clients::{self, Habit, ORDERED, SEQUENCES, STRICT, TIMESTAMPS, create};
use super::history::{self, End};
use super::nodes::Cluster;
use super::plan::{self, Plan};
use super::record::{Record, Violation};
use crate::{Raft, Role};

/// Time limit for the founding of a cluster.
const FOUNDED_WITHIN: Duration = Duration::from_secs(30);

/// Time after the last fault within which every node must accept writes and answer reads, with one
/// state.
const WELL_WITHIN: Duration = Duration::from_secs(20);

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) seed: u64,
    pub(super) violation: Option<Violation>,
    pub(super) lines: Vec<String>,
    /// A hash of all bytes between nodes, and of their times.
    pub(super) delivered: u64,
    pub(super) bytes: u64,
    /// Virtual time.
    pub(super) lasted: Duration,
    /// Time from the end of the faults until the cluster had recovered.
    pub(super) healed: Duration,
    pub(super) ops: usize,
    /// IDs that the nodes minted.
    pub(super) ids: usize,
    pub(super) terms: u64,
    pub(super) entries: u64,
}

/// Runs a future in virtual time.
pub(super) fn in_virtual_time<T>(life: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let Ok(runtime) = runtime else {
        unreachable!("a runtime without I/O can be built");
    };
    runtime.block_on(life)
}

pub(super) fn run(seed: u64, plan: &Plan) -> Run {
    let plan = Arc::new(plan.clone());
    in_virtual_time(async {
        let record = Record::new();
        let mut dice = Dice::new(seed ^ 0x5eed);
        let sizes = (plan.founders, plan.others);
        let cluster = Cluster::new(dice.roll(), sizes, plan.snapshot_every, &record);
        let life = async {
            let lived = live(&cluster, &plan, &mut dice).await;
            lived.unwrap_or_else(|violation| {
                record.violate(violation);
                Duration::ZERO
            })
        };
        let watch = async {
            while record.violation().is_none() {
                sleep(Duration::from_millis(20)).await;
                cluster.look();
            }
            Duration::ZERO
        };
        let healed = tokio::select! {
            biased;
            healed = life => healed,
            healed = watch => healed,
        };
        let (delivered, bytes) = cluster.net.summary();
        let (terms, entries) = record.extent();
        let run = Run {
            seed,
            violation: record.violation(),
            lines: record.lines(),
            delivered,
            bytes,
            lasted: record.now(),
            healed,
            ops: record.ops().len(),
            ids: record.ids(),
            terms,
            entries,
        };
        for node in cluster.running() {
            cluster.kill(node, true);
        }
        run
    })
}

async fn live(
    cluster: &Arc<Cluster>,
    plan: &Arc<Plan>,
    dice: &mut Dice,
) -> Result<Duration, Violation> {
    plan.set_links(cluster);
    cluster.set_minting(plan.minting);
    for (spot, ppm) in cluster.spots.iter().zip(&plan.drift_ppm) {
        spot.clock.drift(*ppm);
    }
    for node in 0..cluster.spots.len() {
        cluster.start(node).await;
        plan::set_disk(cluster, node, plan.sync, false);
        sleep(Duration::from_millis(dice.below(100))).await;
    }
    found(cluster).await?;
    let over = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for number in 0..plan.clients {
        let (cluster, over) = (Arc::clone(cluster), Arc::clone(&over));
        let (nodes, pauses) = (cluster.spots.len(), plan.pauses);
        let habit = move |dice: &mut Dice| Habit::new(dice, nodes, pauses);
        clients.spawn(clients::live(cluster, number, dice.roll(), habit, over));
    }
    let mut faults = JoinSet::new();
    for number in 0..plan.faults.len() {
        faults.spawn(plan::carry_out(
            Arc::clone(cluster),
            Arc::clone(plan),
            number,
        ));
    }
    sleep(plan.until).await;
    while faults.join_next().await.is_some() {}
    plan::heal(cluster, plan).await;
    cluster.record.note("all is healed");
    let healed = Instant::now();
    let well = timeout(WELL_WITHIN, well(cluster)).await;
    if well.is_err() {
        return Err(Violation::new("well after healing", describe(cluster)));
    }
    let healed = healed.elapsed();
    cluster.record.note("all is well");
    over.store(true, Ordering::Relaxed);
    while clients.join_next().await.is_some() {}
    let ends = equal_ends(cluster).await?;
    history::check(&cluster.record.ops(), &ends)?;
    Ok(healed)
}

pub(super) async fn found(cluster: &Arc<Cluster>) -> Result<(), Violation> {
    let founded = async {
        loop {
            let ready = (0..cluster.founders).all(|node| {
                let process = cluster.process(node);
                process.is_some_and(|process| *process.raft.started().borrow())
            });
            if ready && create_sequences(cluster).await {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let within = timeout(FOUNDED_WITHIN, founded).await;
    within.map_err(|_| Violation::new("founded in time", describe(cluster)))
}

async fn create_sequences(cluster: &Arc<Cluster>) -> bool {
    let created = cluster.ask(0, Duration::from_secs(4), |raft: Raft| async move {
        let deadline = Instant::now() + Duration::from_secs(3);
        let commands = (0..SEQUENCES).map(create).collect();
        raft.propose(commands, deadline).await
    });
    matches!(created.await, Some(Ok(_)))
}

/// The nodes that are members.
fn members(cluster: &Cluster) -> BTreeSet<usize> {
    let running = cluster.running();
    let all = running.iter().filter_map(|node| {
        let process = cluster.process(*node)?;
        Some(process.raft.status())
    });
    let most = all.max_by_key(|status| (status.applied, status.members.len()));
    let names = most.map(|status| status.members).unwrap_or_default();
    let number = |name: &str| name.strip_prefix('n')?.parse::<usize>().ok();
    names
        .iter()
        .filter_map(|member| Some(number(&member.name)? - 1))
        .collect()
}

/// Returns once each member accepts a write and answers a read.
async fn well(cluster: &Arc<Cluster>) {
    loop {
        let mut is_well = true;
        for node in members(cluster) {
            is_well &= answers(cluster, node).await;
        }
        if is_well && has_leader(cluster) {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

fn has_leader(cluster: &Cluster) -> bool {
    let processes = cluster.running().into_iter();
    let leads = processes.filter_map(|node| cluster.process(node));
    leads
        .filter(|it| it.raft.status().role == Role::Leader)
        .count()
        == 1
}

async fn answers(cluster: &Arc<Cluster>, node: usize) -> bool {
    let answered = cluster.ask(node, Duration::from_secs(3), |raft: Raft| async move {
        let deadline = Instant::now() + Duration::from_secs(2);
        let wrote = raft.propose(vec![create(0)], deadline).await.is_ok();
        wrote && raft.read(deadline).await.is_ok()
    });
    answered.await == Some(true)
}

/// Waits until all members have the same state. Returns the final indices of its sequences.
pub(super) async fn equal_ends(cluster: &Arc<Cluster>) -> Result<BTreeMap<usize, End>, Violation> {
    let members = members(cluster);
    let states = || {
        let processes = members.iter().filter_map(|node| cluster.process(*node));
        let states = processes.map(|process| {
            let status = process.raft.status();
            (status.applied, status.digest.0)
        });
        states.collect::<Vec<_>>()
    };
    let equal = async {
        loop {
            let found = states();
            if found.len() == members.len() && found.iter().all(|one| *one == found[0]) {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    if timeout(Duration::from_secs(10), equal).await.is_err() {
        return Err(Violation::new("equal states at the end", describe(cluster)));
    }
    let first = members.first().and_then(|node| cluster.process(*node));
    let mut ends = BTreeMap::new();
    if let Some(process) = first {
        process.raft.state(|state| {
            for sequence in 0..SEQUENCES {
                if let Some(record) = state.sequence_or_deleted(&clients::name(sequence)) {
                    let end = End {
                        next: record.next_index,
                        // Only these sequences skip no value, unless the outcome of a request is
                        // unknown.
                        is_counted: sequence < ORDERED && sequence != STRICT - 1,
                    };
                    ends.insert(sequence, end);
                }
            }
            let end = End {
                next: (state.timestamp_bound().0 + 1) << seqd_state::TIMESTAMP_COUNTER_BITS,
                is_counted: false,
            };
            ends.insert(TIMESTAMPS, end);
        });
    }
    Ok(ends)
}

fn describe(cluster: &Cluster) -> String {
    let running = cluster.running().into_iter();
    let lines = running.filter_map(|node| {
        let process = cluster.process(node)?;
        let status = process.raft.status();
        let members: Vec<String> = (status.members.iter())
            .map(|member| format!("{}={:?}", member.name, member.role))
            .collect();
        Some(format!(
            "n{}: {:?} {:?}, term {}, leader {:?}, applied {}, log to {}, contact {}, members {}",
            node + 1,
            *process.raft.phase().borrow(),
            status.role,
            status.term,
            status.leader.map(|leader| leader.0),
            status.applied,
            status.last_log,
            status.has_quorum_contact,
            members.join(" ")
        ))
    });
    lines.collect::<Vec<_>>().join("; ")
}

/// Runs a plan. A panic counts as a violation, too.
pub(super) fn run_caught(seed: u64, plan: &Plan) -> Run {
    let ran = catch_unwind(AssertUnwindSafe(|| run(seed, plan)));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Run {
            seed,
            violation: Some(Violation::new("no panic", text.unwrap_or_default())),
            lines: Vec::new(),
            delivered: 0,
            bytes: 0,
            lasted: Duration::ZERO,
            healed: Duration::ZERO,
            ops: 0,
            ids: 0,
            terms: 0,
            entries: 0,
        }
    })
}
