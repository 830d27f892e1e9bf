//! Timestamps that increase over all nodes.

use std::sync::Arc;

use seqd_api::{Timestamps, TimestampsRequest};
use seqd_state::{Draw, DrawFrom};
use tokio::time::Instant;

use super::error::{ServiceError, count_within};
use crate::replica::Replica;

pub(crate) struct TimestampService {
    pub(crate) replica: Arc<dyn Replica>,
}

impl TimestampService {
    pub(crate) async fn next(
        &self,
        request: &TimestampsRequest,
        deadline: Instant,
    ) -> Result<Timestamps, ServiceError> {
        let count = count_within(request.count, TimestampsRequest::MAX_COUNT)?;
        let from = DrawFrom::Timestamps;
        let drawn = self.replica.draw(Draw { from, count }, deadline).await?;
        Ok(Timestamps::new(drawn.range.first.cast_unsigned(), count))
    }
}
