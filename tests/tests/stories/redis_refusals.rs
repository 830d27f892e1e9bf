//! The Redis protocol: transactions, which are refused, and sequences that were deleted or moved.

use std::time::{Duration, Instant};

use seqd_tests::cluster::Cluster;
use seqd_tests::http::request;
use seqd_tests::ports::Port;
use seqd_tests::resp::{Resp, Value, command, with_redis};
use seqd_tests::wait::until;
use serde_json::json;

const OK: fn() -> Value = || Value::Simple("OK".to_owned());

/// Longer than an election.
const PATIENCE: Duration = Duration::from_secs(60);

fn started(count: usize) -> (Cluster, Vec<Port>) {
    let (cluster, ports) = with_redis(Cluster::planned(count));
    (cluster.ready(), ports)
}

#[test]
fn no_command_of_a_transaction_or_of_a_web_page_is_executed() {
    let (_cluster, ports) = started(1);
    let increments = command(&["INCR", "a"]).repeat(2_000);
    let mut client = Resp::connect(&ports[0]);
    let transaction = [command(&["MULTI"]), increments.clone(), command(&["EXEC"])].concat();
    client.write(&transaction).expect("a connection");
    for _ in 0..2_002 {
        let refused = client.reply().expect("a reply");
        assert!(
            refused.error().starts_with("ERR no transactions: "),
            "{refused:?}"
        );
    }
    assert_eq!(client.call("GET a"), Value::Nil);

    let page = [&b"POST / HTTP/1.1\r\nHost: a\r\n\r\n"[..], &increments].concat();
    client.write(&page).expect("a connection");
    let refused = client.reply().expect("a reply");
    assert!(
        refused.error().starts_with("ERR unknown command"),
        "{refused:?}"
    );
    assert!(client.reply().is_err(), "the connection is open");
    let mut client = Resp::connect(&ports[0]);
    assert_eq!(client.call("INCR a").integer(), 1);
    // A client that closes its sending direction still receives its replies.
    client
        .write(&command(&["INCR", "a"]))
        .expect("a connection");
    client.finish();
    assert_eq!(client.reply().expect("a reply").integer(), 2);
}

/// Some clients send a long transaction in pieces, and others wait for the reply to `MULTI`.
#[test]
fn a_refused_transaction_ends_with_exec_or_with_its_connection() {
    let (_cluster, ports) = started(1);
    for end in ["EXEC", "DISCARD"] {
        let mut client = Resp::connect(&ports[0]);
        for words in ["MULTI", "SET a value NX PX 60000", "INCR b", end] {
            let refused = client.call(words);
            assert!(refused.error().starts_with("ERR no transactions: "));
        }
        assert_eq!(client.call("EXISTS a b").integer(), 0);
    }
    let mut client = Resp::connect(&ports[0]);
    let begun = Instant::now();
    let refused = client.call("MULTI");
    assert!(refused.error().starts_with("ERR no transactions: "));
    while let Ok(refused) = client.try_send(&["INCR", "b"]) {
        assert!(refused.error().starts_with("ERR no transactions: "));
        assert!(begun.elapsed() < PATIENCE, "the connection stays open");
    }
    let mut idle = Resp::connect(&ports[0]);
    assert_eq!(idle.call("INCR b").integer(), 1);
    assert!(matches!(idle.call("MULTI"), Value::Error(_)));
    assert!(idle.reply().is_err(), "the connection stays open");
}

#[test]
fn a_deleted_counter_continues_above_its_earlier_values() {
    let (cluster, ports) = started(1);
    let mut client = Resp::connect(&ports[0]);
    let delete = || {
        request("DELETE", &cluster.url(0, "/v1/sequences/a"))
            .reply()
            .ok()
    };
    assert_eq!(client.call("SET a 100"), OK());
    assert_eq!(client.call("INCR a").integer(), 101);
    delete();
    assert_eq!(client.call("INCR a").integer(), 102);
    for backwards in ["SET a 100", "SET a 7"] {
        delete();
        let refused = client.call(backwards);
        assert!(
            refused.error().starts_with("ERR would-go-backwards: "),
            "{refused:?}"
        );
        assert_eq!(client.call("GET a"), Value::bulk("102"));
    }
    for (forward, next) in [("SET a 102", 103), ("SET a 500", 501)] {
        delete();
        assert_eq!(client.call(forward), OK());
        assert_eq!(client.call("INCR a").integer(), next);
    }
}

/// A member that does not respond may still have a range of earlier values.
#[test]
fn a_counter_of_segments_is_set_once_each_member_has_confirmed_it() {
    let (mut cluster, ports) = started(3);
    cluster.create_sequence(0, "a", &json!({"mode": "segment"}));
    let mut client = Resp::connect(&ports[0]);
    assert_eq!(client.call("SET a 1000"), OK());
    let stopped = cluster.node(2).name().to_owned();
    cluster.node_mut(2).kill();
    let unknown = until("a leader", PATIENCE, || {
        Some(client.call("SET a 2000"))
            .filter(|reply| !matches!(reply, Value::Error(text) if text.starts_with("TRYAGAIN ")))
    });
    assert!(
        unknown.error().starts_with("ERR outcome-unknown: "),
        "{unknown:?}"
    );
    assert!(unknown.error().contains(&stopped), "{unknown:?}");
    cluster.node_mut(2).start();
    cluster.wait_ready();
    let repeated = until("the confirmation", PATIENCE, || {
        Some(client.call("SET a 2000")).filter(|reply| *reply == OK())
    });
    assert_eq!(repeated, OK());
}
