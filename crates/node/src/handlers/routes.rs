//! The table of paths with their handlers, and a short way to the hottest.

use std::sync::Arc;

use axum::body::Body;
use axum::http;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use seqd_api::paths;
use seqd_api::routes::Method::{self, Delete, Get, Patch, Post, Put};

use super::keyed::{keyed, one_id};
use super::{
    access, cluster, ids, keys, layouts, locks, node, one_time, segments, sequences, snapshot,
    uuids, workers,
};
use crate::connections::{Answered, Unreadable};
use crate::http::{Context, Endpoint, Extras, Media, Path, Stranger, build};
use crate::services::Services;

/// Text where nothing is asked for.
const TEXT_FIRST: &[Media] = &[Media::Text, Media::Json];
/// JSON where nothing is asked for.
const JSON_FIRST: &[Media] = &[Media::Json, Media::Text];
const JSON: &[Media] = &[Media::Json];
const BYTES: &[Media] = &[Media::Bytes];
const METRICS: &[Media] = &[Media::Metrics, Media::OpenMetrics];

/// All paths of the clients' port.
#[derive(Clone)]
pub(crate) struct Router {
    stranger: Arc<Stranger>,
    router: axum::Router,
    id: Arc<Endpoint<Services>>,
}

impl Router {
    pub(crate) fn new(context: Context, services: &Arc<Services>) -> Router {
        let context = Arc::new(context);
        Router {
            stranger: Stranger::new(&context),
            router: build(table(), &context, services),
            id: Endpoint::new(
                &context,
                services,
                paths::ID,
                Method::Get,
                TEXT_FIRST,
                Extras {
                    takes_key: true,
                    ..Extras::default()
                },
            ),
        }
    }

    /// The answer to a head that cannot be read.
    pub(crate) fn unreadable(&self) -> Unreadable {
        let stranger = Arc::clone(&self.stranger);
        Arc::new(move |status| stranger.unreadable(status))
    }

    /// Answers a request. `GET /v1/id` does not pass the router, whose boxes and clones cost as
    /// much as the ID; the router has the path too, for the other methods.
    ///
    /// The box of each way has room for its own alone.
    pub(crate) fn answer(&self, mut request: http::Request<Body>) -> Answered<Body> {
        let stranger = Arc::clone(&self.stranger);
        if *request.method() == http::Method::GET && request.uri().path() == paths::ID {
            let id = Arc::clone(&self.id);
            return Box::pin(async move {
                match stranger.refuse(&mut request).await {
                    Some(refused) => refused,
                    None => id.serve(request, one_id).await,
                }
            });
        }
        let router = self.router.clone();
        Box::pin(async move {
            if let Some(refused) = stranger.refuse(&mut request).await {
                return refused;
            }
            let Ok(response) = TowerToHyperService::new(router).call(request).await;
            response
        })
    }
}

fn at(path: &'static str, media: &'static [Media]) -> Path<Services> {
    Path::new(path, media)
}

fn table() -> Vec<Path<Services>> {
    [
        identifiers(),
        sequences_and_segments(),
        keys_and_tokens(),
        of_locks(),
        of_the_cluster(),
        of_this_node(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn identifiers() -> Vec<Path<Services>> {
    vec![
        at(paths::ID, TEXT_FIRST)
            .on_keyed(Get, keyed(ids::one))
            .on_keyed(Post, keyed(ids::one)),
        at(paths::IDS, JSON_FIRST)
            .on_keyed(Get, keyed(ids::many))
            .on_keyed(Post, keyed(ids::many)),
        at(paths::ID_PARTS, JSON).on(Get, ids::parts),
        at(paths::UUID, TEXT_FIRST)
            .on(Get, uuids::one)
            .on(Post, uuids::one),
        at(paths::UUIDS, JSON_FIRST)
            .on(Get, uuids::many)
            .on(Post, uuids::many),
        at(paths::LAYOUTS, JSON)
            .on(Get, layouts::list)
            .on_or_dry(Post, layouts::create),
        at(paths::LAYOUT, JSON).on(Get, layouts::get),
        at(paths::LAYOUT_ENCODE, JSON).on(Post, layouts::encode),
    ]
}

fn sequences_and_segments() -> Vec<Path<Services>> {
    vec![
        at(paths::SEQUENCES, JSON).on(Get, sequences::list),
        at(paths::SEQUENCE, JSON)
            .on(Get, sequences::get)
            .on_or_dry(Put, sequences::put)
            .on_or_dry(Patch, sequences::patch)
            .on_or_dry(Delete, sequences::delete),
        at(paths::SEQUENCE_NEXT, JSON_FIRST).on_keyed(Post, keyed(sequences::next)),
        at(paths::SEQUENCE_ADVANCE, JSON).on_or_dry(Post, sequences::advance),
        at(paths::SEGMENTS, JSON).on_keyed(Post, keyed(segments::grant)),
        at(paths::SEGMENT, JSON).on(Delete, segments::give_back),
    ]
}

fn keys_and_tokens() -> Vec<Path<Services>> {
    vec![
        at(paths::KEYS, JSON)
            .on(Get, keys::list)
            .on_or_dry(Delete, keys::delete_matching),
        at(paths::KEY, JSON)
            .on(Get, keys::get)
            .on_or_dry(Delete, keys::delete),
        at(paths::KEY_BEGIN, JSON).on(Post, keys::begin),
        at(paths::KEY_COMPLETE, JSON).on(Post, keys::complete),
        at(paths::KEY_ABANDON, JSON).on(Post, keys::abandon),
        at(paths::ONE_TIME, JSON)
            .on(Get, one_time::list)
            .on(Post, one_time::issue)
            .on_or_dry(Delete, one_time::delete_matching),
        at(paths::ONE_TIME_TOKEN, JSON).on_or_dry(Delete, one_time::delete),
        at(paths::ONE_TIME_CONSUME, JSON).on(Post, one_time::consume),
    ]
}

fn of_locks() -> Vec<Path<Services>> {
    vec![
        at(paths::LOCKS, JSON).on(Get, locks::list),
        at(paths::LOCK, JSON).on(Get, locks::get),
        at(paths::LOCK_ACQUIRE, JSON).on(Post, locks::acquire),
        at(paths::LOCK_RENEW, JSON).on(Post, locks::renew),
        at(paths::LOCK_RELEASE, JSON).on(Post, locks::release),
        at(paths::LOCK_BREAK, JSON).on_or_dry(Post, locks::break_holds),
        at(paths::LOCK_VERIFY, JSON).on(Post, locks::verify),
    ]
}

fn of_the_cluster() -> Vec<Path<Services>> {
    vec![
        at(paths::WORKERS, JSON)
            .on(Get, workers::list)
            .on(Post, workers::take),
        at(paths::WORKER_LEASE, JSON)
            .on(Put, workers::renew)
            .on(Delete, workers::release),
        at(paths::CLUSTER, JSON).on(Get, cluster::show),
        at(paths::MEMBERS, JSON)
            .on(Get, cluster::members)
            .on_or_dry(Post, cluster::add),
        at(paths::MEMBER, JSON).on_or_dry(Delete, cluster::remove),
        at(paths::MEMBER_PROMOTE, JSON).on_or_dry(Post, cluster::promote),
        at(paths::MEMBER_RESET_WORKERS, JSON).on_or_dry(Post, cluster::reset_workers),
        at(paths::LEADER, JSON).on_or_dry(Post, cluster::move_leader),
        at(paths::ACCESS, JSON)
            .on(Get, access::list)
            .on_or_dry(Post, access::create),
        at(paths::ACCESS_TOKEN, JSON).on_or_dry(Delete, access::revoke),
        at(paths::SNAPSHOT, BYTES).on(Get, snapshot::get),
    ]
}

fn of_this_node() -> Vec<Path<Services>> {
    vec![
        at(paths::CONFIG, JSON_FIRST).on(Get, node::config),
        at(paths::LIVEZ, TEXT_FIRST).on(Get, node::livez),
        at(paths::READYZ, TEXT_FIRST).on(Get, node::readyz),
        at(paths::METRICS, METRICS).on(Get, node::metrics),
        at(paths::VERSION, JSON_FIRST).on(Get, node::version),
        at(paths::PROBLEM, JSON_FIRST).on(Get, node::problem),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use seqd_api::routes::ROUTES;

    use super::*;

    #[test]
    fn the_routes_of_the_contract_are_served_and_no_others() {
        let served = table().into_iter().map(|path| (path.path, path.methods()));
        let served: BTreeMap<&str, Vec<Method>> = served.collect();
        let contract = ROUTES
            .iter()
            .map(|route| (route.path, route.methods.to_vec()));
        assert_eq!(served, contract.collect());
    }
}
