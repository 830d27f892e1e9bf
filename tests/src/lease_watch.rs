//! Records the leases of the workers by polling every node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::checkers::leases::Lease;
use crate::cluster::{Cluster, integer};
use crate::http;

/// The time between two rounds, and the timeout of a request. Both are far shorter than any lease.
const EVERY: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct LeaseWatch {
    over: Arc<AtomicBool>,
    watch: JoinHandle<Vec<Lease>>,
}

impl LeaseWatch {
    pub fn begin(cluster: &Cluster) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (urls, ends) = (cluster.urls(), Arc::clone(&over));
        let watch = std::thread::spawn(move || {
            let mut seen = Vec::new();
            loop {
                // A last round begins after the end of the run, so that all minted IDs are covered.
                let is_last = ends.load(Ordering::Relaxed);
                for lease in urls.iter().flat_map(|url| leases_at(url)) {
                    if !seen.contains(&lease) {
                        seen.push(lease);
                    }
                }
                if is_last {
                    return seen;
                }
                std::thread::sleep(EVERY);
            }
        });
        Self { over, watch }
    }

    /// Every lease of the layout `default`, once for each observed fence.
    pub fn finish(self) -> Vec<Lease> {
        self.over.store(true, Ordering::Relaxed);
        self.watch.join().expect("the watch of the leases")
    }
}

/// The leases that one node reports. Empty if it does not respond.
fn leases_at(url: &str) -> Vec<Lease> {
    let request = http::get(&format!("{url}/v1/workers?limit=1000")).patience(PATIENCE);
    let Ok(reply) = request.send() else {
        return Vec::new();
    };
    let body = reply.json();
    let items = body["items"].as_array().map_or(&[][..], Vec::as_slice);
    items.iter().filter_map(lease).collect()
}

/// A lease of the layout `default` that a node `nN` holds.
fn lease(item: &Value) -> Option<Lease> {
    let node: usize = item["node"].as_str()?.strip_prefix('n')?.parse().ok()?;
    let number = |name: &str| integer(&item[name]).cast_unsigned();
    (item["layout"] == "default").then(|| Lease {
        lease: number("lease"),
        worker: number("id"),
        node: node - 1,
        from_tick: number("from_tick"),
        fence_tick: number("fence_tick"),
    })
}
