//! Metrics: counted while serving, or read during a scrape.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use seqd_net::Lock;

use crate::durations::Durations;

/// The first word of every metric's name.
const PREFIX: &str = "seqd";

/// The number of sequences with a label of their own; the others share `other`. Each label is a
/// time series that every scraper keeps for weeks.
pub(crate) const MAX_SEQUENCE_LABELS: usize = 1000;

/// The results of a refill.
const REFILL_RESULTS: [&str; 2] = ["granted", "failed"];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct HttpLabels {
    pub(crate) route: &'static str,
    pub(crate) method: &'static str,
    pub(crate) status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct RouteLabel {
    pub(crate) route: &'static str,
}

/// The labels of a request of a protocol other than HTTP.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ProtocolLabels {
    pub(crate) protocol: &'static str,
    pub(crate) command: &'static str,
    /// `ok`, or the code of the error.
    pub(crate) code: Cow<'static, str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ProtocolLabel {
    pub(crate) protocol: &'static str,
}

/// Requests of protocols other than HTTP.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProtocolMetrics {
    pub(crate) requests: Family<ProtocolLabels, Counter<u64, AtomicU64>>,
    pub(crate) durations: Family<ProtocolLabel, Durations>,
    /// Scripts of Redis clients that are not among the known ones.
    pub(crate) unknown_scripts: Counter,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SequenceLabel {
    sequence: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

/// Requests and their durations, by route.
#[derive(Clone, Debug, Default)]
pub(crate) struct HttpMetrics {
    pub(crate) requests: Family<HttpLabels, Counter<u64, AtomicU64>>,
    pub(crate) durations: Family<RouteLabel, Durations>,
}

/// Metrics that are counted while serving.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) http: HttpMetrics,
    pub(crate) protocols: ProtocolMetrics,
    allocated: Family<SequenceLabel, Counter>,
    allocated_labels: Lock<BTreeSet<String>>,
    refills: Family<ResultLabel, Counter>,
    refill_duration: Durations,
    abandoned: Counter,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        Metrics {
            registry: Registry::with_prefix(PREFIX),
            ..Metrics::default()
        }
        .registered()
    }

    fn registered(mut self) -> Metrics {
        // A counter that first appears with a value shows no increase.
        for result in REFILL_RESULTS {
            drop(self.refills.get_or_create(&ResultLabel { result }));
        }
        let registry = &mut self.registry;
        // The client library appends `_total` to counters.
        registry.register("http_requests", "HTTP requests", self.http.requests.clone());
        registry.register(
            "http_request_duration_seconds",
            "Time from a request's head to its answer",
            self.http.durations.clone(),
        );
        registry.register(
            "protocol_requests",
            "Requests of protocols other than HTTP",
            self.protocols.requests.clone(),
        );
        registry.register(
            "protocol_request_duration_seconds",
            "Time from a request of another protocol to its reply",
            self.protocols.durations.clone(),
        );
        registry.register(
            "redis_unknown_scripts",
            "Scripts of Redis clients that this node does not recognise",
            self.protocols.unknown_scripts.clone(),
        );
        registry.register(
            "sequence_allocated",
            "Sequence values issued to clients by this node, segments of clients included, also those \
             that a client returns unused",
            self.allocated.clone(),
        );
        registry.register(
            "segment_refills",
            "Segments requested",
            self.refills.clone(),
        );
        registry.register(
            "segment_refill_duration_seconds",
            "Time until a segment was granted",
            self.refill_duration.clone(),
        );
        registry.register(
            "segment_abandoned_values",
            "Granted sequence values that were discarded unused",
            self.abandoned.clone(),
        );
        self
    }

    pub(crate) fn allocated(&self, sequence: &str, count: u64) {
        self.allocated_by(sequence).inc_by(count);
    }

    /// The counter of the values of a sequence.
    pub(crate) fn allocated_by(&self, sequence: &str) -> Counter {
        let label = {
            let mut known = self.allocated_labels.lock();
            if known.contains(sequence) {
                sequence
            } else if known.len() < MAX_SEQUENCE_LABELS {
                known.insert(sequence.to_owned());
                sequence
            } else {
                "other"
            }
        };
        let label = SequenceLabel {
            sequence: label.to_owned(),
        };
        self.allocated.get_or_create_owned(&label)
    }

    pub(crate) fn refilled(&self, is_granted: bool, took: Duration) {
        let result = REFILL_RESULTS[usize::from(!is_granted)];
        self.refills.get_or_create(&ResultLabel { result }).inc();
        self.refill_duration.observe(took);
    }

    pub(crate) fn abandoned(&self, count: u64) {
        self.abandoned.inc_by(count);
    }

    pub(crate) fn text(&self, scrape: Scrape) -> Result<String, fmt::Error> {
        let mut text = String::with_capacity(16 * 1024);
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, &scrape.registry)?;
        encode_registry(&mut text, &scrape.process)?;
        encode_eof(&mut text)?;
        Ok(text)
    }
}

/// Converts OpenMetrics to the older text format of Prometheus: the `HELP` and `TYPE` lines of a
/// counter have the name of its samples, and there are no units and no end marker.
pub(crate) fn plain(open_metrics: &str) -> String {
    let counters: HashSet<&str> = open_metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let about = ["# HELP ", "# TYPE "];
        let about = about
            .iter()
            .find_map(|word| Some((*word, line.strip_prefix(word)?)));
        match about.and_then(|(word, rest)| Some((word, rest.split_once(' ')?))) {
            Some((word, (name, rest))) if counters.contains(name) => {
                text.extend([word, name, "_total ", rest]);
            }
            Some((word, (name, "unknown"))) => text.extend([word, name, " untyped"]),
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// The labels of a value, each with its name.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// Metrics that are read during a scrape.
#[derive(Debug)]
pub(crate) struct Scrape {
    registry: Registry,
    /// Metrics of the process, without the prefix of this program.
    process: Registry,
}

impl Scrape {
    pub(crate) fn new() -> Scrape {
        Scrape {
            registry: Registry::with_prefix(PREFIX),
            process: Registry::default(),
        }
    }

    /// Adds a value of the process that may fall.
    pub(crate) fn process(&mut self, name: &'static str, help: &'static str, value: f64) {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(value);
        self.process.register(name, help, gauge);
    }

    /// Adds a value of the process that only rises; `_total` is appended.
    pub(crate) fn process_count(&mut self, name: &'static str, help: &'static str, value: f64) {
        let counter = Counter::<f64, AtomicU64>::default();
        counter.inc_by(value);
        self.process.register(name, help, counter);
    }

    /// Adds a value that may fall.
    pub(crate) fn one(&mut self, name: &'static str, help: &'static str, value: f64) {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(value);
        self.registry.register(name, help, gauge);
    }

    /// Adds a value that only rises; `_total` is appended.
    pub(crate) fn count(&mut self, name: &'static str, help: &'static str, value: u64) {
        let counter = Counter::<u64, AtomicU64>::default();
        counter.inc_by(value);
        self.registry.register(name, help, counter);
    }

    /// Adds values that may fall, by label.
    pub(crate) fn by_label(
        &mut self,
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        let family = Family::<Labels, Gauge<f64, AtomicU64>>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).set(value);
        }
        self.registry.register(name, help, family);
    }

    /// Adds values that only rise, by label; `_total` is appended.
    pub(crate) fn count_by_label(
        &mut self,
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        let family = Family::<Labels, Counter>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).inc_by(value);
        }
        self.registry.register(name, help, family);
    }

    /// Adds a histogram that is kept elsewhere, as cumulative counts by upper bound.
    pub(crate) fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        sum: f64,
        count: u64,
        cumulative: &[(f64, u64)],
    ) {
        let mut before = 0;
        let mut buckets: Vec<(f64, u64)> = cumulative
            .iter()
            .map(|(bound, upto)| {
                let own = upto.saturating_sub(before);
                before = *upto;
                (*bound, own)
            })
            .collect();
        if buckets.last().is_none_or(|(bound, _)| bound.is_finite()) {
            buckets.push((f64::INFINITY, count.saturating_sub(before)));
        }
        let kept = StoredHistogram {
            name,
            help,
            sum,
            count,
            buckets,
        };
        self.registry.register_collector(Box::new(kept));
    }
}

#[derive(Debug)]
struct StoredHistogram {
    name: &'static str,
    help: &'static str,
    sum: f64,
    count: u64,
    buckets: Vec<(f64, u64)>,
}

impl Collector for StoredHistogram {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut metric =
            encoder.encode_descriptor(self.name, self.help, None, MetricType::Histogram)?;
        let no_exemplars = None::<&std::collections::HashMap<usize, _>>;
        metric.encode_histogram::<Labels>(self.sum, self.count, &self.buckets, no_exemplars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_scraped_values_make_one_text() {
        let metrics = Metrics::new();
        metrics.allocated("order", 7);
        metrics.refilled(true, Duration::from_millis(3));
        let labels = HttpLabels {
            route: "/v1/id",
            method: "GET",
            status: 200,
        };
        metrics.http.requests.get_or_create(&labels).inc();
        let mut scrape = Scrape::new();
        scrape.one("raft_term", "The term", 3.0);
        scrape.count_by_label(
            "ids_generated",
            "IDs",
            [(vec![("layout", "default".to_owned())], 5)],
        );
        scrape.histogram(
            "raft_fsync_duration_seconds",
            "fsync",
            0.5,
            3,
            &[(0.1, 1), (1.0, 2)],
        );
        let text = metrics.text(scrape).unwrap();
        for line in [
            "seqd_http_requests_total{route=\"/v1/id\",method=\"GET\",status=\"200\"} 1",
            "seqd_sequence_allocated_total{sequence=\"order\"} 7",
            "seqd_segment_refills_total{result=\"granted\"} 1",
            "seqd_raft_term 3.0",
            "seqd_ids_generated_total{layout=\"default\"} 5",
            "seqd_raft_fsync_duration_seconds_bucket{le=\"1.0\"} 2",
            "seqd_raft_fsync_duration_seconds_bucket{le=\"+Inf\"} 3",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_older_text_form_has_the_names_of_its_samples() {
        let metrics = Metrics::new();
        metrics.allocated("order", 7);
        let mut scrape = Scrape::new();
        scrape.one("raft_term", "The term", 3.0);
        let open = metrics.text(scrape).unwrap();
        let text = plain(&open);
        let begins = |text: &str, line: &str| text.lines().any(|found| found.starts_with(line));
        assert!(begins(&open, "# TYPE seqd_sequence_allocated counter"));
        for line in [
            "# HELP seqd_sequence_allocated_total ",
            "# TYPE seqd_sequence_allocated_total counter",
            "seqd_sequence_allocated_total{sequence=\"order\"} 7",
            "# TYPE seqd_raft_term gauge",
            "seqd_raft_term 3.0",
        ] {
            assert!(begins(&text, line), "{line}\n{text}");
        }
        for line in ["# EOF", "# UNIT", "# TYPE seqd_sequence_allocated counter"] {
            assert!(!begins(&text, line), "{line}\n{text}");
        }
        let samples = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(samples(&text), samples(&open));
    }

    #[test]
    fn the_names_of_sequences_are_capped() {
        let metrics = Metrics::new();
        for number in 0..=MAX_SEQUENCE_LABELS {
            metrics.allocated(&format!("s{number}"), 1);
        }
        let text = metrics.text(Scrape::new()).unwrap();
        assert!(text.contains("{sequence=\"other\"} 1"));
    }
}
