//! The channels of Redisson's locks over a real cluster.

use seqd_tests::callers::{Caller, guarded};
use seqd_tests::cluster::Cluster;
use seqd_tests::resp::{Resp, Value, with_redis};
use serde_json::json;

const JOBS: &str = "redisson_lock__channel:{jobs}";

fn pushed(kind: &str, channel: &str, last: Value) -> Value {
    Value::Array(vec![Value::bulk(kind), Value::bulk(channel), last])
}

fn message(channel: &str) -> Value {
    pushed("message", channel, Value::bulk("0"))
}

#[test]
fn every_node_sends_a_message_when_a_lock_is_free_again() {
    let (cluster, ports) = with_redis(Cluster::planned(3));
    let _cluster = cluster.ready();
    let mut holder = Resp::connect(&ports[0]);
    let mut subscribers: Vec<Resp> = ports.iter().map(Resp::connect).collect();
    subscribers[2].call("HELLO 3");
    for subscriber in &mut subscribers {
        let confirmed = subscriber.call(&format!("SUBSCRIBE {JOBS}"));
        assert_eq!(confirmed, pushed("subscribe", JOBS, Value::Integer(1)));
    }
    let set = |holder: &mut Resp, ms: u32| {
        let held = holder.call(&format!("SET jobs a NX PX {ms}"));
        assert_eq!(held, Value::Simple("OK".to_owned()));
    };
    // The lock is released, then expires. In Redis itself, an expiry would cause no message.
    for ms in [60_000, 500] {
        set(&mut holder, ms);
        assert_eq!(holder.call("HGET jobs a"), Value::bulk("1"));
        assert_eq!(holder.call("HEXISTS jobs b").integer(), 0);
        if ms == 60_000 {
            assert_eq!(holder.call("DEL jobs").integer(), 1);
        }
        for subscriber in &mut subscribers {
            assert_eq!(subscriber.reply().expect("a message"), message(JOBS));
        }
    }
    // A subscribed connection of protocol version 2 serves no other command; one of version 3 does.
    let first = &mut subscribers[0];
    let refused = first.call("GET jobs");
    assert!(refused.error().starts_with("ERR Can't execute 'get': "));
    first.write(b"INCR x\r\nINCR x\r\nSEQD.ID\r\n").unwrap();
    for name in ["incr", "incr", "seqd.id"] {
        let refused = first.reply().expect("a reply");
        let begin = format!("ERR Can't execute '{name}': ");
        assert!(refused.error().starts_with(&begin), "{refused:?}");
    }
    let pong = Value::Array(vec![Value::bulk("pong"), Value::bulk("")]);
    assert_eq!(first.call("PING"), pong);
    let too_many = first.call("PING a b");
    assert!(
        too_many
            .error()
            .starts_with("ERR wrong number of arguments")
    );
    let none = first.call("UNSUBSCRIBE");
    assert_eq!(none, pushed("unsubscribe", JOBS, Value::Integer(0)));
    assert_eq!(first.call("GET jobs"), Value::Nil);
    assert_eq!(subscribers[2].call("GET jobs"), Value::Null);

    // The other subscribers still receive messages, and the first one does not.
    set(&mut holder, 60_000);
    holder.call("DEL jobs");
    for subscriber in &mut subscribers[1..] {
        assert_eq!(subscriber.reply().expect("a message"), message(JOBS));
    }
    assert_eq!(subscribers[0].call("INCR a").integer(), 1);
}

#[test]
fn a_connection_has_a_bounded_number_of_channels_of_locks() {
    let (cluster, ports) = with_redis(Cluster::planned(1));
    let _cluster = cluster.ready();
    let mut client = Resp::connect(&ports[0]);
    let refused = client.call("SUBSCRIBE news");
    assert!(
        refused
            .error()
            .starts_with("ERR the channels here are those of Redisson's locks"),
        "{refused:?}"
    );
    for number in 1..=64 {
        let channel = format!("redisson_lock__channel:{{{number}}}");
        let confirmed = client.call(&format!("SUBSCRIBE {channel}"));
        assert_eq!(
            confirmed,
            pushed("subscribe", &channel, Value::Integer(number))
        );
    }
    let refused = client.call(&format!("SUBSCRIBE {JOBS}"));
    assert_eq!(refused.error(), "ERR a connection has at most 64 channels");
}

#[test]
fn a_subscription_needs_a_token_for_the_lock_and_ends_with_it() {
    let (cluster, ports) = with_redis(Cluster::planned(1));
    let (cluster, _file) = guarded(cluster);
    let (narrow, id) = Caller::with(&cluster, &json!({"scopes": ["read:a.", "allocate:a."]}));
    let auth = || {
        let mut client = Resp::connect(&ports[0]);
        client.send(&["AUTH", &narrow.token]);
        client
    };
    let (mut client, mut holder) = (auth(), auth());
    let refused = client.call(&format!("SUBSCRIBE {JOBS}"));
    assert!(refused.error().starts_with("NOPERM "), "{refused:?}");
    let own = "redisson_lock__channel:{a.jobs}";
    client.call(&format!("SUBSCRIBE {own}"));
    holder.call("SET a.jobs v NX PX 60000");
    assert_eq!(holder.call("DEL a.jobs").integer(), 1);
    assert_eq!(client.reply().expect("a message"), message(own));

    holder.call("SET a.jobs v NX PX 60000");
    let operator = Caller::operator(&cluster);
    operator.delete(&format!("/v1/access/{id}")).ok();
    // The lock remains held.
    let refused = client.reply().expect("a reply");
    assert!(refused.error().starts_with("NOAUTH "), "{refused:?}");
    assert!(client.reply().is_err(), "the connection is open");
}
