//! The context that all endpoints share, and the exit of each response: it is counted and gets the
//! common headers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{self, HeaderValue};
use seqd_api::{ErrorCode, Problem};
use seqd_state::Share;
use tokio::time::Instant;

use super::gate::{REQUEST_ID, RequestIds, SEQD_NODE};
use super::hosts::Hosts;
use super::lanes::Lanes;
use super::meter::Meter;
use super::request::Bodies;
use super::response::Response;
use crate::access::Access;
use crate::metrics::HttpMetrics;

/// Returns the ID of this node's cluster. Called only for a request that names a cluster.
pub(crate) type OwnCluster = Box<dyn Fn() -> Option<String> + Send + Sync>;

pub(crate) struct Context {
    pub(super) request_ids: RequestIds,
    pub(super) node: HeaderValue,
    /// The time limit of a request that specifies none.
    pub(super) timeout: Duration,
    pub(super) metrics: HttpMetrics,
    pub(super) cluster: OwnCluster,
    pub(super) hosts: Hosts,
    pub(super) access: Access,
    pub(super) bodies: Bodies,
    pub(super) closing: Closing,
    pub(super) lanes: Lanes,
}

/// Whether the port closes soon: requests are refused as `draining`, and their connections end. A
/// client that was disconnected instead could not determine whether it was served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closing(Arc<AtomicBool>);

impl Closing {
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn began(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Refuses requests that are not about the node's health.
    pub(super) fn check(&self, path: &str) -> Result<(), Problem> {
        if self.began() && path.starts_with("/v1/") {
            let detail = "this node is stopping";
            let problem = Problem::new(ErrorCode::Draining, detail);
            return Err(problem.with_hint("ask another node"));
        }
        Ok(())
    }
}

impl Context {
    /// The lanes of clients, for the task that maintains them.
    pub(crate) fn lanes(&self) -> Lanes {
        self.lanes.clone()
    }

    /// The switch that refuses requests before the port closes.
    pub(crate) fn closing(&self) -> Closing {
        self.closing.clone()
    }

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
            timeout,
            metrics: metrics.clone(),
            cluster,
            hosts: Hosts::default(),
            access: Access::default(),
            bodies: Bodies::new(Share::WHOLE),
            closing: Closing::default(),
            lanes: Lanes::default(),
        })
    }

    /// Sets the host names under which the node accepts requests. The default is the loopback
    /// names.
    pub(crate) fn with_hosts(self, hosts: Hosts) -> Context {
        Context { hosts, ..self }
    }

    /// Limits the share of memory for bodies that one tenant may hold.
    pub(crate) fn with_share(self, share: Share) -> Context {
        let bodies = Bodies::new(share);
        Context { bodies, ..self }
    }

    /// Requires tokens from callers.
    pub(crate) fn with_access(self, access: Access) -> Context {
        Context { access, ..self }
    }
}

/// The exit of the responses of one path and method.
pub(super) struct Exit {
    pub(super) context: Arc<Context>,
    meter: Meter,
}

impl Exit {
    pub(super) fn new(context: &Arc<Context>, path: &'static str, method: &'static str) -> Exit {
        Exit {
            meter: Meter::new(&context.metrics, path, method),
            context: Arc::clone(context),
        }
    }

    pub(super) fn finish(
        &self,
        response: Response,
        id: HeaderValue,
        started: Instant,
    ) -> http::Response<Body> {
        self.meter.answered(response.status(), started.elapsed());
        let mut response = response.into_http();
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, id);
        headers.insert(SEQD_NODE, self.context.node.clone());
        if self.context.closing.began() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
