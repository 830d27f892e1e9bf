//! The facts of this node, and those of the whole cluster, for `seqd doctor`.
//!
//! The answering node requests the facts of the other members over the connections between nodes,
//! so a client needs to reach one node only, and its token goes to no other host.

use std::sync::Arc;
use std::time::Duration;

use seqd_api::{
    CertificateFacts, DescriptorFacts, DiskFacts, Facts, LinkFacts, MissingFacts, NodeFacts,
    ResourceUse, SequenceLeft, WindowFacts,
};
use seqd_idgen::WallMs;
use seqd_raft::LevelRange;
use seqd_state::{Holdings, State};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::Parts;
use super::cluster::ClusterService;
use super::error::ServiceError;
use super::health::HealthService;
use super::page::each_sequence;
use crate::REVISION;
use crate::config::{self, Config};
use crate::times::rfc3339;
use crate::trends::Trends;

/// The time limit for the responses of the other members. If a member does not answer, a diagnosis
/// takes this long.
const OTHERS: Duration = Duration::from_secs(1);

/// The largest number of sequences that are listed.
const SEQUENCES: usize = 20;

/// Keeps the sequences with the least left.
fn keep_least(found: &mut Vec<SequenceLeft>) {
    found.sort_by(|one, other| one.remaining_ratio.total_cmp(&other.remaining_ratio));
    found.truncate(SEQUENCES);
}

pub(crate) struct FactsService {
    pub(crate) config: Config,
    pub(crate) parts: Parts,
    pub(crate) health: Arc<HealthService>,
    pub(crate) trends: Arc<Trends>,
    /// Held while the facts of the cluster are gathered, which reads every sequence: one at a time.
    pub(super) gathering: Mutex<()>,
}

impl FactsService {
    /// This node's own facts. Reads files, and so blocks.
    pub(crate) fn own(&self) -> NodeFacts {
        let status = self.parts.raft.status();
        let stats = self.parts.raft.storage_stats();
        let recent = self.trends.recent(&stats, status.leader_changes);
        let leader = status.leader_member();
        let readiness = self.health.readiness();
        let entries = self.config.entries.iter();
        NodeFacts {
            name: status.name.clone(),
            time: rfc3339(self.parts.clock.wall()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: REVISION.map(str::to_owned),
            levels: Some((LevelRange::OWN.oldest, LevelRange::OWN.newest)),
            not_ready: readiness.failed().map(|(check, _)| check.detail.clone()),
            leader: leader.map(|member| member.name.clone()),
            leader_changes: recent.leader_changes,
            links: self.links(),
            disk: DiskFacts {
                reserve_bytes: stats.reserve_bytes,
                full_at: recent
                    .full_in
                    .map(|left| rfc3339(self.parts.clock.after(left))),
                stalled_ms: stats.stalled_seconds * 1000.0,
                log_bytes: stats.wal_bytes,
                log_entries: status.last_log.saturating_sub(status.purged),
                snapshot_bytes: stats.snapshot_bytes,
                checkpoint_bytes: stats.checkpoint_bytes,
                ..self.space()
            },
            fsync: recent.fsync,
            commit: recent.commit,
            descriptors: descriptors(),
            certificates: self.certificates(),
            windows: self.windows(),
            config: entries
                .filter_map(|entry| Some((entry.key.name.to_owned(), entry.value.clone()?)))
                .collect(),
            exposed: config::exposed(&self.config),
            operator_token: status
                .cluster_id
                .as_deref()
                .and_then(|cluster| self.parts.callers.operator_fingerprint(cluster)),
        }
    }

    /// The facts of all members and of the cluster.
    ///
    /// # Errors
    /// Other requests gather the facts until the deadline.
    pub(crate) async fn gather(
        self: &Arc<Self>,
        cluster: &ClusterService,
        deadline: Instant,
    ) -> Result<Facts, ServiceError> {
        let alone = timeout_at(deadline, self.gathering.lock()).await;
        let busy = |_| {
            ServiceError::overloaded(
                "other requests are gathering the facts of this cluster",
                1000,
            )
        };
        let _alone = alone.map_err(busy)?;
        let me = Arc::clone(self);
        let own = tokio::task::spawn_blocking(move || {
            let resources = me.parts.raft.state(|state| me.resources(state));
            (me.own(), me.sequences(), resources)
        });
        let (own, others) = tokio::join!(own, self.parts.raft.facts_of_others(OTHERS));
        let (mut nodes, mut sequences, mut resources) = (Vec::new(), Vec::new(), Vec::new());
        if let Ok((own, near_end, used)) = own {
            nodes.push(own);
            (sequences, resources) = (near_end, used);
        }
        let mut missing = Vec::new();
        for (name, answer) in others {
            let read = |json: Vec<u8>| serde_json::from_slice(&json).map_err(|e| e.to_string());
            match answer.and_then(read) {
                Ok(facts) => nodes.push(facts),
                Err(reason) => missing.push(MissingFacts { name, reason }),
            }
        }
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        missing.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Facts {
            node: self.config.node.name.clone(),
            cluster: cluster.show(),
            nodes,
            missing,
            sequences,
            resources,
        })
    }

    fn links(&self) -> Vec<LinkFacts> {
        let links = self.parts.raft.links().into_iter();
        links
            .map(|link| LinkFacts {
                name: link.name,
                round_trip_ms: link.round_trip.map(|took| took.as_secs_f64() * 1000.0),
                error: link.error,
                receives: link.receives,
            })
            .collect()
    }

    fn space(&self) -> DiskFacts {
        let Ok(space) = rustix::fs::statvfs(&self.config.node.data_dir) else {
            return DiskFacts::default();
        };
        DiskFacts {
            used_bytes: space.f_blocks.saturating_sub(space.f_bfree) * space.f_frsize,
            free_bytes: space.f_bavail * space.f_frsize,
            ..DiskFacts::default()
        }
    }

    fn certificates(&self) -> Vec<CertificateFacts> {
        let expiry = self.parts.tls.expiry().into_iter();
        expiry
            .map(|(used_for, until)| CertificateFacts {
                used_for: used_for.to_owned(),
                expires_at: rfc3339(WallMs(u64::try_from(until).unwrap_or(0) * 1000)),
            })
            .collect()
    }

    fn windows(&self) -> Vec<WindowFacts> {
        let now = self.parts.clock.wall().0 as i64;
        let window_ms = self.config.clock.window.as_millis() as u64;
        let minters = self.parts.minters.all().into_iter();
        minters
            .filter_map(|minter| {
                let ends = minter.window()?.ends;
                Some(WindowFacts {
                    layout: minter.layout().name().to_owned(),
                    ends_at: rfc3339(ends),
                    left_ms: (ends.0 as i64).saturating_sub(now),
                    window_ms,
                })
            })
            .collect()
    }

    fn sequences(&self) -> Vec<SequenceLeft> {
        let mut found = Vec::new();
        each_sequence(&self.parts.raft, |name, record| {
            let Some(total) = record.definition.progression.total() else {
                return;
            };
            let left = record.remaining().unwrap_or(total);
            let remaining_ratio = left as f64 / (total as f64).max(1.0);
            if remaining_ratio < SequenceLeft::LITTLE {
                found.push(SequenceLeft {
                    name: name.as_str().to_owned(),
                    remaining_ratio,
                });
            }
            if found.len() == 2 * SEQUENCES {
                keep_least(&mut found);
            }
        });
        keep_least(&mut found);
        found
    }

    fn resources(&self, state: &State) -> Vec<ResourceUse> {
        let limits = &self.config.limits;
        let of = |key: &str, held: &Holdings, limit: u64| {
            let largest = held.largest();
            ResourceUse {
                limit_key: format!("limits.{key}"),
                used: held.all().count,
                limit,
                largest_tenant: largest.map(|(tenant, _)| tenant.to_string()),
                largest: largest.map_or(0, |(_, held)| held.count),
                share: limit * u64::from(limits.tenant_share.percent()) / 100,
            }
        };
        vec![
            of("sequences", state.sequences_held(), limits.sequences),
            of("locks", state.locks_held(), u64::from(limits.locks)),
            of("keys", state.keys_held(), limits.keys),
            of("tokens", state.one_time_held(), limits.tokens),
        ]
    }
}

#[cfg(target_os = "linux")]
fn descriptors() -> Option<DescriptorFacts> {
    use procfs::process::{LimitValue, Process};

    let process = Process::myself().ok()?;
    let open = process.fd_count().ok()? as u64;
    match process.limits().ok()?.max_open_files.soft_limit {
        LimitValue::Value(limit) => Some(DescriptorFacts { open, limit }),
        LimitValue::Unlimited => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn descriptors() -> Option<DescriptorFacts> {
    None
}
