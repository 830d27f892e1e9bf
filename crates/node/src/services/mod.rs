//! The services of a node for its clients, in any protocol.
//!
//! There is one service per domain. A service takes and returns the plain types of the contract
//! (`seqd_api`) and fails with a [`ServiceError`]; it has no methods, headers, statuses or media
//! types. The services alone decide the meaning of a request; `handlers` only translates.

mod access;
mod cluster;
mod confirm;
mod differences;
mod drains;
mod effects;
mod error;
mod facts;
mod health;
mod ids;
mod key_admin;
mod keyed_requests;
mod keys;
mod layouts;
mod leases;
mod locks;
mod machines;
mod missing;
mod next;
mod one_time;
mod one_time_admin;
mod one_time_text;
mod origin;
mod page;
mod plans;
#[cfg(target_os = "linux")]
mod process;
mod resets;
mod revival;
mod room;
mod scrape;
mod seals;
mod segments;
mod sequences;
mod snapshot;
#[cfg(test)]
mod tests;
mod timestamps;
mod updates;
mod uuids;
mod visible;
mod workers;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) use access::AccessService;
pub(crate) use cluster::ClusterService;
pub(crate) use error::{
    KeyError, LeaseError, LockError, OneTimeError, RequestError, SequenceError, ServiceError,
    sequence_name,
};
pub(crate) use facts::FactsService;
pub(crate) use health::{Check, HealthService, Readiness, Unready};
pub(crate) use ids::IdService;
pub(crate) use keyed_requests::KeyedHandling;
pub(crate) use keys::KeyService;
pub(crate) use layouts::LayoutService;
pub(crate) use locks::{
    Entry, Exit, Found, HoldChange, HolderWatch, LockService, SecretHold, SecretHolder, Unlock,
    lock_name,
};
pub(crate) use machines::{HOLD_MS, MachinePool};
pub(crate) use one_time::OneTimeService;
pub(crate) use plans::plan_of_equal;
pub(crate) use sequences::{SequenceService, last_value};
pub(crate) use snapshot::SnapshotService;
pub(crate) use timestamps::TimestampService;
pub(crate) use uuids::UuidService;
pub(crate) use visible::Counts;
pub(crate) use workers::WorkerService;

use seqd_idgen::WallClock;
use seqd_raft::Raft;
use tokio::sync::Mutex;

use crate::access::{Access, TinyIdTokens};
use crate::config::Config;
use crate::metrics::Metrics;
use crate::minting::uuids::UuidSource;
use crate::minting::{ClockWatch, Minters};
use crate::places::Places;
use crate::replica::Replica;
use crate::runs_out::WorkerCounts;
use crate::sequences::SegmentBuffers;
use crate::tls::Tls;

#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) raft: Raft,
    pub(crate) clock: Arc<ClockWatch>,
    pub(crate) minters: Arc<Minters>,
    pub(crate) segments: Arc<SegmentBuffers>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tls: Tls,
    pub(crate) callers: Access,
    pub(crate) tiny_id: Option<Arc<TinyIdTokens>>,
    pub(crate) wall: Arc<dyn WallClock>,
    pub(crate) worker_counts: Arc<WorkerCounts>,
}

pub(crate) struct Services {
    pub(crate) config: Config,
    pub(crate) ids: IdService,
    pub(crate) uuids: UuidService,
    pub(crate) timestamps: TimestampService,
    pub(crate) layouts: LayoutService,
    pub(crate) sequences: SequenceService,
    pub(crate) workers: WorkerService,
    pub(crate) keys: KeyService,
    pub(crate) one_time: OneTimeService,
    pub(crate) locks: LockService,
    pub(crate) cluster: ClusterService,
    pub(crate) facts: Arc<FactsService>,
    pub(crate) access: AccessService,
    /// The permissions of callers.
    pub(crate) callers: Access,
    /// The tokens of TinyID, if its callers need one.
    pub(crate) tiny_id: Option<Arc<TinyIdTokens>>,
    pub(crate) snapshots: SnapshotService,
    /// Places of requests whose responses are long.
    pub(crate) writing: Arc<Places>,
    pub(crate) health: Arc<HealthService>,
}

impl Services {
    pub(crate) fn new(config: Config, parts: &Parts) -> Services {
        let raft = || parts.raft.clone();
        let clock = || Arc::clone(&parts.clock);
        let minters = || Arc::clone(&parts.minters);
        let replica = || -> Arc<dyn Replica> { Arc::new(raft()) };
        let max_count = config.http.max_count;
        let health = Arc::new(HealthService {
            raft: raft(),
            access: parts.callers.clone(),
            minters: minters(),
            clock: clock(),
            stopping: AtomicBool::new(false),
        });
        Services {
            ids: IdService {
                minters: minters(),
                clock: clock(),
                replica: replica(),
                max_count,
            },
            timestamps: TimestampService { replica: replica() },
            uuids: UuidService {
                source: UuidSource::default(),
                clock: clock(),
                max_count,
            },
            layouts: LayoutService {
                replica: replica(),
                clock: Arc::clone(&parts.wall),
            },
            sequences: SequenceService {
                replica: replica(),
                segments: Arc::clone(&parts.segments),
                metrics: Arc::clone(&parts.metrics),
                defaults: config.segment.clone(),
                limits: config.limits.clone(),
                max_count,
            },
            workers: WorkerService {
                replica: replica(),
                clock: clock(),
                window_ms: config.clock.window.as_millis() as u64,
                share: config.limits.tenant_share,
                requested: seqd_net::Lock::default(),
            },
            keys: KeyService::new(replica(), config.limits.clone()),
            one_time: OneTimeService {
                replica: replica(),
                minters: minters(),
                clock: clock(),
                limits: config.limits.clone(),
                issuing: Places::new(one_time::MOST_AT_ONCE),
            },
            locks: LockService::new(replica(), config.limits.clone()),
            cluster: ClusterService {
                raft: raft(),
                minters: minters(),
                health: Arc::clone(&health),
                worker_counts: Arc::clone(&parts.worker_counts),
            },
            facts: Arc::new(FactsService {
                config: config.clone(),
                parts: parts.clone(),
                health: Arc::clone(&health),
                trends: Arc::default(),
                gathering: Mutex::default(),
            }),
            access: AccessService {
                replica: replica(),
                clock: Arc::clone(&parts.wall),
            },
            callers: parts.callers.clone(),
            tiny_id: parts.tiny_id.clone(),
            snapshots: SnapshotService { raft: raft() },
            writing: Places::of_processors(),
            health,
            config,
        }
    }

    pub(crate) fn node(&self) -> &str {
        &self.config.node.name
    }

    /// The text of this node's metrics.
    pub(crate) fn metrics(&self) -> Result<String, fmt::Error> {
        scrape::text(&self.facts.parts)
    }
}
