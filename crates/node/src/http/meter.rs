//! Counting what one path and method answers, cheaply: a success costs one atomic add.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use crate::metrics::{HttpLabels, HttpMetrics, RouteLabel};

/// Counts the answers of one path and method. A series begins with its first answer.
#[derive(Debug)]
pub(super) struct Meter {
    route: &'static str,
    method: &'static str,
    all: HttpMetrics,
    ok: OnceLock<Counter<u64, AtomicU64>>,
    duration: OnceLock<Histogram>,
}

impl Meter {
    pub(super) fn new(all: &HttpMetrics, route: &'static str, method: &'static str) -> Meter {
        let (ok, duration) = (OnceLock::new(), OnceLock::new());
        Meter {
            route,
            method,
            all: all.clone(),
            ok,
            duration,
        }
    }

    pub(super) fn answered(&self, status: StatusCode, took: Duration) {
        if status == StatusCode::OK {
            self.ok.get_or_init(|| self.counter(status)).inc();
        } else {
            self.counter(status).inc();
        }
        let route = self.route;
        let histogram = || {
            self.all
                .durations
                .get_or_create_owned(&RouteLabel { route })
        };
        self.duration
            .get_or_init(histogram)
            .observe(took.as_secs_f64());
    }

    fn counter(&self, status: StatusCode) -> Counter<u64, AtomicU64> {
        let (route, method, status) = (self.route, self.method, status.as_u16());
        self.all.requests.get_or_create_owned(&HttpLabels {
            route,
            method,
            status,
        })
    }
}
