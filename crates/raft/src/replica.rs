//! One running replica: log, state, checkpoints and openraft, opened and stopped in order.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::errors::Fatal;
use seqd_wal::Wal;

use crate::batch::Room;
use crate::blocking;
use crate::contact::LeaderContact;
use crate::context::NodeContext;
use crate::handle::{Stop, StopReason};
use crate::latency::Latency;
use crate::leader_windows::LeaderWindows;
use crate::network::Network;
use crate::openraft_config;
use crate::rounds::Rounds;
use crate::storage::applied::Applied;
use crate::storage::checkpointer::{Checkpointer, Exported, Scrubber, every_50_ms};
use crate::storage::driver;
use crate::storage::failure::StorageFailure;
use crate::storage::machine::Machine;
use crate::storage::opening::{Repairs, Storage};
use crate::storage::promised::Promised;
use crate::storage::unfinished::Unfinished;
use crate::transfers::Transfers;
use crate::types::{Member, TypeConfig};
use seqd_store::folder::Identity;

pub(crate) type OpenRaft = openraft::Raft<TypeConfig, Machine>;

pub(crate) struct Replica {
    pub(crate) node: u64,
    pub(crate) raft: OpenRaft,
    /// The term of the vote with which this start began.
    pub(crate) first_term: u64,
    pub(crate) applied: Arc<Applied>,
    pub(crate) wal: Wal,
    pub(crate) commits: Latency,
    pub(crate) repairs: Repairs,
    failure: StorageFailure,
    checkpointer: Checkpointer,
    recovered: AtomicBool,
    /// Held by this leader while it checks the level and adds a member, or checks the members and
    /// raises the level.
    pub(crate) adding_or_raising: tokio::sync::Mutex<()>,
    /// Held by this leader while it changes the membership: one change at a time.
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// The total size of the kept snapshots, and the size of the largest, as of the last check.
    pub(crate) snapshot_bytes: AtomicU64,
    pub(crate) largest_snapshot_bytes: AtomicU64,
    /// The highest commit index that a leader, which may be this node, has sent.
    pub(crate) committed: Arc<AtomicU64>,
    pub(crate) contact: LeaderContact,
    pub(crate) windows: LeaderWindows,
    pub(crate) rounds: Rounds,
    pub(crate) promised: Arc<Promised>,
    /// The snapshots that this node is sending.
    pub(crate) transfers: Transfers,
    /// The snapshot that this node is receiving.
    pub(crate) unfinished: Unfinished,
    /// Time for which a voter keeps to its leader after the leader's last message.
    pub(crate) leader_lease: Duration,
    pub(crate) election_max: Duration,
    pub(crate) heartbeat: Duration,
}

/// The reason why a checkpoint was not written. A checkpoint waits for the log, so a failure of the
/// log is the reason, whichever of the two detects it first.
fn no_checkpoint(log: &Wal, error: &io::Error) -> Stop {
    log.failed().map_or_else(
        || Stop::of_io_while_running("the checkpoint was not written", error),
        |failure| Stop::from(&failure),
    )
}

impl Replica {
    pub(crate) async fn start(
        context: &Arc<NodeContext>,
        identity: &Identity,
        storage: Storage,
    ) -> Result<Arc<Self>, Stop> {
        let (wal, repairs) = (storage.wal.clone(), storage.repairs);
        let vote = storage.log.vote();
        let (failed, log) = (Arc::downgrade(context), wal.clone());
        let on_failure = move |error| {
            if let Some(context) = failed.upgrade() {
                context.stop(no_checkpoint(&log, &error));
            }
        };
        let pace = |_: &Arc<Applied>| every_50_ms();
        let assembled = storage.assemble(pace, Box::new(on_failure), driver::start_checkpointer);
        let (log, machine) = assembled.map_err(|e| {
            let why = format!("cannot start the checkpoint thread: {e}");
            Stop::new(StopReason::StartFailed, why)
        })?;
        let applied = Arc::clone(&machine.applied);
        let (checkpointer, failure) = (machine.checkpointer.clone(), machine.failure.clone());
        let transfers = machine.transfers.clone();
        let committed = Arc::<AtomicU64>::default();
        let network = Network {
            transfers: transfers.clone(),
            room: Room::default(),
            context: Arc::clone(context),
            synced: log.synced(),
            scrubber: Scrubber::new(checkpointer.clone()),
            committed: Arc::clone(&committed),
        };
        let promised = log.promised();
        let config = Arc::new(openraft_config::config(&context.settings).map_err(Stop::invariant)?);
        let raft = OpenRaft::new(identity.node, config, network, log, machine)
            .await
            .map_err(|e| openraft_config::fatal(&e, &wal, &failure))?;
        let leader_lease = openraft_config::leader_lease(&context.settings);
        Ok(Arc::new(Self {
            node: identity.node,
            raft,
            first_term: vote.map_or(0, |vote| vote.leader_id.term),
            applied,
            wal,
            commits: Latency::default(),
            repairs,
            failure,
            checkpointer,
            recovered: AtomicBool::new(false),
            adding_or_raising: tokio::sync::Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            snapshot_bytes: AtomicU64::new(0),
            largest_snapshot_bytes: AtomicU64::new(0),
            committed,
            transfers,
            unfinished: Unfinished::default(),
            windows: LeaderWindows::default(),
            rounds: Rounds::default(),
            promised,
            contact: LeaderContact::new(leader_lease, context.settings.heartbeat * 2),
            leader_lease,
            election_max: context.settings.election.1,
            heartbeat: context.settings.heartbeat,
        }))
    }

    /// Initialises the log. Its first entry is the membership.
    pub(crate) async fn initialize(&self, members: BTreeMap<u64, Member>) -> Result<(), Stop> {
        self.raft
            .initialize(members)
            .await
            .map_err(|e| Stop::invariant(format!("the cluster could not be founded: {e}")))
    }

    /// Watches openraft. A replica that fails stops the node.
    pub(crate) async fn watch(&self, context: &NodeContext) {
        let raft = self.raft.clone();
        let mut metrics = raft.server_metrics();
        let recovery = async {
            if raft.wait_for_recovery(None).await.is_ok() {
                self.recovered.store(true, Ordering::Release);
            }
            std::future::pending::<()>().await;
        };
        let running = async { while metrics.changed().await.is_ok() {} };
        tokio::select! {
            biased;
            () = running => {},
            () = recovery => {},
        }
        let state = self.raft.metrics().borrow_watched().running_state.clone();
        if let Err(error) = state
            && !matches!(error, Fatal::Stopped)
        {
            context.stop(openraft_config::fatal(&error, &self.wal, &self.failure));
        }
    }

    /// Returns whether all entries that were committed at the start are applied.
    pub(crate) fn is_caught_up(&self) -> bool {
        self.recovered.load(Ordering::Acquire)
    }

    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        self.checkpointer.disk_bytes()
    }

    /// The number of damaged snapshots that were set aside, at the start or later.
    pub(crate) fn snapshots_set_aside(&self) -> u64 {
        self.repairs.snapshots_set_aside + self.checkpointer.set_aside()
    }

    /// Takes a snapshot for a client.
    pub(crate) async fn export(&self) -> io::Result<Exported> {
        self.checkpointer.export().await
    }

    /// Stops openraft, writes the last checkpoint, and drains the log.
    pub(crate) async fn stop(&self) -> io::Result<()> {
        if let Err(error) = self.raft.shutdown().await {
            tracing::warn!(%error, "openraft did not stop cleanly");
        }
        self.checkpointer.stop().await?;
        let wal = self.wal.clone();
        blocking::run(move || wal.close()).await
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use openraft::network::{RPCOption, RaftNetworkFactory as _, RaftNetworkV2 as _};
    use openraft::raft::AppendEntriesRequest;
    use seqd_disk::simulated::{Call, Failure, Fault, SimulatedDisk};
    use seqd_wal::WalOptions;

    use super::*;
    use crate::tests::harness::Cluster;
    use crate::types;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_commit_is_noted_before_another_node_can_learn_it() {
        let mut cluster = Cluster::new(1).await;
        cluster.ready().await;
        let node = cluster.raft(0).node();
        let replica = node.replica().unwrap();
        let mut network = Network {
            context: Arc::clone(&node.context),
            synced: Arc::default(),
            scrubber: Scrubber::new(replica.checkpointer.clone()),
            transfers: replica.transfers.clone(),
            room: Room::default(),
            committed: Arc::clone(&replica.committed),
        };
        let vote = replica.current_vote();
        let commit = types::log_id(vote.leader_id.term, 1_000);
        let nobody = Member {
            peer: "127.0.0.1:1".into(),
            ..replica.member(replica.node).unwrap()
        };
        let mut client = network.new_client(99, &nobody).await;
        let message = AppendEntriesRequest {
            vote,
            prev_log_id: None,
            entries: Vec::new(),
            leader_commit: Some(commit),
        };
        let limit = RPCOption::new(Duration::from_secs(1));
        assert!(client.append_entries(message, limit).await.is_err());
        let index = replica.committed_index();
        assert_eq!(
            index, 1_000,
            "a read does not include the commit of the message"
        );
        cluster.stop_all().await;
    }

    #[test]
    fn a_checkpoint_that_a_failed_log_holds_up_names_the_log() {
        let disk = SimulatedDisk::holding("/data");
        let (log, _, pump) = Wal::open_manual(WalOptions {
            disk: Arc::new(disk.clone()),
            ..WalOptions::new(Path::new("/data/wal"))
        })
        .unwrap();
        let error = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
        let own = no_checkpoint(&log, &error).to_string();
        assert!(own.starts_with("the checkpoint was not written: "), "{own}");
        disk.plant(Fault::on(Call::SyncData, Failure::InputOutput));
        log.save_vote(b"vote".to_vec(), Box::new(drop));
        pump.run();
        let of_the_log = no_checkpoint(&log, &error);
        assert_eq!(of_the_log.reason, StopReason::FsyncFailed);
        let of_the_log = of_the_log.to_string();
        assert!(
            of_the_log.starts_with("the log could not be written: "),
            "{of_the_log}"
        );
    }
}
