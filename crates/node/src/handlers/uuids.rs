//! `/v1/uuid` and `/v1/uuids`

use std::sync::Arc;

use seqd_api::{Media, Problem, Typed as _, Uuid, UuidQuery, Uuids, op};
use seqd_state::Tenant;

use super::{costly, decode_one};
use crate::http::{Request, Response};
use crate::places::Places;
use crate::problems::internal;
use crate::services::{Services, UuidService};

pub(super) async fn one(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let query: UuidQuery = decode_one(&request, op::GetUuid::ROW, op::GetUuids::ROW.path)?;
    let uuid = node.uuids.make(query.version, None)?.pop();
    let uuid = uuid
        .ok_or_else(|| internal(&"no UUID was made"))?
        .to_string();
    if request.media == Media::Text {
        return Ok(Response::text(uuid + "\n"));
    }
    Response::json(&Uuid { uuid })
}

pub(super) async fn many(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let query: UuidQuery = request.decode()?;
    let is_text = request.media == Media::Text;
    write(&node.uuids, &node.writing, request.tenant, &query, is_text).await
}

async fn write(
    service: &UuidService,
    places: &Arc<Places>,
    tenant: Tenant,
    query: &UuidQuery,
    is_text: bool,
) -> Result<Response, Problem> {
    service.check(query.version, query.count)?;
    let _place = costly::to_write(places, tenant, query.count.unwrap_or(1)).await;
    let uuids = service.make(query.version, query.count)?;
    let uuids: Vec<String> = uuids.iter().map(ToString::to_string).collect();
    if is_text {
        let mut text = uuids.join("\n");
        text.push('\n');
        return Ok(Response::text(text));
    }
    Response::json(&Uuids { uuids })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seqd_idgen::ClockPolicy;
    use tokio::time::timeout;

    use super::*;
    use crate::minting::ClockWatch;
    use crate::minting::uuids::UuidSource;
    use crate::test_replica::{NOON, TestClock};

    #[tokio::test(start_paused = true)]
    async fn an_invalid_request_is_refused_without_a_place() {
        let service = UuidService {
            source: UuidSource::default(),
            clock: Arc::new(ClockWatch::alone(
                TestClock::at(NOON),
                ClockPolicy::default(),
                None,
            )),
            max_count: 10_000,
        };
        let places = Places::new(1);
        let _taken = places.take(Tenant::OPERATOR, 1).await;
        let written = async |version, count| {
            let (version, count) = (Some(version), Some(count));
            let query = UuidQuery { version, count };
            let write = write(&service, &places, Tenant::OPERATOR, &query, false);
            timeout(Duration::from_secs(60), write).await
        };
        for (version, count) in [(5, 10_000), (7, 10_001)] {
            let refused = written(version, count).await;
            assert!(refused.is_ok_and(|refused| refused.is_err()));
        }
        assert!(written(4, 10_000).await.is_err(), "it had no place");
    }
}
