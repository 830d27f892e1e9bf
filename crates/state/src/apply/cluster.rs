//! Applies the commands of the cluster itself, which change several tables.

use crate::cluster::commands::{ClusterCommand, ClusterOutcome, ClusterRefusal, Found};
use crate::cluster::nodes::RegisteredStart;
use crate::cluster::settings::{Counter, Settings};
use crate::domains::Refusal;
use crate::level::{Level, LogPosition};
use crate::tables::Tables;
use crate::workers::past::PastStart;

impl Tables {
    /// `membership` is the position of the applied membership.
    pub(crate) fn apply_to_cluster(
        &mut self,
        membership: Option<LogPosition>,
        command: &ClusterCommand,
    ) -> Result<ClusterOutcome, Refusal> {
        let outcome = match command {
            ClusterCommand::Found(found) => return self.found(found),
            ClusterCommand::AllocateNodeId(asked) => {
                asked.check()?;
                self.nodes.allocate(&mut self.counter, asked)
            }
            ClusterCommand::RegisterStart { node, boot, nonce } => {
                let (boot, nonce) = (*boot, *nonce);
                self.nodes
                    .register_start(*node, RegisteredStart { boot, nonce })
            }
            ClusterCommand::MarkRemoved { node } => {
                self.resets.remove(node);
                self.nodes.mark_removed(*node)
            }
            ClusterCommand::ResetWorkers { node } => {
                self.nodes.present(*node)?;
                Ok(self.resets.order(&mut self.counter, *node))
            }
            ClusterCommand::StampRestoration { wall_ms } => {
                let skew_ms = self.settings.get(&()).map_or(0, |s| s.max_peer_skew_ms);
                self.restoration.stamp(&mut self.counter, skew_ms, *wall_ms)
            }
            ClusterCommand::RaiseTimestamps { upto } => {
                let floor = self.timestamp_bound();
                Ok(self.timestamps.raise(floor, *upto))
            }
            ClusterCommand::ReturnTimestamps { granted, used } => {
                Ok(self.timestamps.give_back(*granted, *used))
            }
            ClusterCommand::KeepSecret { key } => {
                self.secret.keep(*key);
                Ok(ClusterOutcome::SecretKept)
            }
            ClusterCommand::RaiseLevel {
                to,
                membership: asked,
            } => self.raise_level(*to, *asked, membership),
        };
        Ok(outcome?)
    }

    fn found(&mut self, found: &Found) -> Result<ClusterOutcome, Refusal> {
        let Found {
            cluster_id,
            window_ms,
            max_peer_skew_ms,
            founders,
        } = found.clone();
        let settings = Settings {
            cluster_id,
            window_ms,
            max_peer_skew_ms,
            founders,
        };
        if let Some(existing) = self.settings.get(&()) {
            if *existing == settings {
                return Ok(ClusterOutcome::Founded);
            }
            let cluster_id = existing.cluster_id.clone();
            return Err(ClusterRefusal::AlreadyFounded { cluster_id }.into());
        }
        found.check()?;
        let highest = found.founders.iter().map(|(id, _)| id.0).max().unwrap_or(0);
        self.counter.put((), Counter { last: highest });
        self.nodes.found(&found.founders);
        self.layouts.add_those_of(Level::FIRST);
        self.past_start.put((), PastStart::default());
        self.settings.put((), settings);
        Ok(ClusterOutcome::Founded)
    }

    fn raise_level(
        &mut self,
        to: Level,
        asked: LogPosition,
        membership: Option<LogPosition>,
    ) -> Result<ClusterOutcome, ClusterRefusal> {
        let outcome = self.level.raise(to, asked, membership)?;
        self.set_level(to);
        self.layouts.add_those_of(to);
        Ok(outcome)
    }
}
