//! The HTTP routes of Leaf, TinyID and katsubushi, as their clients call them.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use seqd_tests::callers::{OPERATOR, guarded};
use seqd_tests::cluster::Cluster;
use seqd_tests::http::{self, Reply};
use seqd_tests::wait;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(20);

fn with_routes(routes: &str) -> Cluster {
    Cluster::planned(1).with("compat", "routes", routes)
}

fn ask(cluster: &Cluster, method: &str, path: &str) -> Reply {
    http::request(method, &cluster.url(0, path)).reply()
}

fn create(cluster: &Cluster, name: &str, definition: &Value) {
    cluster.create_sequence(0, name, definition);
}

fn kind(reply: &Reply) -> &str {
    reply.header("content-type").unwrap_or_default()
}

/// The status, the content type and the body.
fn seen(reply: &Reply) -> (u16, &str, &str) {
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    (reply.status, kind(reply), &reply.body)
}

#[test]
fn routes_exist_only_where_they_are_enabled() {
    let paths = [
        ("leaf", "/api/snowflake/get/a"),
        ("tinyid", "/tinyid/id/nextId"),
        ("cosid", "/ids/as-string/a"),
        ("katsubushi", "/id"),
    ];
    let none = Cluster::started(1);
    for (_, path) in paths {
        none.get(0, path).refused(404, "not-found");
    }
    let leaf = with_routes("[\"leaf\"]").ready();
    for (system, path) in paths {
        let reply = leaf.get(0, path);
        assert_eq!(reply.status == 404, system != "leaf", "{path}");
    }
}

#[test]
fn leaf_returns_bare_digits() {
    let cluster = with_routes("[\"leaf\"]").ready();
    create(&cluster, "leaf-segment-test", &json!({"mode": "segment"}));
    let path = "/api/segment/get/leaf-segment-test?unknown=1";
    for (method, value) in [("GET", "1"), ("POST", "2"), ("PUT", "3"), ("DELETE", "4")] {
        let reply = ask(&cluster, method, path);
        let plain = "text/plain;charset=UTF-8";
        assert_eq!(seen(&reply), (200, plain, value), "{method}");
    }
    for method in ["OPTIONS", "TRACE"] {
        let refused = ask(&cluster, method, path);
        refused.refused(405, "method-not-allowed");
    }
    let keyed = http::get(&cluster.url(0, path)).header("Idempotency-Key", "k");
    keyed.reply().refused(400, "invalid-argument");
    let reply = http::get(&cluster.url(0, path)).accept_json().reply();
    let json = "application/json;charset=UTF-8";
    assert_eq!(seen(&reply), (200, json, "5"));

    let id: u64 = cluster
        .get(0, "/api/snowflake/get/x")
        .ok()
        .body
        .parse()
        .unwrap();
    let decoded = cluster.get(0, &format!("/decodeSnowflakeId?snowflakeId={id}"));
    let ms = (id >> 22) + 1_288_834_974_657;
    let fields = decoded.json();
    assert_eq!(fields["workerId"], (id >> 12 & 1023).to_string());
    assert_eq!(fields["sequenceId"], (id & 4095).to_string());
    let time = fields["timestamp"].as_str().unwrap();
    assert!(
        time.starts_with(&format!("{ms}(20")) && time.ends_with(')'),
        "{time}"
    );
    assert_eq!(
        time.len(),
        ms.to_string().len() + "(2019-09-06 09:35:00.834)".len()
    );
    let keys = ["workerId", "sequenceId", "timestamp"].map(|key| decoded.body.find(key));
    assert!(keys.is_sorted(), "{}", decoded.body);
    let wrong = cluster.get(0, "/decodeSnowflakeId?snowflakeId=x");
    assert!(
        wrong.status == 200 && wrong.body.contains("errorMsg"),
        "{}",
        wrong.body
    );
}

#[test]
fn leaf_refuses_with_the_json_of_spring() {
    let cluster = with_routes("[\"leaf\"]")
        .with("compat", "leaf_layout", "\"missing\"")
        .ready();
    for (path, id) in [
        ("/api/segment/get/nothing", -2),
        ("/api/segment/get/%E4%BD%A0", -2),
        ("/api/snowflake/get/nothing", -3),
    ] {
        let reply = cluster.get(0, path);
        let (status, kind, body) = seen(&reply);
        assert_eq!((status, kind), (500, "application/json"), "{path}");
        let message = format!("Result{{id={id}, status=EXCEPTION}}");
        let rest = format!(
            r#"","status":500,"error":"Internal Server Error","message":"{message}","path":"{path}"}}"#
        );
        let time = body.strip_prefix(r#"{"timestamp":""#).unwrap();
        let time = time.strip_suffix(&rest).unwrap_or_else(|| panic!("{body}"));
        assert_eq!(time.len(), "2019-05-08T08:06:43.555+0000".len(), "{time}");
    }
    let log = cluster.node(0).stderr();
    assert_eq!(
        log.matches("seqd layout create missing").count(),
        1,
        "{log}"
    );
    let missing = cluster.get(0, "/decodeSnowflakeId");
    assert_eq!(missing.status, 400);
}

#[test]
fn tinyid_returns_its_envelope() {
    let cluster = with_routes("[\"tinyid\"]").ready();
    create(&cluster, "order", &json!({"mode": "segment"}));
    create(&cluster, "odd", &json!({"mode": "segment", "increment": 2}));
    create(
        &cluster,
        "strict",
        &json!({"mode": "strict", "start": 7, "increment": 3}),
    );
    let get = |path: &str| cluster.get(0, &format!("/tinyid/id/{path}"));
    let body = |path: &str| {
        let reply = get(path);
        assert_eq!(seen(&reply).0, 200, "{path}: {}", reply.body);
        reply.body
    };
    let envelope = |data: &str| format!(r#"{{"data":{data},"code":200,"message":""}}"#);
    assert_eq!(body("nextId?bizType=order&token=x"), envelope("[1]"));
    assert_eq!(kind(&get("nextId?bizType=order")), "application/json");
    assert_eq!(
        body("nextId?bizType=order&batchSize=3&token=x"),
        envelope("[3,4,5]")
    );
    assert_eq!(body("nextId?bizType=order&batchSize=0"), envelope("[]"));
    assert_eq!(body("nextIdSimple?bizType=order&batchSize=2"), "6,7");
    assert_eq!(body("nextIdSimple?bizType=order&batchSize="), "8");
    assert_eq!(body("nextIdSimple?bizType=order&batchSize=0"), "");
    let many = body("nextIdSimple?bizType=strict&batchSize=100000");
    assert_eq!(many.split(',').count(), 100_000);
    assert!(many.starts_with("7,10,13,"));

    let segment = body("nextSegmentIdSimple?bizType=order");
    let numbers: Vec<i64> = segment
        .split(',')
        .map(|text| text.parse().unwrap())
        .collect();
    let [current, loading, last, 1, 0] = numbers[..] else {
        panic!("{segment}");
    };
    assert_eq!((last - current, loading - current), (10_000, 2000));
    let odd = body("nextSegmentId?bizType=odd");
    let expected = r#"{"maxId":19999,"loadingId":3999,"currentId":0,"delta":2,"remainder":1}"#;
    assert_eq!(odd, envelope(expected));
    let strict = body("nextSegmentId?bizType=strict");
    assert!(strict.contains(r#""delta":3,"remainder":1}"#), "{strict}");

    let refused =
        |code: u8, message: &str| format!(r#"{{"data":null,"code":{code},"message":"{message}"}}"#);
    for path in ["nextId", "nextSegmentId"] {
        let unknown = body(&format!("{path}?bizType=a%20b"));
        assert_eq!(unknown, refused(6, "can not find biztype:a b"));
        let unknown = body(&format!("{path}?bizType=other"));
        assert_eq!(unknown, refused(6, "can not find biztype:other"));
        assert_eq!(body(&format!("{path}Simple?bizType=other")), "");
        assert_eq!(body(path), refused(5, "token is error"));
    }
    let much = body("nextId?bizType=order&batchSize=100001");
    assert!(
        much.starts_with(r#"{"data":null,"code":6,"message":"#),
        "{much}"
    );
    assert_eq!(body("nextIdSimple?bizType=order&batchSize=100001"), "");
    let wrong = get("nextId?bizType=order&batchSize=x");
    assert!(wrong.status == 400 && wrong.body.contains("NumberFormatException"));
}

#[test]
fn tinyid_takes_forms_without_and_with_a_body() {
    let cluster = with_routes("[\"tinyid\"]").ready();
    create(&cluster, "order", &json!({"mode": "segment"}));
    let form = "application/x-www-form-urlencoded;charset=UTF-8";
    let post = |path: &str, body: &str| {
        let url = cluster.url(0, &format!("/tinyid/id/{path}"));
        let sent = http::post(&url).header("content-type", form).body(body);
        sent.reply().ok().body
    };
    assert_eq!(post("nextIdSimple?bizType=order&token=t", ""), "1");
    assert_eq!(
        post("nextIdSimple", "bizType=order&batchSize=2&token=t"),
        "2,3"
    );
    let large = "x".repeat(80 * 1024);
    let url = cluster.url(0, "/tinyid/id/nextIdSimple");
    let sent = http::post(&url).header("content-type", form).body(large);
    sent.reply().refused(413, "body-too-large");
}

fn write_tokens(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn tinyid_has_tokens_of_its_own() {
    let planned = with_routes("[\"tinyid\"]");
    let file = planned.folder().join("tinyid");
    write_tokens(
        &file,
        "0f673adf80504e2eaa552f5d791b644c order\n\nsecond order\n",
    );
    let shown = format!("{:?}", file.display().to_string());
    let (cluster, _file) = guarded(planned.with("compat", "tinyid_tokens", &shown));
    let as_operator = |method: &str, path: &str| {
        let bearer = format!("Bearer {OPERATOR}");
        http::request(method, &cluster.url(0, path)).header("authorization", &bearer)
    };
    for name in ["order", "other"] {
        let path = format!("/v1/sequences/{name}");
        as_operator("PUT", &path)
            .json(&json!({"mode": "segment"}))
            .reply()
            .ok();
    }
    let next = |biz_type: &str, token: &str| {
        let path = format!("/tinyid/id/nextIdSimple?bizType={biz_type}&token={token}");
        cluster.get(0, &path).ok().body
    };
    assert_eq!(next("order", "0f673adf80504e2eaa552f5d791b644c"), "1");
    assert_eq!(next("order", "second"), "2");
    for (biz_type, token) in [("order", "wrong"), ("order", ""), ("other", "second")] {
        assert_eq!(next(biz_type, token), "", "{biz_type} {token}");
    }
    let refused = cluster.get(0, "/tinyid/id/nextId?bizType=order&token=wrong");
    assert_eq!(
        refused.body,
        r#"{"data":null,"code":5,"message":"token is error"}"#
    );
    let path = "/tinyid/id/nextIdSimple?bizType=other";
    assert_eq!(as_operator("GET", path).reply().ok().body, "1");
    cluster.get(0, "/v1/id").refused(401, "unauthorized");

    write_tokens(&file, "third order\n");
    wait::until("the changed token", PATIENCE, || {
        (next("order", "third") == "3").then_some(())
    });
    assert_eq!(next("order", "second"), "");
}

#[test]
fn katsubushi_returns_text_without_a_line_end() {
    let cluster = with_routes("[\"katsubushi\"]").ready();
    let one = cluster.get(0, "/id");
    assert_eq!((seen(&one).0, kind(&one)), (200, "text/plain"));
    let mut ids = BTreeSet::from([one.body.parse::<u64>().unwrap()]);
    let several = cluster.get(0, "/ids?n=3&unknown=1").ok().body;
    ids.extend(several.split('\n').map(|id| id.parse::<u64>().unwrap()));
    assert_eq!(ids.len(), 4);
    let most = cluster.get(0, "/ids?n=1000").ok().body;
    assert_eq!(most.split('\n').count(), 1000);
    let json = http::get(&cluster.url(0, "/ids?n=2")).accept_json().reply();
    assert_eq!(json.json()["ids"].as_array().unwrap().len(), 2);
    let json = http::get(&cluster.url(0, "/id")).accept_json().reply();
    assert!(json.json()["id"].is_string(), "{}", json.body);
    assert_eq!(cluster.get(0, "/ids").ok().body.split('\n').count(), 1);
    let many = cluster.get(0, "/ids?n=1001");
    let words = "too many IDs requested: 1001, n should be smaller than 1000";
    assert_eq!(seen(&many), (400, "text/plain", words));
    for n in ["x", "-1"] {
        assert_eq!(cluster.get(0, &format!("/ids?n={n}")).status, 400);
    }
    for path in ["/id", "/ids", "/stats"] {
        assert_eq!(cluster.post(0, path).status, 405, "{path}");
    }
    let stats = cluster.get(0, "/stats").ok().json();
    assert_eq!(stats["get_hits"], 1000 + 8);
}

#[test]
fn the_same_tokens_and_scopes_apply() {
    let (cluster, _file) = guarded(with_routes("[\"leaf\",\"tinyid\",\"katsubushi\"]"));
    for path in [
        "/id",
        "/api/segment/get/a",
        "/tinyid/id/nextId?bizType=a&token=b",
    ] {
        cluster.get(0, path).refused(401, "unauthorized");
    }
    let bearer = format!("Bearer {OPERATOR}");
    let id = http::get(&cluster.url(0, "/id")).header("authorization", &bearer);
    assert!(id.reply().ok().body.parse::<u64>().is_ok());
    let foreign = http::post(&cluster.url(0, "/id"))
        .header("authorization", &bearer)
        .header("origin", "http://evil.example");
    foreign.reply().refused(403, "forbidden");
}
