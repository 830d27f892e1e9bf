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
    /// Refuses an unknown version, and a count out of range.
    pub(crate) fn check(
        &self,
        version: Option<u8>,
        count: Option<u64>,
    ) -> Result<(u8, usize), ServiceError> {
        let count = count_within(count, u64::from(self.max_count))?;
        let version = version.unwrap_or(7);
        if !matches!(version, 4 | 7) {
            let detail = format!("version is 7 or 4, not {version}");
            return Err(RequestError::Invalid(detail).into());
        }
        Ok((version, usize::try_from(count).unwrap_or_default()))
    }

    /// Makes `count` UUIDs (default 1) of `version` (default 7).
    pub(crate) fn make(
        &self,
        version: Option<u8>,
        count: Option<u64>,
    ) -> Result<Vec<Uuid>, ServiceError> {
        let uuids = match self.check(version, count)? {
            (4, count) => self.source.version_4(count),
            (_, count) => self.source.version_7(self.clock.wall(), count),
        };
        uuids.map_err(|error| ServiceError::Internal(error.to_string()))
    }
}
