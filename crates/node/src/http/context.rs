//! The context that all endpoints share, and the exit through which each response passes: it counts
//! the response and adds the common headers.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{self, HeaderMap, HeaderValue};
use seqd_state::Share;
use tokio::time::Instant;

use super::gate::{REQUEST_ID, RequestIds, SEQD_NODE};
use super::hosts::Hosts;
use super::request::Bodies;
use super::response::Response;
use super::slow::SlowLog;
use super::trace::Trace;
use crate::admission::{Admission, Meter};
use crate::metrics::HttpMetrics;

/// Returns the ID of this node's cluster. Called only for a request that names a cluster.
pub(crate) type OwnCluster = Box<dyn Fn() -> Option<String> + Send + Sync>;

pub(crate) struct Context {
    pub(super) request_ids: RequestIds,
    pub(super) node: HeaderValue,
    /// The checks that all ports share.
    pub(crate) admission: Admission,
    pub(super) metrics: HttpMetrics,
    pub(super) cluster: OwnCluster,
    /// The host names under which the node accepts requests; by default the loopback names.
    pub(crate) hosts: Hosts,
    pub(crate) bodies: Bodies,
    /// The folders of paths that admit callers without a token: pages, and routes whose handlers
    /// check a token of their own.
    pub(crate) open_folders: Vec<&'static str>,
    pub(crate) slow: SlowLog,
}

impl Context {
    /// The context of the node with this name; `None` if the name cannot be a header value.
    pub(crate) fn new(
        node: &str,
        request_ids: RequestIds,
        timeout: Duration,
        metrics: &HttpMetrics,
        cluster: OwnCluster,
    ) -> Option<Context> {
        Some(Context {
            request_ids,
            node: HeaderValue::try_from(node).ok()?,
            admission: Admission::new(timeout),
            metrics: metrics.clone(),
            cluster,
            hosts: Hosts::default(),
            bodies: Bodies::new(Share::WHOLE),
            open_folders: Vec::new(),
            slow: SlowLog::off(),
        })
    }

    /// Returns whether the path admits callers without a token.
    pub(super) fn is_open(&self, path: &str) -> bool {
        let mut rests = (self.open_folders.iter()).filter_map(|folder| path.strip_prefix(*folder));
        rests.any(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// A request as it arrived.
pub(super) struct Arrival {
    pub(super) id: HeaderValue,
    pub(super) trace: Trace,
    /// Whether the client requested a wait. Such a request is never logged as slow.
    pub(super) has_waited: bool,
    at: Instant,
}

impl Arrival {
    /// A request that arrives now.
    pub(super) fn of(context: &Context, headers: &HeaderMap) -> Arrival {
        Arrival::new(context, headers, Instant::now())
    }

    pub(super) fn new(context: &Context, headers: &HeaderMap, at: Instant) -> Arrival {
        Arrival {
            id: context.request_ids.of(headers),
            trace: Trace::of(headers),
            has_waited: false,
            at,
        }
    }
}

/// Counts the responses of one path and method, logs slow ones, and adds the common headers.
pub(super) struct Exit {
    pub(super) context: Arc<Context>,
    meter: Meter,
}

impl Exit {
    /// `usual` is the status of a success; `None` if every response is a refusal.
    pub(super) fn new(
        context: &Arc<Context>,
        path: &'static str,
        method: &'static str,
        usual: Option<u16>,
    ) -> Exit {
        Exit {
            meter: Meter::new(&context.metrics, path, method, usual),
            context: Arc::clone(context),
        }
    }

    pub(super) fn finish(&self, response: Response, arrival: Arrival) -> http::Response<Body> {
        let (status, took) = (response.status().as_u16(), arrival.at.elapsed());
        self.meter.answered(status, took);
        let slow = &self.context.slow;
        if !arrival.has_waited && slow.is_slow(took) {
            slow.log(self.meter.name(), status, took, &arrival);
        }
        let mut response = response.into_http();
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, arrival.id);
        headers.insert(SEQD_NODE, self.context.node.clone());
        if self.context.admission.closing.is_announced() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
