//! Observes the demo's nodes as a client: their readiness and their leader.

use std::time::Duration;

use seqd_client::api::Cluster;
use seqd_client::{Client, Endpoint, Options};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::demo::event::Event;
use crate::demo::fleet::Fleet;
use crate::demo::plan::NodePlan;
use crate::demo::secure::Secured;
use crate::failure::Failure;
use crate::output::write_stderr;
use crate::session::PATIENCE;

/// The longest start of three nodes on a slow machine. A start that takes longer has failed.
const READY_PATIENCE: Duration = Duration::from_secs(60);

/// The polling interval, which is short compared with an election.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The time limit of one poll.
const LOOK_PATIENCE: Duration = Duration::from_secs(1);

/// The time for which a new leader is awaited after a node ended.
const LEADER_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct ReadyCluster {
    pub(crate) id: String,
    pub(crate) leader: String,
}

/// Waits until every node is ready. The end of a node before that is a failure.
pub(crate) async fn all_ready(
    fleet: &Fleet,
    inbox: &mut mpsc::Receiver<Event>,
) -> Result<Option<ReadyCluster>, Failure> {
    tokio::select! {
        founded = ready(fleet) => founded.map(Some),
        failure = first_end(fleet, inbox) => Err(failure),
    }
}

async fn ready(fleet: &Fleet) -> Result<ReadyCluster, Failure> {
    let deadline = Instant::now() + READY_PATIENCE;
    let mut next_note = Instant::now() + PATIENCE;
    for node in fleet.nodes() {
        let client = client(fleet, node)?;
        loop {
            let Err(error) = client.ready().await else {
                break;
            };
            if Instant::now() >= deadline {
                let (name, log) = (&node.name, node.log.display());
                return Err(Failure::failed(format!(
                    "{name} is not ready: {error}; see {log}"
                )));
            }
            if Instant::now() >= next_note {
                write_stderr(&format!("waiting for {}: {error}\n", node.name));
                next_note = Instant::now() + PATIENCE;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    loop {
        for node in fleet.nodes() {
            if let Ok(Cluster {
                cluster_id: Some(id),
                leader: Some(leader),
                ..
            }) = client(fleet, node)?.cluster().await
            {
                return Ok(ReadyCluster { id, leader });
            }
        }
        if Instant::now() >= deadline {
            return Err(Failure::failed(
                "the nodes are ready, but there is no leader",
            ));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Resolves when a node ends. The failure has the last line of its log.
async fn first_end(fleet: &Fleet, inbox: &mut mpsc::Receiver<Event>) -> Failure {
    loop {
        match inbox.recv().await {
            Some(Event::Ended { node, status }) => return Failure::failed(fleet.why(node, status)),
            Some(_) => {}
            None => return Failure::failed("the nodes cannot be monitored"),
        }
    }
}

/// Kills the leader, or prints that there is none.
pub(crate) async fn kill_leader(fleet: &Fleet) {
    let leader = leader(&clients(fleet)).await;
    match leader {
        Some((name, _)) if fleet.live().any(|node| node.name == name) => fleet.kill(&name),
        _ => {
            // Not awaited: the caller is the loop that receives these events.
            let note = Event::Note("no leader to kill");
            let _ = fleet.events().try_send(note);
        }
    }
}

/// Waits for the next leader and reports it, in a task of its own.
pub(crate) fn report_next_leader(fleet: &Fleet) {
    let live: Vec<String> = fleet.live().map(|node| node.name.clone()).collect();
    let clients = clients(fleet);
    if live.is_empty() {
        return;
    }
    let events = fleet.events();
    tokio::spawn(async move {
        let started = Instant::now();
        while started.elapsed() < LEADER_PATIENCE {
            let found = leader(&clients).await;
            if let Some((name, term)) = found
                && live.contains(&name)
            {
                let took = started.elapsed();
                // The queue is closed when the demo ends.
                let _ = events.send(Event::Leads { name, term, took }).await;
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let note = "no leader: two nodes are needed";
        let _ = events.send(Event::Note(note)).await;
    });
}

/// The leader with the highest term that any of these clients reports.
async fn leader(clients: &[Client]) -> Option<(String, u64)> {
    let mut best: Option<(String, u64)> = None;
    for client in clients {
        if let Ok(Cluster {
            leader: Some(leader),
            term,
            ..
        }) = client.cluster().await
            && best.as_ref().is_none_or(|(_, known)| term > *known)
        {
            best = Some((leader, term));
        }
    }
    best
}

/// A client for each running node.
fn clients(fleet: &Fleet) -> Vec<Client> {
    let each = fleet.live().map(|node| client(fleet, node));
    each.filter_map(Result::ok).collect()
}

fn client(fleet: &Fleet, node: &NodePlan) -> Result<Client, Failure> {
    let secured = fleet.secured();
    let endpoint = Endpoint::parse(&node.url(secured.is_some()))?;
    let options = Options {
        endpoints: vec![endpoint],
        timeout: Some(LOOK_PATIENCE),
        tls: secured.map(Secured::client_files).unwrap_or_default(),
        token: secured.map(Secured::token).transpose()?,
        trace: None,
    };
    Ok(Client::new(options)?)
}
