//! How a generator is set up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use seqd_idgen::{ClockPolicy, WallClock};

use super::error::GenerateError;
use crate::system_clock::SystemClock;

/// The longest owner that a cluster takes, in bytes.
const MAX_OWNER_BYTES: usize = 255;

/// The patience where none is set: an election and what follows it, on a slow day.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a generator is set up. [`GeneratorOptions::new`] gives the defaults.
#[derive(Clone)]
pub struct GeneratorOptions {
    /// The layout of the IDs; `default` by default.
    pub layout: String,
    /// Who holds the worker: a host, pod or service name, 1 to 255 bytes without control
    /// characters. After a clean end the same name gets the same worker again, where that is free.
    /// Two generators with one name hold two workers.
    pub owner: String,
    /// The datacenter, for a layout that has some; any by default.
    pub datacenter: Option<u32>,
    /// How far the wall clock is trusted, in milliseconds; the defaults of the server.
    pub clock: ClockPolicy,
    /// How long a call waits for a tick, a lease or a free worker; 5 s by default.
    pub patience: Duration,
    /// Where readings of the wall clock come from; the operating system's clock by default.
    pub wall_clock: Arc<dyn WallClock>,
}

impl GeneratorOptions {
    /// The layout `default`, the system's clock and the server's limits for it, for this owner.
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
