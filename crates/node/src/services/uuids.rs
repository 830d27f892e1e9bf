//! UUIDs.

use std::sync::Arc;

use uuid::Uuid;

use super::error::{RequestError, ServiceError, count_within};
use crate::minting::ClockWatch;
use crate::minting::uuids::UuidSource;

pub(crate) struct UuidService {
    pub(crate) source: UuidSource,
    pub(crate) clock: Arc<ClockWatch>,
    pub(crate) max_count: u32,
}

impl UuidService {
    /// Makes `count` UUIDs (default 1) of `version` (default 7).
    pub(crate) fn make(
        &self,
        version: Option<u8>,
        count: Option<u64>,
    ) -> Result<Vec<Uuid>, ServiceError> {
        let count = count_within(count, u64::from(self.max_count))?;
        let count = usize::try_from(count).unwrap_or_default();
        let uuids = match version.unwrap_or(7) {
            7 => self.source.version_7(self.clock.wall(), count),
            4 => self.source.version_4(count),
            other => {
                let detail = format!("version is 7 or 4, not {other}");
                return Err(RequestError::Invalid(detail).into());
            }
        };
        uuids.map_err(|error| ServiceError::Internal(error.to_string()))
    }
}
