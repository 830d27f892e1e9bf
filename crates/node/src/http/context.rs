//! The context that all endpoints share, and the exit of each response: it is counted and gets the
//! common headers.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{self, HeaderValue};
use seqd_state::Share;
use tokio::time::Instant;

use super::gate::{REQUEST_ID, RequestIds, SEQD_NODE};
use super::hosts::Hosts;
use super::request::Bodies;
use super::response::Response;
use crate::access::Access;
use crate::admission::{Admission, Meter};
use crate::metrics::HttpMetrics;

/// Returns the ID of this node's cluster. Called only for a request that names a cluster.
pub(crate) type OwnCluster = Box<dyn Fn() -> Option<String> + Send + Sync>;

pub(crate) struct Context {
    pub(super) request_ids: RequestIds,
    pub(super) node: HeaderValue,
    pub(super) admission: Admission,
    pub(super) metrics: HttpMetrics,
    pub(super) cluster: OwnCluster,
    pub(super) hosts: Hosts,
    pub(super) bodies: Bodies,
    /// The beginning of paths whose handlers check a token of their own, if the caller has none.
    pub(super) own_tokens: Option<&'static str>,
}

impl Context {
    /// The checks that all ports share.
    pub(crate) fn admission(&self) -> Admission {
        self.admission.clone()
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
            admission: Admission::new(timeout),
            metrics: metrics.clone(),
            cluster,
            hosts: Hosts::default(),
            bodies: Bodies::new(Share::WHOLE),
            own_tokens: None,
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

    /// Admits callers without a token to paths with this beginning.
    pub(crate) fn with_own_tokens(self, below: Option<&'static str>) -> Context {
        let own_tokens = below;
        Context { own_tokens, ..self }
    }

    /// Requires tokens from callers.
    pub(crate) fn with_access(mut self, access: Access) -> Context {
        self.admission.access = access;
        self
    }
}

/// The exit of the responses of one path and method.
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

    pub(super) fn finish(
        &self,
        response: Response,
        id: HeaderValue,
        started: Instant,
    ) -> http::Response<Body> {
        self.meter
            .answered(response.status().as_u16(), started.elapsed());
        let mut response = response.into_http();
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, id);
        headers.insert(SEQD_NODE, self.context.node.clone());
        if self.context.admission.closing.began() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
