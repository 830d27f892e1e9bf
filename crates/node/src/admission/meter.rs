//! Counts the responses of each path and method. A success costs only three atomic additions.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;

use crate::durations::Durations;
use crate::metrics::{HttpLabels, HttpMetrics, RouteLabel};

/// Counts the responses of one path and method. The counter of its usual status exists from the
/// start. Any other series begins with its first response.
#[derive(Debug)]
pub(crate) struct Meter {
    route: &'static str,
    method: &'static str,
    all: HttpMetrics,
    /// The status of nearly all responses, with its counter.
    usual: Option<(u16, Counter<u64, AtomicU64>)>,
    duration: OnceLock<Durations>,
}

impl Meter {
    /// `usual` is the status of a success; `None` if every response is a refusal.
    pub(crate) fn new(
        all: &HttpMetrics,
        route: &'static str,
        method: &'static str,
        usual: Option<u16>,
    ) -> Meter {
        Meter {
            route,
            method,
            all: all.clone(),
            usual: usual.map(|status| (status, counter(all, route, method, status))),
            duration: OnceLock::new(),
        }
    }

    /// The path and the method.
    pub(crate) fn name(&self) -> (&'static str, &'static str) {
        (self.route, self.method)
    }

    pub(crate) fn answered(&self, status: u16, took: Duration) {
        match &self.usual {
            Some((usual, count)) if *usual == status => count.inc(),
            _ => counter(&self.all, self.route, self.method, status).inc(),
        };
        let route = self.route;
        let histogram = || {
            self.all
                .durations
                .get_or_create_owned(&RouteLabel { route })
        };
        self.duration.get_or_init(histogram).observe(took);
    }
}

fn counter(
    all: &HttpMetrics,
    route: &'static str,
    method: &'static str,
    status: u16,
) -> Counter<u64, AtomicU64> {
    all.requests.get_or_create_owned(&HttpLabels {
        route,
        method,
        status,
    })
}
