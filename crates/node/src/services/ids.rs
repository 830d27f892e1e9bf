//! Snowflake IDs: minting and decoding.

use std::sync::Arc;

use seqd_api::{IdFormat, IdParts, IdPartsQuery};
use seqd_idgen::{Layout, SnowflakeId};
use tokio::time::Instant;

use super::error::{RequestError, ServiceError, count_within};
use super::layouts;
use crate::minting::{ClockWatch, Minted, Minter, Minters};
use crate::replica::Replica;
use crate::times::rfc3339;

pub(crate) struct IdService {
    pub(crate) minters: Arc<Minters>,
    pub(crate) clock: Arc<ClockWatch>,
    pub(crate) replica: Arc<dyn Replica>,
    pub(crate) max_count: u32,
}

impl IdService {
    /// The minter of a layout; that of the default layout if none is named.
    pub(crate) fn minter(&self, layout: Option<&str>) -> Result<Arc<Minter>, ServiceError> {
        let Some(name) = layout else {
            return Ok(Arc::clone(self.minters.default()));
        };
        let minter = self.minters.of(name);
        Ok(minter.ok_or_else(|| layouts::unknown(&*self.replica, name))?)
    }

    /// The name of a layout, and the number of bits of its IDs; no worker is leased for it.
    pub(crate) async fn layout(
        &self,
        layout: Option<&str>,
        deadline: Instant,
    ) -> Result<(String, u32), ServiceError> {
        let of = |layout: &Layout| (layout.name().to_owned(), layout.bits());
        match layout {
            None => Ok(of(self.minters.default().layout())),
            Some(name) => {
                let found = layouts::find_anywhere(&*self.replica, name, deadline).await;
                Ok(of(&found?))
            }
        }
    }

    pub(crate) fn check_count(&self, count: Option<u64>) -> Result<(), ServiceError> {
        count_within(count, u64::from(self.max_count))?;
        Ok(())
    }

    pub(crate) async fn one(
        &self,
        minter: &Minter,
        deadline: Instant,
    ) -> Result<Minted, ServiceError> {
        Ok(minter.mint(&self.clock, 1, deadline).await?)
    }

    /// Mints `count` IDs of one worker; one if `count` is absent.
    pub(crate) async fn many(
        &self,
        minter: &Minter,
        count: Option<u64>,
        deadline: Instant,
    ) -> Result<Minted, ServiceError> {
        let count = count_within(count, u64::from(self.max_count))?;
        let count = u32::try_from(count).unwrap_or(self.max_count);
        Ok(minter.mint_in_turn(&self.clock, count, deadline).await?)
    }

    /// Mints `count` IDs of a layout, which may have been created through another node.
    pub(crate) async fn of_layout(
        &self,
        layout: &str,
        count: u64,
        deadline: Instant,
    ) -> Result<Minted, ServiceError> {
        self.check_count(Some(count))?;
        self.layout(Some(layout), deadline).await?;
        let minter = self.minter(Some(layout))?;
        match count {
            1 => self.one(&minter, deadline).await,
            _ => self.many(&minter, Some(count), deadline).await,
        }
    }

    /// The fields of an ID, and the holder of its worker.
    pub(crate) async fn parts(
        &self,
        text: &str,
        query: &IdPartsQuery,
        deadline: Instant,
    ) -> Result<IdParts, ServiceError> {
        let layout = layouts::find(&*self.replica, query.layout.as_deref().unwrap_or("default"))?;
        let format = match query.format.as_deref() {
            None => IdFormat::Dec,
            Some(name) => name.parse().map_err(RequestError::invalid)?,
        };
        let id = format.parse(text).map_err(RequestError::invalid)?;
        let parts = layout.unpack(SnowflakeId::from_u64(id));
        let parts = parts.map_err(RequestError::invalid)?;
        let at = layout.wall_at(parts.tick);
        let found = self.origin(&layout, &parts, deadline).await;
        Ok(IdParts {
            id,
            layout: layout.name().to_owned(),
            time: rfc3339(at),
            unix_ms: i64::try_from(at.0).unwrap_or(i64::MAX),
            tick: parts.tick.0,
            datacenter: layout.datacenter_of(parts.worker),
            worker: layout.worker_in_datacenter(parts.worker),
            sequence: parts.sequence,
            hex: IdFormat::Hex.encode(id),
            base62: IdFormat::Base62.encode(id),
            crockford: IdFormat::Crockford.encode(id),
            holder: found.holder,
            origin: Some(found.origin.to_owned()),
            origin_detail: Some(found.detail),
        })
    }
}
