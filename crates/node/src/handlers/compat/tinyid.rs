//! TinyID of Didi: a biz type is a sequence. A segment is a run of its values, in the form that
//! TinyID's client counts through by itself.

use std::sync::Arc;

use seqd_api::{
    ErrorCode, GrantRequest, Mode, Need, NextRequest, Operation, Problem, Range, Typed as _, op,
};
use serde_json::json;

use super::{JSON, response, spring};
use crate::access::Caller;
use crate::admission::Admitted;
use crate::handlers::costly;
use crate::http::{Foreign, Response};
use crate::services::{Services, sequence_name};

/// The most IDs of one request.
const MOST: i32 = 100_000;

/// The number of values of a segment if the mode of the sequence is not `segment`. All of them pass
/// through the log together.
const OF_OTHER_MODES: u64 = 1000;

/// TinyID's client loads the next segment when this part of one is used.
const LOADING_PERCENT: i64 = 20;

/// The operation of a request that a token of TinyID permits.
static WITH_OWN_TOKEN: Operation = Operation::local(Need::Nothing);

/// An error in the form of TinyID.
enum Refused {
    Token,
    Other(String),
}

/// A run of values.
#[derive(Clone, Copy)]
struct Run {
    first: i64,
    last: i64,
    increment: i64,
}

pub(super) async fn ids(node: Arc<Services>, from: Foreign) -> Response {
    let count = match count(&from) {
        Ok(count) => count,
        Err(message) => return spring::bad_request(&node, &from, &message),
    };
    let taken = take(&node, &from, count).await;
    enveloped(taken.map(|ids| format!("[{ids}]")))
}

pub(super) async fn ids_simple(node: Arc<Services>, from: Foreign) -> Response {
    match count(&from) {
        Ok(count) => {
            let taken = take(&node, &from, count).await;
            spring::text(&from, taken.unwrap_or_default())
        }
        Err(message) => spring::bad_request(&node, &from, &message),
    }
}

pub(super) async fn segment(node: Arc<Services>, from: Foreign) -> Response {
    let segment = run(&node, &from).await.map(|run| {
        let [current, loading, last, delta, remainder] = run.fields();
        format!(
            r#"{{"maxId":{last},"loadingId":{loading},"currentId":{current},"delta":{delta},"remainder":{remainder}}}"#
        )
    });
    enveloped(segment)
}

pub(super) async fn segment_simple(node: Arc<Services>, from: Foreign) -> Response {
    let segment = run(&node, &from).await;
    let segment = segment.map(|run| run.fields().map(|field| field.to_string()).join(","));
    spring::text(&from, segment.unwrap_or_default())
}

impl Run {
    /// The value before the first one, the value at which the client loads the next segment, the
    /// last value, the increment, and the remainder. The client uses the values that have this
    /// remainder, beginning above the first field.
    fn fields(self) -> [i64; 5] {
        let Run {
            first,
            last,
            increment,
        } = self;
        let current = first.saturating_sub(1);
        let length = last.saturating_sub(current);
        // The product of a length of up to 2^63 does not fit into 64 bits.
        let loading = (i128::from(length) * i128::from(LOADING_PERCENT) / 100) as i64;
        let loading = current.saturating_add(loading);
        [
            current,
            loading,
            last,
            increment,
            first.rem_euclid(increment),
        ]
    }
}

fn enveloped(data: Result<String, Refused>) -> Response {
    let (data, code, message) = match data {
        Ok(data) => (data, 200, String::new()),
        Err(Refused::Token) => ("null".to_owned(), 5, "token is error".to_owned()),
        Err(Refused::Other(message)) => ("null".to_owned(), 6, message),
    };
    let message = json!(message);
    let body = format!(r#"{{"data":{data},"code":{code},"message":{message}}}"#);
    response(200, JSON, body)
}

/// The number of IDs that a request asks for.
fn count(from: &Foreign) -> Result<i32, String> {
    let text = from.field("batchSize").unwrap_or_default();
    let text = text.trim();
    if text.is_empty() {
        return Ok(1);
    }
    text.parse().map_err(|_| {
        format!(
            "Failed to convert value of type 'java.lang.String' to required type \
             'java.lang.Integer'; nested exception is java.lang.NumberFormatException: For input \
             string: \"{text}\""
        )
    })
}

/// Takes IDs, comma-separated.
async fn take(node: &Services, from: &Foreign, count: i32) -> Result<String, Refused> {
    let served = serve(
        node,
        from,
        op::NextValues::ROW,
        async |biz_type, admitted| {
            if count > MOST {
                let detail = format!("batchSize is at most {MOST}, not {count}");
                return Err(Problem::new(ErrorCode::CountTooLarge, detail));
            }
            let request = NextRequest {
                count: Some(u64::try_from(count).unwrap_or(0)),
                ..NextRequest::default()
            };
            let name = sequence_name(biz_type)?;
            if count <= 0 {
                node.sequences.get(&name, false, admitted.deadline).await?;
                return Ok(String::new());
            }
            let next = node
                .sequences
                .next(&name, &request, false, admitted.deadline);
            let next = next.await?;
            let _place = costly::to_write(&node.writing, admitted.tenant, next.count).await;
            let mut out = String::with_capacity(usize::try_from(next.count).unwrap_or(0) * 12);
            for value in next.each() {
                if !out.is_empty() {
                    out.push(',');
                }
                out.push_str(&value.to_string());
            }
            Ok(out)
        },
    );
    served.await
}

/// Takes a run of values.
async fn run(node: &Services, from: &Foreign) -> Result<Run, Refused> {
    let served = serve(
        node,
        from,
        op::GrantSegment::ROW,
        async |biz_type, admitted| {
            let (name, deadline) = (sequence_name(biz_type)?, admitted.deadline);
            let known = match node.sequences.get(&name, true, deadline).await {
                Ok(known) => known,
                // It may have been created a moment ago through another node.
                Err(_) => node.sequences.get(&name, false, deadline).await?,
            };
            let (first, last, increment) = if known.mode == Mode::Segment {
                let grant = GrantRequest::default();
                let granted = (node.sequences).grant_segment(name, &grant, false, deadline);
                let grant = granted.await?;
                (grant.first, grant.last, grant.increment)
            } else {
                let request = NextRequest {
                    count: Some(OF_OTHER_MODES),
                    contiguous: Some(true),
                    ..NextRequest::default()
                };
                let next = node.sequences.next(&name, &request, false, deadline);
                let next = next.await?;
                let range = next.ranges.first().copied();
                let range = range.unwrap_or(Range {
                    first: 1,
                    last: 0,
                    count: 0,
                });
                (range.first, range.last, next.increment)
            };
            if increment <= 0 {
                let detail = "a segment of TinyID ascends, and this sequence descends";
                return Err(Problem::new(ErrorCode::InvalidArgument, detail));
            }
            Ok(Run {
                first,
                last,
                increment,
            })
        },
    );
    served.await
}

/// Serves a request of a caller with a token of TinyID or of the cluster.
async fn serve<T>(
    node: &Services,
    from: &Foreign,
    operation: &'static Operation,
    work: impl AsyncFnOnce(&str, Admitted) -> Result<T, Problem>,
) -> Result<T, Refused> {
    let biz_type: &str = &from.field("bizType").unwrap_or_default();
    if biz_type.is_empty() {
        return Err(Refused::Token);
    }
    let operation = match &node.tiny_id {
        Some(tokens) if from.caller() == Caller::Anyone => {
            let token = from.field("token").unwrap_or_default();
            if !tokens.permit(&token, biz_type) {
                from.hold_back(ErrorCode::Unauthorized).await;
                return Err(Refused::Token);
            }
            &WITH_OWN_TOKEN
        }
        _ => operation,
    };
    let served = from.serve(operation, biz_type, async |admitted| {
        work(biz_type, admitted).await
    });
    served.await.map_err(|problem| {
        if problem.is(ErrorCode::NotFound) || sequence_name(biz_type).is_err() {
            return Refused::Other(format!("can not find biztype:{biz_type}"));
        }
        if problem.is(ErrorCode::Forbidden) || problem.is(ErrorCode::Unauthorized) {
            return Refused::Token;
        }
        Refused::Other(format!("{}: {}", problem.code, problem.detail))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that TinyID's client takes from a segment.
    fn counted(first: i64, last: i64, increment: i64) -> Vec<i64> {
        let run = Run {
            first,
            last,
            increment,
        };
        let [current, _, last, delta, remainder] = run.fields();
        let fits = |value: &i64| value % delta == remainder;
        (current + 1..=last).filter(fits).collect()
    }

    #[test]
    fn a_client_counts_through_the_values_of_a_segment() {
        assert_eq!(counted(1, 5, 1), [1, 2, 3, 4, 5]);
        assert_eq!(counted(1, 21, 10), [1, 11, 21]);
        assert_eq!(counted(7, 13, 3), [7, 10, 13]);
        let fields = |first, last| {
            let increment = 1;
            Run {
                first,
                last,
                increment,
            }
            .fields()
        };
        assert_eq!(fields(1, 10_000)[..2], [0, 2000]);
        assert_eq!(fields(i64::MAX - 1, i64::MAX)[0], i64::MAX - 2);
    }
}
