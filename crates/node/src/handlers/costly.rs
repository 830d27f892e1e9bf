//! Lets tenants take turns for the processors when long responses are written.
//!
//! A request takes a place only once it has the values to write. A request that waits for ticks of
//! the clock or for the log therefore occupies no processor. Since its values are already
//! allocated, the request is no longer refused, and waits for a place even beyond its deadline.

use std::sync::Arc;

use seqd_state::Tenant;

use crate::places::{Place, Places};

/// Up to this many IDs or values are written without a place: they cost about as much as the
/// request itself.
const FEW: u64 = 100;

/// Waits for a place to write `count` IDs or values; `None` if they are few.
pub(super) async fn to_write(places: &Arc<Places>, tenant: Tenant, count: u64) -> Option<Place> {
    if count <= FEW {
        return None;
    }
    let place = places.take(tenant, 1).await;
    // Writing does not yield. Yielding here lets requests that have arrived join the queue;
    // otherwise they would be served in the order of arrival.
    tokio::task::yield_now().await;
    place
}
