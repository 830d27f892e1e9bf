//! Counts the responses of each path and method at low cost: a success costs three atomic additions.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;

use crate::durations::Durations;
use crate::metrics::{HttpLabels, HttpMetrics, RouteLabel};

/// The status of nearly all responses.
const OK: u16 = 200;

/// The method of requests that no operation takes: they are refused, and never counted as successes.
pub(crate) const OTHER: &str = "other";

/// Counts the responses of one path and method. The counter of successes exists from the start
/// where there can be any. Any other series begins with its first response.
#[derive(Debug)]
pub(crate) struct Meter {
    route: &'static str,
    method: &'static str,
    all: HttpMetrics,
    ok: OnceLock<Counter<u64, AtomicU64>>,
    duration: OnceLock<Durations>,
}

impl Meter {
    pub(crate) fn new(all: &HttpMetrics, route: &'static str, method: &'static str) -> Meter {
        let ok = OnceLock::new();
        if method != OTHER {
            ok.get_or_init(|| counter(all, route, method, OK));
        }
        Meter {
            route,
            method,
            all: all.clone(),
            ok,
            duration: OnceLock::new(),
        }
    }

    pub(crate) fn answered(&self, status: u16, took: Duration) {
        let (route, method) = (self.route, self.method);
        if status == OK {
            let ok = || counter(&self.all, route, method, OK);
            self.ok.get_or_init(ok).inc();
        } else {
            counter(&self.all, route, method, status).inc();
        }
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
