//! The applied state and the time that commands read, beside the table that they change.

use seqd_idgen::{Layout, Tick, TickError, WallMs};

use crate::cluster::nodes::NodeRecord;
use crate::cluster::restoration::RestorationRecord;
use crate::cluster::settings::Settings;
use crate::layouts::LayoutRecord;
use crate::newtypes::ClusterMs;
use crate::table::Table;
use crate::workers::commands::WorkerRefusal;

pub(crate) struct ApplyContext<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) layouts: &'a Table<LayoutRecord>,
    pub(crate) nodes: &'a Table<NodeRecord>,
    pub(crate) restoration: Option<&'a RestorationRecord>,
    pub(crate) wall_ms: WallMs,
    /// The applied cluster time.
    pub(crate) cluster_ms: ClusterMs,
}

impl<'a> ApplyContext<'a> {
    pub(crate) fn layout(&self, name: &str) -> Result<&'a Layout, WorkerRefusal> {
        self.layouts
            .named(name)
            .ok_or_else(|| WorkerRefusal::UnknownLayout {
                layout: name.to_owned(),
            })
    }

    pub(crate) fn tick(&self, layout: &Layout) -> Result<Tick, WorkerRefusal> {
        layout.tick_at(self.wall_ms).map_err(|error| match error {
            TickError::BeforeEpoch => WorkerRefusal::BeforeLayoutEpoch {
                layout: layout.name().to_owned(),
                epoch_ms: layout.spec().epoch_ms,
                wall_ms: self.wall_ms,
            },
            TickError::TimeFull => WorkerRefusal::LayoutExhausted {
                layout: layout.name().to_owned(),
                since: layout.exhausted_at(),
            },
        })
    }

    /// Refuses a fence above the bound in the invariants of `workers::record`.
    pub(crate) fn check_fence(&self, layout: &Layout, asked: Tick) -> Result<(), WorkerRefusal> {
        let reach_ms = self.settings.fence_reach_ms(layout);
        let limit = layout.fence_at(WallMs(self.wall_ms.0.saturating_add(reach_ms)));
        if asked > limit {
            return Err(WorkerRefusal::FenceTooFar { asked, limit });
        }
        Ok(())
    }

    pub(crate) fn expiry(&self, layout: &Layout, used: ClusterMs) -> ClusterMs {
        ClusterMs(used.0.saturating_add(self.settings.window_ms_for(layout)))
    }
}
