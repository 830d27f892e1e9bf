//! Clients that write many times the capacity of small disks: disk use stays bounded, and expired
//! data makes space by itself.
//!
//! A separate disk needs the right to mount. Without it, a story is skipped.

use std::cell::Cell;
use std::time::{Duration, Instant};

use seqd_tests::asker::Asker;
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::loop_disk::{FileSystem, cannot_mount};
use seqd_tests::runtime::block_on;
use seqd_tests::{node_peaks, skips, wait};
use serde_json::json;

const DISK: u64 = 192 << 20;

/// The bytes of results that are written. The log and the checkpoint contain them once each.
const WRITTEN: u64 = DISK;

/// Just below the size of the largest result.
const RESULT: usize = 16_000;

const CLIENTS: usize = 24;

/// Longer than a node's own time limit.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pause after a refusal.
const PAUSE: Duration = Duration::from_millis(20);

/// Two minutes are many times the duration of the load. On a disk that stays full, it would never
/// end.
const LONGEST: Duration = Duration::from_secs(120);

/// Begins and completes keys with a TTL of one second until the results have `WRITTEN` bytes.
/// Returns the codes of responses that no client should receive.
async fn write_results(addresses: &[String], name: &str, written: &Cell<u64>) -> Vec<String> {
    let mut asker = Asker::new(addresses);
    let mut unexpected = Vec::new();
    let end = Instant::now() + LONGEST;
    for number in 0.. {
        if written.get() >= WRITTEN || Instant::now() > end {
            break;
        }
        let path = |what: &str| format!("/v1/idempotency/{name}.{number}/{what}");
        let (begin, complete) = (path("begin"), path("complete"));
        let body = json!({"ttl_ms": 1_000, "claim_ttl_ms": 500}).to_string();
        let node = number % addresses.len();
        let begun = asker.ask(node, ("POST", &begin, ""), &body, PATIENCE).await;
        let Ok(begun) = begun else {
            unexpected.push("no answer".to_owned());
            continue;
        };
        let mut code = begun.code();
        if begun.is_ok() {
            let body = json!({"claim": begun.json()["claim"], "result": "r".repeat(RESULT)});
            let body = body.to_string();
            let asked = ("POST", complete.as_str(), "");
            match asker.ask(node, asked, &body, PATIENCE).await {
                Ok(done) if done.is_ok() => {
                    written.set(written.get() + RESULT as u64);
                    continue;
                }
                Ok(done) => code = done.code(),
                Err(_) => code = "no answer".to_owned(),
            }
        }
        // A key with a TTL of one second may expire before its result arrives, and a leader
        // transfers leadership to a node with more space.
        let expected = [
            "overloaded",
            "lease-lost",
            "not-found",
            "no-quorum",
            "outcome-unknown",
        ];
        if !expected.contains(&&*code) {
            unexpected.push(code);
        }
        tokio::time::sleep(PAUSE).await;
    }
    unexpected
}

fn fill(cluster: &Cluster) -> (u64, Vec<String>) {
    let (addresses, written) = (cluster.addresses(), Cell::new(0));
    let (addresses, written) = (&addresses, &written);
    let clients = (0..CLIENTS).map(|client| async move {
        let name = format!("full.{client}");
        write_results(addresses, &name, written).await
    });
    let unexpected = block_on(futures_util::future::join_all(clients));
    (written.get(), unexpected.concat())
}

#[test]
fn results_of_keys_that_expire_do_not_fill_small_disks() {
    if skips::ends("small disks", cannot_mount(FileSystem::Ext4)) {
        return;
    }
    let cluster = Cluster::planned(3).on_disks(FileSystem::Ext4, DISK);
    let mut cluster = cluster.ready().with_order();
    let ((written, unexpected), peaks) = node_peaks::during(&cluster, || fill(&cluster));
    for peak in &peaks {
        eprintln!("{peak}");
    }
    for node in 0..cluster.size() {
        let tail = cluster.node(node).tail();
        assert!(cluster.node_mut(node).is_running(), "{tail}");
        wait::until("a strict value at each node", READY, || {
            let value = cluster.post(node, "/v1/sequences/order/next");
            (value.status == 200).then_some(())
        });
    }
    assert!(written >= WRITTEN, "{written} bytes were written");
    assert_eq!(unexpected, Vec::<String>::new());
    cluster.wait_same_state(&[0, 1, 2]);
}
