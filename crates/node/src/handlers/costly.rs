//! Requests for many IDs or values: clients take turns for the processors that write the answers.
//!
//! A request takes its turn once it has what it writes. One that waits for ticks of the clock or for
//! the log keeps no processor from others.

use seqd_api::{ErrorCode, Problem};

use crate::http::Request;
use crate::services::Services;
use crate::turns::Turn;

/// So many IDs or values are written without a turn: they cost about as much as the request itself.
const FEW: u64 = 100;

/// A turn to write so many IDs or values; `None` where they are few.
pub(super) async fn to_write(
    node: &Services,
    request: &Request,
    count: Option<u64>,
) -> Result<Option<Turn>, Problem> {
    if count.unwrap_or(1) <= FEW {
        return Ok(None);
    }
    let turn = node.writing.take(request.tenant, 1, request.deadline).await;
    let turn = turn.ok_or_else(|| {
        let detail = "as many long answers as this node writes at once are before this one";
        Problem::new(ErrorCode::Overloaded, detail)
            .with_hint("ask for fewer at once, or another node")
    })?;
    // Writing does not wait. So requests that have come meanwhile join the queue here; otherwise they
    // would be served in the order in which they came.
    tokio::task::yield_now().await;
    Ok(Some(turn))
}
