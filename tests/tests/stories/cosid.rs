//! The routes of CosId's proxy: machine numbers, segments and IDs, as its clients call them.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use seqd_tests::callers::guarded;
use seqd_tests::cluster::Cluster;
use seqd_tests::http::{self, Reply};
use seqd_tests::wait;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(20);

fn cosid(nodes: usize) -> Cluster {
    let planned = Cluster::planned(nodes);
    planned
        .with("compat", "routes", "[\"cosid\",\"katsubushi\"]")
        .ready()
}

/// The parameters that CosId's client sends.
fn machine(namespace: &str, instance: &str, bits: u32, duration: &str) -> String {
    format!(
        "/machines/{namespace}?instanceId={instance}&stable=false&machineBit={bits}\
         &safeGuardDuration={duration}"
    )
}

fn ask(cluster: &Cluster, node: usize, method: &str, path: &str) -> Reply {
    http::request(method, &cluster.url(node, path)).reply()
}

fn number(reply: &Reply) -> u64 {
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["machineId"].as_u64().expect("a number")
}

fn refusal(reply: &Reply) -> String {
    let errors = &reply.json()["errors"];
    assert_eq!((reply.status, errors), (400, &json!([])), "{}", reply.body);
    reply.code()
}

#[test]
fn an_instance_keeps_its_machine_number() {
    let cluster = cosid(3);
    let take = |node: usize, instance: &str| {
        let path = machine("shop", instance, 2, "PT5M");
        number(&ask(&cluster, node, "POST", &path))
    };
    assert_eq!(take(0, "10.0.0.1:80"), 0);
    assert_eq!(take(1, "10.0.0.2:80"), 1);
    assert_eq!(take(2, "10.0.0.1:80"), 0, "the same instance");
    let other = machine("{other}", "10.0.0.2:80", 2, "PT5M").replace(['{', '}'], "");
    assert_eq!(
        number(&ask(&cluster, 0, "POST", &other)),
        0,
        "another namespace"
    );
    let by_host = "/machines/shop?host=10.0.0.2&port=80&machineBit=2&safeGuardDuration=PT5M";
    assert_eq!(number(&ask(&cluster, 0, "POST", by_host)), 1);
    let stats = cluster.get(0, "/stats").ok().json();
    let before = stats["time"].as_u64().unwrap() * 1000;
    let reply = ask(
        &cluster,
        0,
        "POST",
        &machine("shop", "10.0.0.3:80", 2, "PT5M"),
    );
    assert_eq!(number(&reply), 2);
    let since = reply.json()["lastTimeStamp"].as_u64().unwrap();
    assert!(since.abs_diff(before) < 5000, "{since} at {before}");
    assert_eq!(take(0, "10.0.0.4:80"), 3);
    let full = ask(
        &cluster,
        1,
        "POST",
        &machine("shop", "10.0.0.5:80", 2, "PT5M"),
    );
    assert_eq!(refusal(&full), "M-01");
    let words = "InstanceId:[InstanceId{instanceId=10.0.0.5:80, stable=false}] - distribution \
                 failed - totalMachineIds:[4]";
    assert_eq!(full.json()["msg"], words);

    let path = machine("shop", "10.0.0.2:80", 2, "PT5M");
    let guarded = ask(&cluster, 2, "PATCH", &path);
    assert_eq!((guarded.status, guarded.body.as_str()), (200, ""));
    assert_eq!(ask(&cluster, 2, "DELETE", &path).status, 200);
    assert_eq!(refusal(&ask(&cluster, 0, "PATCH", &path)), "M-02");
    assert_eq!(refusal(&ask(&cluster, 0, "DELETE", &path)), "M-02");
    assert_eq!(take(0, "10.0.0.5:80"), 1, "the reverted number");
}

#[test]
fn a_machine_number_without_a_recent_guard_is_taken_if_no_other_is_free() {
    let cluster = cosid(1);
    let short = machine("shop", "a", 1, "PT1S");
    assert_eq!(number(&ask(&cluster, 0, "POST", &short)), 0);
    let stable = "/machines/shop?instanceId=s&stable=true&machineBit=1&safeGuardDuration=PT1S";
    assert_eq!(number(&ask(&cluster, 0, "POST", stable)), 1);
    let long = machine("shop", "b", 1, "PT5M");
    assert_eq!(refusal(&ask(&cluster, 0, "POST", &long)), "M-01");
    let other = machine("shop", "b", 1, "PT1S");
    let taken = wait::until("the end of the window", PATIENCE, || {
        assert_eq!(ask(&cluster, 0, "DELETE", stable).status, 200);
        let reply = ask(&cluster, 0, "POST", &other);
        (reply.status == 200).then(|| number(&reply))
    });
    assert_eq!(taken, 0, "a stable instance keeps its number");
    assert_eq!(refusal(&ask(&cluster, 0, "PATCH", &short)), "M-02");
}

#[test]
fn machine_numbers_of_instances_that_start_together_differ() {
    let cluster = cosid(3);
    let numbers: BTreeSet<u64> = std::thread::scope(|scope| {
        let cluster = &cluster;
        let take = |at: usize| {
            let path = machine("shop", &format!("pod-{at}"), 10, "PT5M");
            move || number(&ask(cluster, at % 3, "POST", &path))
        };
        let tasks: Vec<_> = (0..48).map(|at| scope.spawn(take(at))).collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    });
    assert_eq!(numbers.len(), 48);
}

#[test]
fn unfit_machine_requests_are_refused() {
    let cluster = cosid(1);
    let forever = machine("shop", "a", 10, "PT2562047788015H12M55.807S");
    let reply = ask(&cluster, 0, "POST", &forever);
    assert_eq!(refusal(&reply), "400");
    assert!(
        reply.body.contains("cosid.machine.guarder"),
        "{}",
        reply.body
    );
    for path in [
        machine("shop", "a", 0, "PT5M"),
        machine("shop", "a", 99, "PT5M"),
        machine("shop", "a", 10, "5m"),
        machine("shop", "", 10, "PT5M"),
        machine("a%2Fb", "a", 10, "PT5M"),
    ] {
        assert_eq!(refusal(&ask(&cluster, 0, "POST", &path)), "400", "{path}");
    }
    let instance = |bytes| machine("shop", &"a".repeat(bytes), 10, "PT5M");
    number(&ask(&cluster, 0, "POST", &instance(128)));
    for method in ["POST", "PATCH", "DELETE"] {
        let reply = ask(&cluster, 0, method, &instance(129));
        assert_eq!(refusal(&reply), "400", "{method}");
        let words = "an instance has at most 128 bytes, not 129";
        assert!(reply.body.contains(words), "{}", reply.body);
    }
    assert_eq!(ask(&cluster, 0, "GET", "/machines/shop").status, 405);
}

#[test]
fn a_segment_ends_at_the_number_that_is_returned() {
    let cluster = cosid(3);
    let next = |node: usize, name: &str, step: i64| {
        let path = format!("/segments/shop/{name}?step={step}");
        ask(&cluster, node, "PATCH", &path)
    };
    let unknown = next(0, "order", 100);
    assert_eq!((unknown.status, unknown.code().as_str()), (500, "500"));
    let create = "/segments/distributor/shop/order?offset=0&step=100";
    for node in 0..3 {
        let created = ask(&cluster, node, "POST", create);
        assert_eq!((created.status, created.body.as_str()), (200, ""));
    }
    let ends: Vec<String> = (0..3).map(|node| next(node, "order", 100).body).collect();
    assert_eq!(ends, ["100", "200", "300"]);
    assert_eq!(next(0, "order", 1).body, "301");
    let create = "/segments/distributor/shop/paid?offset=1000&step=10";
    ask(&cluster, 1, "POST", create).ok();
    assert_eq!(next(2, "paid", 10).body, "1010");
    // A deleted sequence never starts again at the offset.
    for (offset, end) in [(0, "1020"), (5000, "5010"), (7, "5020")] {
        let path = "/v1/sequences/cosid.shop.paid";
        ask(&cluster, 0, "DELETE", path).ok();
        let create = format!("/segments/distributor/shop/paid?offset={offset}&step=10");
        ask(&cluster, 1, "POST", &create).ok();
        assert_eq!(next(2, "paid", 10).body, end);
    }
    for step in [0, -1, 1_000_001] {
        assert_eq!(refusal(&next(0, "order", step)), "400", "{step}");
    }
    let sequence = cluster.get(0, "/v1/sequences/cosid.shop.order").ok();
    assert_eq!(sequence.json()["mode"], "strict");
}

#[test]
fn ids_are_numbers_or_texts() {
    let cluster = cosid(1);
    for path in ["/ids", "/ids/order"] {
        let reply = cluster.get(0, path).ok();
        assert!(reply.json().is_u64(), "{path}: {}", reply.body);
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
    for path in ["/ids/as-string", "/ids/as-string/order"] {
        let reply = cluster.get(0, path).ok();
        assert!(reply.body.parse::<u64>().is_ok(), "{}", reply.body);
        assert_eq!(
            reply.header("content-type"),
            Some("text/plain;charset=UTF-8")
        );
    }
    assert_eq!(cluster.get(0, "/ids?n=2").ok().body.split('\n').count(), 2);
}

/// Java's HTTP client offers HTTP/2 with each request over plain HTTP.
#[test]
fn an_offer_of_http_2_is_ignored() {
    let cluster = cosid(1);
    let mut stream = TcpStream::connect(cluster.node(0).http_address()).unwrap();
    let path = machine("shop", "a", 10, "PT5M");
    let head = format!(
        "POST {path} HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nContent-Length: 0\r\n\
         Host: localhost\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n\
         Upgrade: h2c\r\nUser-Agent: Java-http-client/21\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut read = Vec::new();
    while !read.ends_with(b"}") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a response");
        read.push(byte[0]);
    }
    let text = String::from_utf8(read).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(text.contains("{\"machineId\":0,"), "{text}");
}

#[test]
fn a_machine_number_needs_a_token_where_callers_need_one() {
    let planned = Cluster::planned(1).with("compat", "routes", "[\"cosid\"]");
    let (cluster, _file) = guarded(planned);
    let path = machine("shop", "a", 10, "PT5M");
    ask(&cluster, 0, "POST", &path).refused(401, "unauthorized");
}
