//! The options of a generator.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use seqd_idgen::{ClockPolicy, WallClock};

use super::error::GenerateError;
use crate::system_clock::SystemClock;

/// The longest owner that a cluster accepts, in bytes.
const MAX_OWNER_BYTES: usize = 255;

/// The default patience: a slow election and the recovery after it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The options of a generator. [`GeneratorOptions::new`] returns the defaults.
#[derive(Clone)]
pub struct GeneratorOptions {
    /// The layout of the IDs. The default is `default`.
    pub layout: String,
    /// The owner of the worker: a host, pod or service name of 1 to 255 bytes without control
    /// characters. After a clean stop, the same owner receives the same worker again if it is free.
    /// Two generators with the same owner hold two workers.
    pub owner: String,
    /// The datacenter, for a layout that has datacenters. Any datacenter by default.
    pub datacenter: Option<u32>,
    /// The tolerances for the wall clock. The defaults are those of the server.
    pub clock: ClockPolicy,
    /// The time for which a call waits for a tick, a lease or a free worker. The default is 5 s.
    pub patience: Duration,
    /// The wall clock. The default is the clock of the operating system.
    pub wall_clock: Arc<dyn WallClock>,
}

impl GeneratorOptions {
    /// Returns the defaults for this owner: the layout `default`, the clock of the operating
    /// system, and the tolerances of the server.
    pub fn new(owner: impl Into<String>) -> Self {
        Self {
            layout: "default".to_owned(),
            owner: owner.into(),
            datacenter: None,
            clock: ClockPolicy::default(),
            patience: PATIENCE,
            wall_clock: Arc::new(SystemClock),
        }
    }

    pub(super) fn check(&self) -> Result<(), GenerateError> {
        let length = self.owner.len();
        let is_owner =
            (1..=MAX_OWNER_BYTES).contains(&length) && !self.owner.chars().any(char::is_control);
        if is_owner {
            Ok(())
        } else {
            Err(GenerateError::Owner {
                owner: self.owner.clone(),
            })
        }
    }
}

impl fmt::Debug for GeneratorOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeneratorOptions")
            .field("layout", &self.layout)
            .field("owner", &self.owner)
            .field("datacenter", &self.datacenter)
            .field("clock", &self.clock)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}
