//! The leases of the workers, observed by continuous requests to every node.

use std::time::Duration;

use serde_json::Value;

use crate::checkers::leases::Lease;
use crate::clients::Clients;
use crate::cluster::{Cluster, integer};
use crate::http;

/// The time between two rounds, and the timeout of a request in them: far shorter than any lease.
const EVERY: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct LeaseWatch {
    urls: Vec<String>,
    rounds: Clients<Vec<Lease>>,
}

impl LeaseWatch {
    pub fn begin(cluster: &Cluster) -> Self {
        let urls = cluster.urls();
        let asked = urls.clone();
        let round = move || {
            let leases = asked.iter().flat_map(|url| leases_at(url, PATIENCE));
            (leases.collect(), EVERY)
        };
        Self {
            rounds: Clients::start([round]),
            urls,
        }
    }

    /// Every observed lease of the layout `default`, once for each of its fences.
    pub fn finish(self) -> Vec<Lease> {
        // A last round begins after the end, so that it covers all minted IDs.
        let rounds = self.rounds.finish().into_iter().flatten();
        let last = self.urls.iter();
        let last = last.flat_map(|url| leases_at(url, http::PATIENCE));
        let mut seen = Vec::new();
        for lease in rounds.chain(last) {
            if !seen.contains(&lease) {
                seen.push(lease);
            }
        }
        seen
    }
}

/// The leases in one node's state; none if it does not answer.
fn leases_at(url: &str, patience: Duration) -> Vec<Lease> {
    let request = http::get(&format!("{url}/v1/workers?limit=1000")).patience(patience);
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
