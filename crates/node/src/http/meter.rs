//! Counting what one path and method answers, cheaply: a success costs one atomic add.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::http::StatusCode;

use crate::metrics::{HttpLabels, HttpMetrics, RouteLabel};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

/// Counts the answers of one path and method.
#[derive(Debug)]
pub(super) struct Meter {
    route: &'static str,
    method: &'static str,
    all: HttpMetrics,
    ok: Counter<u64, AtomicU64>,
    duration: Histogram,
}

impl Meter {
    pub(super) fn new(all: &HttpMetrics, route: &'static str, method: &'static str) -> Meter {
        let labels = HttpLabels {
            route,
            method,
            status: 200,
        };
        let ok = all.requests.get_or_create(&labels).clone();
        let duration = all.durations.get_or_create(&RouteLabel { route }).clone();
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
            self.ok.inc();
        } else {
            let (route, method, status) = (self.route, self.method, status.as_u16());
            self.all
                .requests
                .get_or_create(&HttpLabels {
                    route,
                    method,
                    status,
                })
                .inc();
        }
        self.duration.observe(took.as_secs_f64());
    }
}
