//! The applied state and the time that a command reads in addition to the table that it changes.

use seqd_idgen::{Layout, WallMs};

use crate::cluster::nodes::NodeRecord;
use crate::cluster::restoration::RestorationRecord;
use crate::cluster::settings::Settings;
use crate::layouts::LayoutRecord;
use crate::newtypes::ClusterMs;
use crate::table::Table;

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
    pub(crate) fn expiry(&self, layout: &Layout, used: ClusterMs) -> ClusterMs {
        ClusterMs(used.0.saturating_add(self.settings.window_ms_for(layout)))
    }
}
