//! Long answers: clients take turns for the processors that write them.
//!
//! A request takes its place once it has what it writes. One that waits for ticks of the clock or
//! for the log keeps no processor from others. What was taken for it is not refused any more: a
//! place comes however late.

use std::sync::Arc;

use seqd_state::Tenant;

use crate::places::{Place, Places};

/// So many IDs or values are written without a place: they cost about as much as the request
/// itself.
const FEW: u64 = 100;

/// Waits for a place to write so many IDs or values; `None` where they are few.
pub(super) async fn to_write(places: &Arc<Places>, tenant: Tenant, count: u64) -> Option<Place> {
    if count <= FEW {
        return None;
    }
    let place = places.take(tenant, 1).await;
    // Writing does not wait. So requests that have come meanwhile join the queue here; otherwise
    // they would be served in the order in which they came.
    tokio::task::yield_now().await;
    place
}
