//! The Redis protocol over a real cluster: counters, locks, scripts, tokens.

use std::iter;
use std::thread;
use std::time::{Duration, Instant};

use seqd_tests::callers::{Caller, OPERATOR, guarded};
use seqd_tests::cluster::Cluster;
use seqd_tests::http::post;
use seqd_tests::ports::Port;
use seqd_tests::resp::{Resp, Value, command, with_redis};
use seqd_tests::wait::until;
use serde_json::json;

const OK: fn() -> Value = || Value::Simple("OK".to_owned());

/// Longer than an election and the lifetime of a lock of these stories.
const PATIENCE: Duration = Duration::from_secs(60);

/// Releases a lock if it has the value.
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', \
                       KEYS[1]) else return 0 end";

/// Extends a lock if it has the value.
const EXTEND: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return \
                      redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end";

fn started(count: usize) -> (Cluster, Vec<Port>) {
    let (cluster, ports) = with_redis(Cluster::planned(count));
    (cluster.ready(), ports)
}

#[test]
fn a_counter_rises_through_all_nodes_as_one_of_redis_does() {
    let (_cluster, ports) = started(3);
    let mut clients: Vec<Resp> = ports.iter().map(Resp::connect).collect();
    for value in 1..=30 {
        let client = &mut clients[value % 3];
        assert_eq!(client.call("INCR order").integer(), value as i64);
    }
    let first = &mut clients[0];
    assert_eq!(first.call("INCRBY order 1000000").integer(), 1_000_030);
    assert_eq!(first.call("GET order"), Value::bulk("1000030"));
    assert_eq!(first.call("SET order 2000000"), OK());
    assert_eq!(clients[1].call("INCR order").integer(), 2_000_001);
    assert_eq!(clients[2].call("SET new 41"), OK());
    assert_eq!(clients[1].call("INCR new").integer(), 42);

    let first = &mut clients[0];
    let backwards = first.call("SET order 7");
    assert!(backwards.error().starts_with("ERR would-go-backwards: "));
    for (words, reply) in [
        ("TTL order", Value::Integer(-1)),
        ("PTTL none", Value::Integer(-2)),
        ("EXISTS order new none", Value::Integer(2)),
        ("TYPE order", Value::Simple("string".to_owned())),
        ("GET none", Value::Nil),
        ("DBSIZE", Value::Integer(2)),
        ("SET order x NX PX 1000", Value::Nil),
    ] {
        assert_eq!(first.call(words), reply, "{words}");
    }
    for (words, begin) in [
        ("INCR", "ERR wrong number of arguments for 'incr' command"),
        (
            "INCRBY order x",
            "ERR value is not an integer or out of range",
        ),
        (
            "INCRBY order 0",
            "ERR invalid-argument: a counter moves forward",
        ),
        ("INCRBY order 1000001", "ERR count-too-large: "),
        (
            "INCR no/sequence",
            "ERR invalid-argument: a sequence name has ",
        ),
        (
            "DEL order",
            "ERR invalid-argument: a sequence is not deleted here",
        ),
        (
            "EXPIRE order 10",
            "ERR invalid-argument: a counter does not expire",
        ),
        (
            "LPUSH a b",
            "ERR unknown command 'LPUSH', with args beginning with: 'a' 'b'",
        ),
        ("SELECT 1", "ERR DB index is out of range"),
    ] {
        let refused = first.call(words);
        assert!(refused.error().starts_with(begin), "{words}: {refused:?}");
    }
}

#[test]
fn pipelined_increments_are_answered_in_order_whatever_their_names() {
    let (_cluster, ports) = started(1);
    let mut client = Resp::connect(&ports[0]);
    let names = ["a", "b", "a", "c", "a", "b"];
    let mut bytes = Vec::new();
    for _ in 0..200 {
        bytes.extend(names.iter().flat_map(|name| command(&["INCR", name])));
        bytes.extend(command(&["PING"]));
    }
    client.write(&bytes).expect("a connection");
    let mut last = std::collections::BTreeMap::new();
    for _ in 0..200 {
        for name in names {
            let value = client.reply().expect("a reply").integer();
            let before = last.insert(name, value);
            assert_eq!(value, before.unwrap_or(0) + 1, "{name}");
        }
        assert_eq!(
            client.reply().expect("a reply"),
            Value::Simple("PONG".to_owned())
        );
    }
}

/// A node serves up to 128 pipelined requests together, but mints at most `http.max_count` IDs at
/// once.
#[test]
fn pipelined_ids_are_answered_one_by_one_and_rise() {
    let (mut cluster, ports) = with_redis(Cluster::planned(1));
    cluster.node_mut(0).set("http", "max_count", "50");
    let _cluster = cluster.ready();
    let mut client = Resp::connect(&ports[0]);
    let mut bytes = command(&["SEQD.ID"]).repeat(300);
    bytes.extend(command(&["SEQD.ID", "2"]));
    bytes.extend(command(&["INCR", "a"]));
    bytes.extend(command(&["SEQD.ID"]).repeat(2));
    client.write(&bytes).expect("a connection");
    let mut replies = (0..304).map(|_| client.reply().expect("a reply"));
    let mut ids: Vec<Value> = replies.by_ref().take(300).collect();
    let two = replies.next().expect("a reply");
    assert!(
        matches!(&two, Value::Array(two) if two.len() == 2),
        "{two:?}"
    );
    assert_eq!(replies.next(), Some(Value::Integer(1)));
    ids.extend(replies);
    let number = |id: &Value| match id {
        Value::Bulk(text) => text.parse::<u64>().unwrap(),
        other => panic!("{other:?} is no ID"),
    };
    let numbers: Vec<u64> = ids.iter().map(number).collect();
    assert_eq!(numbers.len(), 302);
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
}

#[test]
fn a_lock_has_one_holder_and_its_value_is_the_key_to_it() {
    let (cluster, ports) = started(3);
    let (mut one, mut two) = (Resp::connect(&ports[0]), Resp::connect(&ports[1]));
    assert_eq!(one.call("SET jobs secret-1 NX PX 60000"), OK());
    assert_eq!(two.call("SET jobs secret-2 NX EX 60"), Value::Nil);
    assert_eq!(two.call("GET jobs"), Value::bulk("secret-1"));
    let token = two.call("SEQD.TOKEN jobs secret-1").integer();
    assert_eq!(two.call("SEQD.TOKEN jobs secret-2"), Value::Nil);

    // The value is not shown to clients of another protocol.
    let shown = "redis:f7e7c36e";
    let lock = cluster.get(2, "/v1/locks/jobs").ok();
    assert_eq!(lock.json()["holders"][0]["owner"], shown, "{lock:?}");
    let url = cluster.url(2, "/v1/locks/jobs/acquire");
    let refused = post(&url)
        .json(&json!({"owner": "pod"}))
        .send()
        .expect("a reply");
    assert_eq!(refused.status, 409);
    assert!(
        !refused.body.contains("secret-1"),
        "a secret owner is shown"
    );
    assert_eq!(refused.json()["owner"], shown);

    assert_eq!(
        two.send(&["EVAL", RELEASE, "1", "jobs", "secret-2"])
            .integer(),
        0
    );
    assert_eq!(
        two.send(&["EVAL", EXTEND, "1", "jobs", "secret-1", "90000"])
            .integer(),
        1
    );
    assert!(two.call("PTTL jobs").integer() > 60_000);
    // A hold is never shortened.
    assert_eq!(two.call("PEXPIRE jobs 1000").integer(), 1);
    assert_eq!(two.call("PEXPIRE jobs 1000 GT").integer(), 0);
    assert!(two.call("PTTL jobs").integer() > 60_000);
    assert_eq!(
        two.send(&["EVAL", RELEASE, "1", "jobs", "secret-1"])
            .integer(),
        1
    );
    assert_eq!(
        two.send(&["EVAL", RELEASE, "1", "jobs", "secret-1"])
            .integer(),
        0
    );
    assert_eq!(two.call("SET jobs secret-2 NX PX 60000"), OK());
    let next = one.call("SEQD.TOKEN jobs secret-2").integer();
    assert!(next > token, "the token {next} follows {token}");
    assert_eq!(one.call("DEL jobs").integer(), 1);
    assert_eq!(one.call("GET jobs"), Value::Nil);

    for (words, begin) in [
        ("SET jobs v NX", "ERR a lock needs an expiry time"),
        ("SET jobs v PX 1000", "ERR a lock is set with NX"),
        ("SET jobs v", "ERR only an integer is set without NX and PX"),
        (
            "SET jobs v NX PX 99",
            "ERR invalid-argument: a lock is held for PX 100 to 86400000",
        ),
        (
            "SET jobs v NX EX 86401",
            "ERR invalid-argument: a lock is held for PX 100 to 86400000",
        ),
        ("SET jobs v XX PX 1000", "ERR a lock is set with NX and PX"),
        ("EVAL return(1) 0", "ERR unknown script "),
        ("EVALSHA 0000 1 jobs v", "NOSCRIPT "),
    ] {
        let refused = one.call(words);
        assert!(refused.error().starts_with(begin), "{words}: {refused:?}");
    }
    let metrics = cluster.get(0, "/metrics").ok();
    assert!(metrics.body.contains("seqd_redis_unknown_scripts_total 1"));
}

#[test]
fn a_script_is_loaded_once_and_repeated_by_its_sha1() {
    let (_cluster, ports) = started(1);
    let mut client = Resp::connect(&ports[0]);
    let sha1 = match client.send(&["SCRIPT", "LOAD", RELEASE]) {
        Value::Bulk(sha1) => sha1,
        other => panic!("{other:?}"),
    };
    let known = client.send(&["SCRIPT", "EXISTS", &sha1, "0000"]);
    assert_eq!(
        known,
        Value::Array(vec![Value::Integer(1), Value::Integer(0)])
    );
    client.call("SET jobs v NX PX 60000");
    assert_eq!(
        client.send(&["EVALSHA", &sha1, "1", "jobs", "v"]).integer(),
        1
    );
    let two = client.send(&["EVALSHA", &sha1, "2", "jobs", "other", "v"]);
    assert!(
        two.error()
            .starts_with("ERR a lock script has one key here")
    );
}

#[test]
fn a_client_chooses_the_version_and_a_line_is_a_request() {
    let (_cluster, ports) = started(1);
    let mut client = Resp::connect(&ports[0]);
    assert_eq!(client.call("GET none"), Value::Nil);
    assert!(client.call("HELLO 4").error().starts_with("NOPROTO"));
    assert!(matches!(client.call("HELLO 3 SETNAME app"), Value::Map(_)));
    assert_eq!(client.call("GET none"), Value::Null);
    assert_eq!(client.call("CLIENT GETNAME"), Value::bulk("app"));
    client.write(b"INCR \"a\"\r\n").expect("a connection");
    assert_eq!(client.reply().expect("a reply").integer(), 1);
    assert_eq!(client.call("RESET"), Value::Simple("RESET".to_owned()));
    assert_eq!(client.call("GET none"), Value::Nil);

    client.write(b"*1\r\n:1\r\n").expect("a connection");
    let refused = client.reply().expect("a reply");
    assert_eq!(refused.error(), "ERR Protocol error: expected '$', got ':'");
    assert!(client.reply().is_err(), "the connection is open");
}

fn signed_in(port: &Port, token: &str) -> Resp {
    let mut client = Resp::connect(port);
    let version = client.send(&["HELLO", "2", "AUTH", "default", token]);
    assert!(matches!(version, Value::Array(_)), "{version:?}");
    client
}

#[test]
fn a_token_is_needed_and_separates_the_locks_of_two_clients() {
    let (cluster, ports) = with_redis(Cluster::planned(1));
    let (cluster, _file) = guarded(cluster);
    let (allocate, _) = Caller::with(&cluster, &json!({"scopes": ["allocate"]}));
    let (other, id) = Caller::with(&cluster, &json!({"scopes": ["allocate"]}));
    let (narrow, _) = Caller::with(&cluster, &json!({"scopes": ["allocate:a."]}));
    let mut client = Resp::connect(&ports[0]);
    for words in [
        "PING",
        "INCR order",
        "SCRIPT EXISTS 00",
        "EVALSHA 00 0",
        "HELLO 3",
        "NO-COMMAND",
        "AUTH wrong",
    ] {
        let begun = Instant::now();
        let refused = client.call(words);
        let took = begun.elapsed();
        assert!(
            took >= Duration::from_millis(100),
            "{words}: refused after {took:?}"
        );
        let begin = if words == "AUTH wrong" {
            "WRONGPASS "
        } else {
            "NOAUTH "
        };
        assert!(refused.error().starts_with(begin), "{words}: {refused:?}");
    }
    let auth = |token: &str| signed_in(&ports[0], token);
    let mut one = auth(&allocate.token);
    let mut two = auth(&other.token);
    let mut narrow = auth(&narrow.token);
    let mut operator = auth(OPERATOR);
    assert_eq!(one.call("INCR order").integer(), 1);
    let wrong = one.call("AUTH wrong");
    assert!(wrong.error().starts_with("WRONGPASS "), "{wrong:?}");
    assert_eq!(
        one.call("INCR order").integer(),
        2,
        "the earlier token is lost"
    );
    assert_eq!(narrow.call("INCR a.order").integer(), 1);
    assert!(narrow.call("INCR order").error().starts_with("NOPERM "));
    // Setting a counter needs the scope that an advance needs over HTTP.
    assert!(one.call("SET order 10").error().starts_with("NOPERM "));
    assert_eq!(operator.call("SET order 10"), OK());

    assert_eq!(one.call("SET jobs value NX PX 60000"), OK());
    for client in [&mut two, &mut operator] {
        assert_ne!(
            client.call("GET jobs"),
            Value::bulk("value"),
            "another token sees it"
        );
        let released = client.send(&["EVAL", RELEASE, "1", "jobs", "value"]);
        assert_eq!(released.integer(), 0, "another token released the lock");
        assert!(client.call("DEL jobs").error().starts_with("NOPERM "));
        assert!(
            client
                .call("PEXPIRE jobs 90000")
                .error()
                .starts_with("NOPERM ")
        );
    }
    assert_eq!(
        one.send(&["EVAL", RELEASE, "1", "jobs", "value"]).integer(),
        1
    );

    // After a token is revoked, its open connections refuse requests.
    assert_eq!(two.call("INCR order").integer(), 11);
    let path = format!("/v1/access/{id}");
    Caller::operator(&cluster).delete(&path).ok();
    let refused = until("the revocation", PATIENCE, || {
        let reply = two.call("INCR order");
        matches!(reply, Value::Error(_)).then_some(reply)
    });
    assert!(refused.error().starts_with("NOAUTH "), "{refused:?}");
}

#[test]
fn a_request_with_several_keys_counts_once_and_deletes_all_or_none() {
    let (cluster, ports) = with_redis(Cluster::planned(1));
    let (cluster, _file) = guarded(cluster);
    let limited = json!({"scopes": ["allocate"], "per_second": 6});
    let (limited, _) = Caller::with(&cluster, &limited);
    let mut slow = signed_in(&ports[0], &limited.token);
    let mut operator = signed_in(&ports[0], OPERATOR);
    assert_eq!(slow.call("SET a value NX PX 60000"), OK());
    assert_eq!(slow.call("SET b value NX PX 60000"), OK());
    assert_eq!(operator.call("SET c value NX PX 60000"), OK());
    assert!(slow.call("DEL a b c").error().starts_with("NOPERM "));
    assert_eq!(slow.call("DEL a b a none").integer(), 2);

    // A single request that counts twice would be refused.
    let limited = json!({"scopes": ["admin"], "per_second": 3});
    let (limited, _) = Caller::with(&cluster, &limited);
    let mut slow = signed_in(&ports[0], &limited.token);
    assert_eq!(slow.call("SET counter 10"), OK());
    assert_eq!(slow.call("SET counter 20"), OK());
    let limited = json!({"scopes": ["allocate"], "per_second": 4});
    let (limited, _) = Caller::with(&cluster, &limited);
    let mut slow = signed_in(&ports[0], &limited.token);
    let channels = (0..60).map(|at| format!("redisson_lock__channel:{{a{at}}}"));
    let words: Vec<String> = iter::once("SUBSCRIBE".to_owned()).chain(channels).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    slow.write(&command(&words)).expect("a connection");
    for _ in 0..60 {
        let confirmed = slow.reply().expect("a reply");
        assert!(matches!(confirmed, Value::Array(_)), "{confirmed:?}");
    }
}

#[test]
fn contenders_exclude_each_other_while_leaders_are_killed() {
    let (mut cluster, ports) = started(3);
    let end = Instant::now() + Duration::from_secs(12);
    let ledger = cluster.folder().join("ledger");
    std::fs::write(&ledger, "").expect("a file");
    let tokens = thread::scope(|scope| {
        let contenders: Vec<_> = (0..6)
            .map(|number| {
                let (ports, ledger) = (&ports, &ledger);
                scope.spawn(move || contend(number, ports, ledger, end))
            })
            .collect();
        for _ in 0..2 {
            thread::sleep(Duration::from_secs(3));
            let leader = cluster.leader();
            cluster.node_mut(leader).kill();
            cluster.node_mut(leader).start();
            cluster.wait_ready();
        }
        let joined = contenders
            .into_iter()
            .map(|it| it.join().expect("a contender"));
        joined.collect::<Vec<Vec<(i64, u64)>>>()
    });
    // In the order of tokens, each holder found the ledger as the previous holder left it.
    let mut holds: Vec<(i64, u64)> = tokens.into_iter().flatten().collect();
    holds.sort_unstable();
    assert!(holds.len() >= 20, "{} holds", holds.len());
    let lengths: Vec<u64> = holds.iter().map(|(_, length)| *length).collect();
    let counted: Vec<u64> = (0..holds.len() as u64).collect();
    assert_eq!(lengths, counted, "two holders at the same time");
}

/// Acquires the lock repeatedly, and under it adds a byte to the ledger, which has no other
/// protection. Returns the fencing token of each hold and the length of the ledger that it found.
fn contend(
    number: usize,
    ports: &[Port],
    ledger: &std::path::Path,
    end: Instant,
) -> Vec<(i64, u64)> {
    let mut holds = Vec::new();
    let mut node = number;
    while Instant::now() < end {
        node += 1;
        let Ok(mut client) = Resp::try_connect(&ports[node % ports.len()]) else {
            continue;
        };
        for turn in 0..20 {
            let value = format!("{number}-{node}-{turn}");
            let set = ["SET", "ledger", &value, "NX", "PX", "5000"];
            match client.try_send(&set) {
                Ok(Value::Simple(_)) => {}
                Ok(Value::Nil) => {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                }
                _ => break,
            }
            let Ok(Value::Integer(token)) = client.try_send(&["SEQD.TOKEN", "ledger", &value])
            else {
                break;
            };
            let length = std::fs::metadata(ledger).expect("the ledger").len();
            thread::sleep(Duration::from_millis(2));
            let grown = vec![b'x'; length as usize + 1];
            std::fs::write(ledger, grown).expect("the ledger");
            holds.push((token, length));
            if client
                .try_send(&["EVAL", RELEASE, "1", "ledger", &value])
                .is_err()
            {
                break;
            }
        }
    }
    holds
}
