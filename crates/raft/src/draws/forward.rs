//! A round at a node that does not lead: one message to the leader.

use seqd_peers::wire;
use seqd_peers::wire::transport::{CallError, Link};
use seqd_state::codec::frame;
use seqd_state::{Draw, Drawn, Refusal};
use tokio::time::Instant;

use super::{DrawError, Results};
use crate::confirm::own_promise;
use crate::conversation;
use crate::handle::ProposeError;
use crate::messages::{DrawReply, DrawRequest, DrawResponse, ForwardRefusal};
use crate::node::Node;
use crate::proposer::route::{given_up, replaced, time_left};

/// Has the leader draw. `None` if it drew nothing, or its answer was lost.
pub(super) async fn round(
    node: &Node,
    (leader, addr): (u64, &str),
    (draws, waits): (Vec<Draw>, bool),
    deadline: Instant,
) -> Result<Option<Results>, ProposeError> {
    let Some(replica) = node.replica() else {
        return Ok(None);
    };
    let count = draws.len();
    let (left, timeout_ms) = time_left(deadline);
    let message = DrawRequest {
        draws,
        promised: own_promise(replica),
        timeout_ms,
        waits,
    };
    let (link, to, route) = (Link::Forward, (leader, addr), wire::route::Route::Draw);
    let asked = conversation::call(&node.context, link, to, route, message, left);
    let answer = tokio::select! {
        biased;
        answer = asked => answer,
        () = replaced(node, leader) => return Ok(None),
        lost = given_up(replica, deadline) => return Err(lost),
    };
    match answer {
        Ok(DrawReply(Ok(drawn))) if drawn.len() == count => {
            Ok(Some(drawn.into_iter().map(drawn_of).collect()))
        }
        Ok(DrawReply(Err(ForwardRefusal::Propose(error)))) => Err(error),
        Err(CallError::Unwritable(detail)) => Err(ProposeError::TooLarge { detail }),
        Ok(DrawReply(_)) | Err(_) => Ok(None),
    }
}

fn drawn_of(response: DrawResponse) -> Option<Result<Drawn, DrawError>> {
    let drawn = match response {
        DrawResponse::Short => return None,
        DrawResponse::Drawn(drawn) => Ok(drawn),
        DrawResponse::Ahead { ms } => Err(DrawError::Ahead { ms }),
        DrawResponse::ClockUnknown => Err(DrawError::ClockUnknown),
        DrawResponse::Failed(error) => Err(DrawError::Propose(error)),
        DrawResponse::Refused(refusal) => {
            let refusal: Result<Vec<Refusal>, _> = frame::read_all(&[refusal]);
            match refusal.map(|mut refusals| refusals.pop()) {
                Ok(Some(refusal)) => Err(DrawError::Refused(refusal)),
                _ => Err(DrawError::Propose(ProposeError::NoQuorum {
                    detail: "the leader's refusal cannot be read".to_owned(),
                })),
            }
        }
    };
    Some(drawn)
}
